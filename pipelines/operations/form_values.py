"""Values of forms, checked before anything begins: the refusals are those of the commands.

An empty field of a form is `None` or an empty text: both mean no value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medusa_core.errors import Refused
from medusa_core.grid import DURATION_US_MAX, parse_duration_us
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.base.time_text import parse_time_us
from pipelines.platform.jobs.supervised_homes import known_participant, known_participants

TEXT_MAX = 4_000


def text_of(field: str, value: Any) -> str | None:
    """The text of a field without spaces around it, None if it says nothing."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise Refused(f"{field} is not a text of at most {TEXT_MAX:,} characters: write one")
    return value.strip() or None


def participants_of(field: str, settings: Settings, value: Any) -> list[Participant]:
    """Participants by name, separated by commas, or as a list; all of the folder if none is named.

    Refused for a name that no home has, and where there is no home at all.
    """
    if isinstance(value, list | tuple):
        names = [name for name in (text_of(field, one) for one in value) if name]
    else:
        names = [name.strip() for name in (text_of(field, value) or "").split(",") if name.strip()]
    return known_participants(settings, names)


def participant_of(field: str, settings: Settings, value: Any) -> Participant:
    """One participant by name; Refused if none is named."""
    name = text_of(field, value)
    if name is None:
        raise Refused(f"{field} is empty: name a participant")
    return known_participant(settings, name)


def duration_of(
    field: str, value: Any, *, least_us: int = 1, most_us: int = DURATION_US_MAX
) -> int | None:
    """Microseconds of a duration such as 30s; None if the field says nothing."""
    text = text_of(field, value)
    if text is None:
        return None
    try:
        length_us = parse_duration_us(text)
    except Refused as error:
        raise Refused(f"{field}: {error}") from None
    if not least_us <= length_us <= most_us:
        raise Refused(
            f"{field} {text} is out of range: {least_us / 1e6:g}s at least, {most_us / 1e6:g}s at "
            "most"
        )
    return length_us


def time_of(field: str, value: Any) -> int | None:
    """An event time (us); None if the field says nothing."""
    text = text_of(field, value)
    return None if text is None else parse_time_us(field, text)


def network_of(field: str, value: Any, known: set[str]) -> str | None:
    """The name of a network that is deployed; None if the field says nothing."""
    name = text_of(field, value)
    if name is None or name in known:
        return name
    hint = did_you_mean(name, known, "there is " + (", ".join(sorted(known)) or "none"))
    raise Refused(f"{field}: no network {name!r} is deployed: {hint}")


def folder_of(field: str, value: Any, root: Path) -> Path:
    """A folder below a root that the installation has set, the root if none is named.

    Contracts name files that are run: none is taken from anywhere else.
    """
    below = text_of(field, value)
    folder = _below(field, below, root)
    if not folder.is_dir():
        raise Refused(f"{field}: there is no folder {folder}: write one, or leave it empty")
    return folder


def file_of(field: str, value: Any, root: Path) -> Path:
    """A file below a root that the installation has set; Refused if none is named."""
    below = text_of(field, value)
    if below is None:
        raise Refused(f"{field} is empty: name a file below {root}")
    file = _below(field, below, root)
    if not file.is_file():
        raise Refused(f"{field}: there is no file {file}: put it there, or name another one")
    return file


def _below(field: str, below: str | None, root: Path) -> Path:
    if below is not None and "\0" in below:
        raise Refused(f"{field} {below!r} is not the name of a file or folder below {root}")
    found = (root / (below or ".")).resolve()
    if not found.is_relative_to(root.resolve()):
        raise Refused(f"{field} {below!r} leads out of {root}: name one below it")
    return found
