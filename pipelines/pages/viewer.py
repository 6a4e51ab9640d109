"""Viewers of the page, and the homes that each of them is shown.

`MEDUSA_PAGE_HOMES` names them: `anna: alpha beta; role:viewer: beta; lea: *`. Each entry is a user,
or a role after `role:` in any case, and the homes that they see; a user sees the union of the
entries that name them. Without it everybody who may look at DAGs in Airflow sees all homes of
MEDUSA_DIR.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.names import Participant, check_name

VARIABLE = "MEDUSA_PAGE_HOMES"
ALL, ROLE = "*", "role:"
_ENTRY = re.compile(r"\s*(?P<who>(?:role:)?[^\s:;]+)\s*:\s*(?P<homes>[^:;]*)")

Access = Mapping[str, frozenset[str]] | None
"""User or role -> homes, or `*` for all; None where nothing is said: all homes for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Somebody who is logged in, and whether their role may trigger DAGs, and look at runs."""

    name: str
    roles: frozenset[str] = frozenset()
    may_trigger: bool = False
    may_see_runs: bool = False


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


def homes_of(viewer: Viewer, access: Access, homes: Iterable[Participant]) -> list[Participant]:
    """Those of the homes that somebody sees, by name."""
    if access is None:
        return sorted(homes)
    # A user who is named like an entry of a role is not that role.
    keys = [] if viewer.name.startswith(ROLE) else [viewer.name]
    keys += [ROLE + role.lower() for role in viewer.roles]
    seen = frozenset[str]().union(*(access.get(key, frozenset()) for key in keys))
    return sorted(home for home in homes if ALL in seen or home in seen)


def sees_all(viewer: Viewer, access: Access, homes: Iterable[Participant]) -> bool:
    """Whether no home is hidden from somebody: files of the folder may be about any of them."""
    homes = list(homes)
    return access is None or (bool(homes) and homes_of(viewer, access, homes) == sorted(homes))
