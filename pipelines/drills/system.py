"""What the machine says of a process: since when it runs, whether it stands still, its group.

A number of a process is given again after its end; number and start together never are, on one
boot. Linux is asked through /proc, other systems through `ps`.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
BOOT = PROC / "sys/kernel/random/boot_id"
_STATE, _GROUP, _STARTED = 0, 2, 19
"""Where these stand in `/proc/PID/stat`, behind the name in brackets (proc(5) counts from 3)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A process as it is now; `started` is only to be compared."""

    started: str
    group: int
    is_frozen: bool


def look_at(pid: int) -> Seen | None:
    """The process of a number; None if there is none, or only what its parent has yet to bury."""
    return _on_linux(pid) if sys.platform == "linux" else _by_ps(pid)


def _on_linux(pid: int) -> Seen | None:
    try:
        boot = BOOT.read_text().strip()
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name may hold anything, brackets and spaces too; nothing behind it does.
    fields = text.rpartition(")")[2].split()
    state = fields[_STATE]
    if state in "ZX":
        return None
    return Seen(f"{boot} {fields[_STARTED]}", int(fields[_GROUP]), state in "Tt")


def _by_ps(pid: int) -> Seen | None:
    asked = ["ps", "-o", "stat=,pgid=,lstart=", "-p", str(pid)]
    plain = {"LC_ALL": "C", "PATH": "/bin:/usr/bin"}
    told = subprocess.run(asked, capture_output=True, text=True, check=False, env=plain)
    fields = told.stdout.split(maxsplit=2)
    if len(fields) < 3 or fields[0].startswith("Z"):
        return None
    return Seen(fields[2].strip(), int(fields[1]), fields[0].startswith("T"))
