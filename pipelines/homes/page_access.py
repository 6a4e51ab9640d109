"""The value of MEDUSA_PAGE_HOMES: who sees which homes on the operator's page.

`anna: alpha beta; role:viewer: beta; lea: *`: each entry is a user, or a role after `role:` in any
case, and the homes that they see; a user sees the union of the entries that name them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from medusa_core.errors import Refused
from medusa_core.names import check_name

VARIABLE = "MEDUSA_PAGE_HOMES"
ALL, ROLE = "*", "role:"
_ENTRY = re.compile(r"\s*(?P<who>(?:role:)?[^\s:;]+)\s*:\s*(?P<homes>[^:;]*)")

Access = Mapping[str, frozenset[str]] | None
"""User or role -> homes, or `*` for all; None where nothing is said: all homes for all."""


def read_access(text: str | None) -> Access:
    """The value of MEDUSA_PAGE_HOMES. Refused, naming the entry, if it is not valid."""
    if text is None or not text.strip():
        return None
    found: dict[str, frozenset[str]] = {}
    for entry in filter(str.strip, text.split(";")):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise Refused(
                f"{VARIABLE} has the entry {entry.strip()!r}: write USER: HOME HOME, or "
                "role:ROLE: HOME, with ; between entries"
            )
        homes = match["homes"].replace(",", " ").split()
        names = {one if one == ALL else check_name("participant", one) for one in homes}
        who = match["who"].lower() if match["who"].startswith(ROLE) else match["who"]
        found[who] = found.get(who, frozenset()) | names
    return found


def write_access(access: Mapping[str, frozenset[str]]) -> str:
    """The value that `read_access` reads as this."""
    return "; ".join(f"{who}: {' '.join(sorted(homes))}" for who, homes in access.items())
