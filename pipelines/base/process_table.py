"""What the machine says of a process: since when it runs, whether it stands still, group, session.

A number of a process is given again after its end; number and start together never are, on one
boot. Linux is asked through /proc, other systems through `ps`.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pipelines.base.foreign_documents import starting

PROC = Path("/proc")
BOOT = PROC / "sys/kernel/random/boot_id"
_STATE, _GROUP, _SESSION, _STARTED = 0, 2, 3, 19
"""Where these stand in `/proc/PID/stat`, behind the name in brackets (proc(5) counts from 3)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A process as it is now; `started` is only to be compared, a `session` that is hidden is 0."""

    started: str
    group: int
    session: int
    is_frozen: bool


def look_at(pid: int) -> Seen | None:
    """The process of a number; None if there is none, or only what its parent has yet to bury."""
    return _on_linux(pid) if sys.platform == "linux" else _by_ps(pid)


def _on_linux(pid: int) -> Seen | None:
    try:
        boot = _boot()
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name may hold anything, brackets and spaces too; nothing behind it does.
    fields = text.rpartition(")")[2].split()
    state = fields[_STATE]
    if state in "ZX":
        return None
    return Seen(
        started=f"{boot} {fields[_STARTED]}",
        group=int(fields[_GROUP]),
        session=int(fields[_SESSION]),
        is_frozen=state in "Tt",
    )


@functools.cache
def _boot() -> str:
    return BOOT.read_text().strip()


def _by_ps(pid: int) -> Seen | None:
    asked = ["ps", "-o", "stat=,pgid=,lstart=", "-p", str(pid)]
    plain = {"LC_ALL": "C", "PATH": "/bin:/usr/bin"}
    with starting("ps"):
        told = subprocess.run(asked, capture_output=True, text=True, check=False, env=plain)
    fields = told.stdout.split(maxsplit=2)
    if len(fields) < 3 or fields[0].startswith("Z"):
        return None
    try:
        session = os.getsid(pid)
    except OSError:
        session = 0
    return Seen(
        started=fields[2].strip(),
        group=int(fields[1]),
        session=session,
        is_frozen=fields[0].startswith("T"),
    )
