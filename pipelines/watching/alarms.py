"""Alarms of a running driver: its obstacles now, since when, until they are removed.

An alarm has a name, after the blocked activity, and a sentence. The alarms of a driver are kept
in `MEDUSA_DIR/logs/<participant>.alarms.<pid>.json`, which exists as long as one is raised, for
`medusa status`. Alarms of a driver that was killed are not shown: its process is gone, or, if it
ran in another container, it has not written for `OLD_AFTER_S`. Clocks are this machine's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medusa_core.errors import WRONG_FORM
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.files import write_atomically
from pipelines.base.foreign_documents import is_number
from pipelines.base.process_table import look_at, process_table

ALARMS_MAX = 256
BEAT_AFTER_S = 10.0
OLD_AFTER_S = 120.0
"""A driver whose process cannot be seen from here writes every `BEAT_AFTER_S`; one step may take
longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One alarm that is raised: `of` what, why, and since when."""

    of: str
    because: str
    since_s: float


class Alarms:
    """The alarms of one driver; not safe for threads: its owner holds a lock."""

    def __init__(self, directory: Path, participant: Participant) -> None:
        self._directory = directory
        self._participant = participant
        self._raised: dict[str, Alarm] = {}
        self._now_s = 0.0
        self._written_at_s = 0.0

    def raise_(self, of: str, because: str, now_s: float) -> bool:
        """Raise an alarm, or give the one that is raised another reason; whether it is new."""
        self._now_s = now_s
        last = self._raised.get(of)
        if last is None and len(self._raised) >= ALARMS_MAX:
            return False
        if last is None or last.because != because:
            since_s = last.since_s if last else now_s
            self._raised[of] = Alarm(of=of, because=because, since_s=since_s)
            self._write()
        self.beat(now_s)
        return last is None

    def end(self, of: str) -> Alarm | None:
        """End an alarm; which it was, or None if it was not raised."""
        ended = self._raised.pop(of, None)
        if ended is not None:
            self._write()
        return ended

    def beat(self, now_s: float) -> None:
        """The driver is there: write the time, if any alarm is raised, unless it was just done."""
        self._now_s = now_s
        if self._raised and not 0 <= now_s - self._written_at_s < BEAT_AFTER_S:
            self._write()

    def raised(self) -> Mapping[str, str]:
        """Those that are raised now: of what, and why."""
        return {alarm.of: alarm.because for alarm in self._raised.values()}

    def close(self) -> None:
        """End all: nobody is there any more who could go on."""
        self._raised.clear()
        self._write()

    def _write(self) -> None:
        own, self._written_at_s = os.getpid(), self._now_s
        file = _folder(self._directory) / f"{_prefix(self._participant)}{own}.json"
        with suppress(OSError):
            if not self._raised:
                file.unlink(missing_ok=True)
                return
            process = look_at(own)
            document = {
                "table": process_table(),
                "written_at_s": self._now_s,
                "started": process.started if process else None,
                "alarms": [asdict(alarm) for alarm in self._raised.values()],
            }
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps(document), durable=False)


def alarm_facts(
    directory: Path, participant: Participant, now_s: float | None = None
) -> list[dict[str, Any]]:
    """The alarms of the drivers of a home that live, oldest first."""
    now_s = clock.wall_s() if now_s is None else now_s
    found: list[dict[str, Any]] = []
    prefix = _prefix(participant)
    with suppress(OSError):
        for file in sorted(_folder(directory).glob(f"{prefix}*.json")):
            pid = file.name.removeprefix(prefix).removesuffix(".json")
            found += _facts(file, int(pid), now_s) if pid.isdecimal() else ()
    return sorted(found, key=lambda alarm: -float(alarm["lasts_ms"]))


def _facts(file: Path, pid: int, now_s: float) -> list[dict[str, Any]]:
    """Those of one file; none of a process that is gone, or of a file that nobody can read."""
    try:
        document = json.loads(file.read_text())
        if not _is_alive(document, pid, now_s):
            return []
        return [_fact(alarm, now_s) for alarm in document["alarms"]]
    except (OSError, *WRONG_FORM):
        return []


def _is_alive(document: Mapping[str, Any], pid: int, now_s: float) -> bool:
    """Whether the driver of a file is there: its process or, if that cannot be seen from here, the
    time at which it wrote."""
    if "table" in document and document["table"] != process_table():
        written_at_s = document["written_at_s"]
        return is_number(written_at_s) and abs(now_s - written_at_s) < OLD_AFTER_S
    process = look_at(pid)
    return process is not None and process.started == document["started"]


def _fact(alarm: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    if not is_number(alarm["since_s"]):
        raise ValueError("since_s is not a number")
    return {
        "of": str(alarm["of"]),
        "because": str(alarm["because"]),
        "lasts_ms": max(int((now_s - alarm["since_s"]) * 1_000), 0),
    }


def _folder(directory: Path) -> Path:
    return directory / "logs"


def _prefix(participant: Participant) -> str:
    return f"{participant}.alarms."
