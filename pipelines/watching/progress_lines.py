"""What a running participant does, for a terminal: the events of its log, summed up in lines.

A line is written when something has happened, and a second after the line before at the earliest.
It has what was landed, imported, committed and delivered since then, how far each stream is, and
alarms. An idle participant writes nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from medusa_core.segments import Stability
from medusa_core.suggest import counted
from pipelines.base import clock
from pipelines.base.text_table import printable
from pipelines.base.time_text import iso

LINES_APART_S = 1.0
STREAMS_MAX = 3
MESSAGES_MAX = 3
MESSAGE_LENGTH_MAX = 300


class ProgressLines:
    """Sums up events, and passes lines to `write`; may be used by several threads."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        monotonic: Callable[[], float] = clock.monotonic_s,
        wall: Callable[[], float] = clock.wall_s,
    ) -> None:
        self._write, self._monotonic, self._wall = write, monotonic, wall
        self._guard = threading.Lock()
        self._written_s: float | None = None
        self._counts: Counter[str] = Counter()
        self._landed_of: set[str] = set()
        self._through: dict[tuple[str, str], int] = {}
        self._messages: list[str] = []

    def note(self, event: Mapping[str, Any]) -> None:
        """An event of the log has happened; writes a line if one is due."""
        with self._guard:
            self._add(event)
            self._write_if(is_due_only=True)

    def say(self, message: str) -> None:
        """Something has happened that the log has no event for; writes a line if one is due."""
        with self._guard:
            self._add_message(message)
            self._write_if(is_due_only=True)

    def write_due(self) -> None:
        """Write what has happened, if the last line was written a second ago or earlier."""
        with self._guard:
            self._write_if(is_due_only=True)

    def write_rest(self) -> None:
        """Write what has happened since the last line, at the end of a run."""
        with self._guard:
            self._write_if(is_due_only=False)

    def _add(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "land":
                self._counts["landed"] += event["records_out"]
                self._counts["quarantined"] += event["quarantined"]
                self._landed_of.update(event["streams"])
            case "import":
                self._counts["imported"] += 0 if event.get("message") else event["segments"]
            case "compute" | "promote" | "close" if not event.get("again", True):
                self._add_commit(event)
            case "deliver":
                self._counts["delivered"] += event.get("records_out", 0)
            case "state":
                self._add_message(f"{event['fragment']} is {event['state']}")
            case "alarm":
                ended = "" if event["is_raised"] else "ended: "
                self._add_message(f"ALARM {ended}{event['of']}: {event['message']}")
            case "error":
                self._add_message(f"{event['error']}: {event['message']}")
            case "headroom":
                self._add_message(str(event["message"]))

    def _add_commit(self, event: Mapping[str, Any]) -> None:
        if event["event"] != "close":
            self._counts["steps"] += 1
            self._counts["rows"] += event["records_out"]
            self._counts["quarantined"] += event["quarantined"]
        for stream in event["streams"]:
            key = (stream, event["stability"])
            self._through[key] = max(self._through.get(key, event["to_us"]), event["to_us"])

    def _add_message(self, message: str) -> None:
        if message not in self._messages:
            self._messages.append(message)

    def _write_if(self, *, is_due_only: bool) -> None:
        now_s = self._monotonic()
        is_early = self._written_s is not None and now_s - self._written_s < LINES_APART_S
        if is_due_only and is_early:
            return
        parts = [part for part in self._parts() if part]
        if not parts:
            return
        self._written_s = now_s
        time = datetime.fromtimestamp(int(self._wall()), UTC).isoformat().replace("+00:00", "Z")
        self._write(printable(f"{time}  {'; '.join(parts)}"))
        self._counts.clear()
        self._landed_of.clear()
        self._through.clear()
        self._messages.clear()

    def _parts(self) -> Iterator[str]:
        counts = self._counts
        if counts["landed"]:
            of = sorted(self._landed_of)
            where = of[0] if len(of) == 1 else f"{len(of)} sources"
            yield f"landed {counted(counts['landed'], 'record')} of {where}"
        if counts["imported"]:
            yield f"imported {counted(counts['imported'], 'segment')}"
        if counts["steps"]:
            rows = counted(counts["rows"], "row")
            yield f"committed {counted(counts['steps'], 'step')} with {rows}"
        if counts["quarantined"]:
            yield f"{counted(counts['quarantined'], 'record')} in quarantine"
        if counts["delivered"]:
            yield f"delivered {counted(counts['delivered'], 'row')}"
        yield from self._streams()
        yield from (message[:MESSAGE_LENGTH_MAX] for message in self._messages[:MESSAGES_MAX])
        if len(self._messages) > MESSAGES_MAX:
            yield f"{len(self._messages) - MESSAGES_MAX} more: see the log"

    def _streams(self) -> Iterator[str]:
        """How far each stream is now, as far as that has changed; tentative rows come first."""
        found = sorted(self._through.items(), key=lambda one: one[0][1] == Stability.STABLE.value)
        for (stream, stability), to_us in found[:STREAMS_MAX]:
            yield f"{stream} {stability} through {iso(to_us)}"
        if len(found) > STREAMS_MAX:
            yield f"{len(found) - STREAMS_MAX} more streams"
