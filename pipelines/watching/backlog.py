"""The backlog at the sources, stored next to the log for status queries.

A driver knows the records that its sources have seen and not landed, and the catalog does not: so
they are recorded at most every second, in `MEDUSA_DIR/logs/<participant>.sources.json`, replaced
whole by a rename. Nothing depends on it: a failed write has no effect, and an unreadable file
means that the backlog is unknown. Clocks are this machine's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.errors import WRONG_FORM
from medusa_core.names import Participant, StreamName
from pipelines.base import clock
from pipelines.base.files import write_atomically
from pipelines.base.foreign_documents import is_number, is_whole_number
from pipelines.sources.live.live_source import Polled

WRITE_AFTER_S = 1.0


@dataclass(slots=True)
class _SourceStatus:
    """What was last reported of a source, and since when something has been waiting there.

    `unclaimed` records were none of its feed's streams', since this process began.
    """

    polled: Polled
    reported_at_s: float
    waiting_since_s: float | None
    unclaimed: int = 0


class BacklogFile:
    """The file of one participant's driver; not safe for threads: its owner holds a lock."""

    def __init__(self, directory: Path, participant: Participant) -> None:
        self._path = _path(directory, participant)
        self._statuses: dict[StreamName, _SourceStatus] = {}
        self._written_at_s = 0.0

    def record(self, stream: StreamName, polled: Polled, now_s: float) -> float:
        """Note what a poll found; for how many seconds the source has not caught up by now."""
        return self.record_all({stream: polled}, now_s)[stream]

    def record_all(
        self, polled: Mapping[StreamName, Polled], now_s: float
    ) -> dict[StreamName, float]:
        """The like for all streams that were fed by one poll."""
        is_news = False
        behind_s: dict[StreamName, float] = {}
        for stream, found in polled.items():
            last = self._statuses.get(stream)
            since_s = last.waiting_since_s if last else None
            if not found.has_waiting:
                since_s = None
            elif since_s is None:
                since_s = now_s
            is_news |= last is None or last.polled.has_waiting != found.has_waiting
            unclaimed = found.unclaimed + (last.unclaimed if last else 0)
            self._statuses[stream] = _SourceStatus(found, now_s, since_s, unclaimed)
            behind_s[stream] = 0.0 if since_s is None else max(now_s - since_s, 0.0)
        if is_news or not 0 <= now_s - self._written_at_s < WRITE_AFTER_S:
            self._written_at_s = now_s
            self._write()
        return behind_s

    def _write(self) -> None:
        document = {
            stream: {
                "waiting_files": status.polled.waiting_files,
                "waiting_records": status.polled.waiting_records,
                "has_waiting": status.polled.has_waiting,
                "waiting_since_s": status.waiting_since_s,
                "reported_at_s": status.reported_at_s,
                "boundary_us": status.polled.boundary_us,
                "because": status.polled.because,
                "unclaimed": status.unclaimed,
            }
            for stream, status in self._statuses.items()
        }
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps(document), durable=False)


def backlog_facts(
    directory: Path,
    participant: Participant,
    declared: Mapping[StreamName, str],
    now_s: float | None = None,
) -> list[dict[str, Any]]:
    """The state of each declared source, by stream; None without a report of a driver."""
    now_s = clock.wall_s() if now_s is None else now_s
    text = _read(_path(directory, participant))
    return [
        {"stream": stream, "kind": _kind(document), **_facts(text.get(stream), now_s)}
        for stream, document in sorted(declared.items())
    ]


def _facts(document: Any, now_s: float) -> dict[str, Any]:
    found = document if isinstance(document, Mapping) else {}
    reported_at_s, since_s = found.get("reported_at_s"), found.get("waiting_since_s")
    has_waiting = bool(found.get("has_waiting"))
    reported_ago_ms = _ago_ms(reported_at_s, now_s)
    behind_ms = _ago_ms(since_s, now_s) if has_waiting else 0
    if behind_ms is None:
        # A driver of another version: something has been waiting since its report at least.
        behind_ms = reported_ago_ms
    return {
        "waiting_files": _whole(found.get("waiting_files")),
        "waiting_records": _whole(found.get("waiting_records")),
        "has_waiting": has_waiting,
        "behind_ms": behind_ms if found else None,
        "told_ago_ms": reported_ago_ms,
        "boundary_us": _whole(found.get("boundary_us")),
        "because": str(found.get("because", "")),
        "unclaimed": _whole(found.get("unclaimed")) or 0,
    }


def _whole(value: Any) -> int | None:
    return value if is_whole_number(value) else None


def _ago_ms(at_s: Any, now_s: float) -> int | None:
    return max(int((now_s - at_s) * 1_000), 0) if is_number(at_s) else None


def _kind(document: str) -> str:
    try:
        return str(json.loads(document)["kind"])
    except WRONG_FORM:
        return ""


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, *WRONG_FORM):
        return {}
    return found if isinstance(found, dict) else {}


def _path(directory: Path, participant: Participant) -> Path:
    return directory / "logs" / f"{participant}.sources.json"
