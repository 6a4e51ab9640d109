"""Commands that a reader can copy and that work, for a folder that holds a home."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.base.time_text import iso


def program() -> str:
    """How to call medusa from the current folder."""
    return shlex.quote(str(near(Path(sys.executable).with_name("medusa"))))


def near(path: Path) -> Path:
    """A path as seen from the current folder, if it lies below."""
    path = path.absolute()
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def next_commands(
    directory: Path,
    *,
    stream: str | None = None,
    from_us: int | None = None,
    has_quarantine: bool = False,
    participant: str | None = None,
    commands: Sequence[str] = ("streams", "status"),
) -> list[str]:
    """Commands to look further into the home in `directory`, of a participant among several."""
    medusa = f"MEDUSA_DIR={shlex.quote(str(near(directory)))} {program()}"
    whose = "" if participant is None else f" --participant {shlex.quote(participant)}"
    found = [f"{medusa} {command}{whose}" for command in commands]
    if stream is not None:
        found.insert(0, f"{medusa} read {stream}{whose}")
        if from_us is not None:
            more = f"--from {iso(from_us)} --limit 5 --json"
            found.append(f"{medusa} read {stream}{whose} {more}")
    if has_quarantine:
        found.append(f"{medusa} read --quarantine{whose}")
    return found
