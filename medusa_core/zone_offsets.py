"""The form of time zones: `UTC`, an offset such as `+01:00`, or a name such as `Europe/Berlin`.

Whether a name is that of a zone, and which offset it has when, is in the database of time zones.
"""

from __future__ import annotations

import re

_OFFSET = re.compile(r"([+-])([01][0-9]|2[0-3]):([0-5][0-9])")
_NAME = re.compile(r"[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*){0,2}")


def has_form_of_zone(text: str) -> bool:
    """Whether a text is an offset, or may be the name of a zone."""
    return bool(_OFFSET.fullmatch(text) or _NAME.fullmatch(text))


def zone_offset_us(zone: str) -> int | None:
    """The offset of a zone that is one (`+01:00`), in microseconds; None for a zone by name."""
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    minutes = 60 * int(found[2]) + int(found[3])
    return (-minutes if found[1] == "-" else minutes) * 60_000_000
