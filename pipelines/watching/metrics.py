"""Prometheus metrics of one driver since its start.

Units are Prometheus' base units. Labels are names of the home (participant, fragment, stream,
phase): there are as many series as there are of these, never one per record, error text or
commit. The status of the home is read at each scrape: `home_collector`. docs/metrics.md lists
all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from medusa_core.commits import StepMetrics
from pipelines.sources.live.live_source import Polled
from pipelines.watching.home_collector import HomeCollector, WatchedHome
from pipelines.watching.jvm_collector import JvmCollector

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
Safe = Callable[[object], str]


class Metrics:
    """The metrics of a participant's driver, in a registry of their own."""

    def __init__(self, participant: str, safe: Safe, catalog: WatchedHome | None = None) -> None:
        # Else a second series for each, of when it was first counted.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._participant = safe(participant)
        self._safe = safe
        ProcessCollector(registry=self.registry)
        self.registry.register(JvmCollector(os.getpid(), self._participant))
        if catalog is not None:
            self.registry.register(HomeCollector(catalog, safe))
        counter, histogram = self._counter, self._histogram
        self._steps = counter("steps", "Steps committed.", "fragment", "cause")
        self._records_in = counter("records_in", "Records that steps read.", "fragment")
        self._records_out = counter("records_out", "Rows that steps wrote.", "fragment")
        self._step_s = histogram("step_seconds", "Time of a whole step.", "fragment")
        self._phase_s = histogram("step_phase_seconds", "Step time by phase.", "fragment", "phase")
        self._commits = counter("commits", "Steps and closings that were committed.", "fragment")
        again = "Steps and closings that had been committed before: only the reply was lost."
        self._commits_again = counter("commits_again", again, "fragment")
        compared = "Steps whose prepared job was compared with the ordinary plan, by result."
        self._verifications = counter("verifications", compared, "fragment", "result")
        self._quarantined = counter("quarantined_records", "Records in quarantine.", "stream")
        self._landed = counter("landed_records", "Records landed.", "stream")
        self._waiting_files = self._gauge("waiting_files", "Files seen and not landed.", "stream")
        waiting = "Records seen and not landed."
        self._waiting_records = self._gauge("waiting_records", waiting, "stream")
        behind = "Since when a source has not caught up; 0 once it has."
        self._behind_s = self._gauge("source_behind_seconds", behind, "stream")
        room = "What a bound leaves beyond what an answer may take; below 0 it may not be kept."
        self._headroom_s = self._gauge("bound_headroom_seconds", room, "stream")
        unclaimed = "Records of a shared feed that none of its streams takes."
        self._unclaimed = counter("unclaimed_records", unclaimed, "stream")
        self._imported = counter("imported_segments", "Segments from partners.", "stream")
        self._not_imported = counter("failed_imports", "Times a partner gave no news.", "stream")
        self._waits = counter("waits", "Rounds in which a fragment had to wait.", "fragment")
        self._alarm = self._gauge("alarm", "1 while this is blocked.", "of")
        self._conflicts = counter("conflicts", "Times that somebody was first.")
        self._errors = counter("errors", "Errors, by class.", "kind")
        self._lost = counter("log_lines_lost", "Log lines that could not be written.")
        for metric in (self._conflicts, self._lost):
            self._series(metric)  # shown as 0 before the first

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        names = ("participant", *labels)
        return Counter(name, text, names, namespace="medusa", registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        names = ("participant", *labels)
        return Histogram(
            name, text, names, namespace="medusa", registry=self.registry, buckets=SECONDS
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        names = ("participant", *labels)
        return Gauge(name, text, names, namespace="medusa", registry=self.registry)

    def _series(self, metric: Counter | Gauge | Histogram, *values: object) -> Any:
        return metric.labels(self._participant, *map(self._safe, values))

    def step(self, fragment: str, cause: str, cost: StepMetrics, ms: float) -> None:
        """A step was committed; `ms` is the whole of it, phases and all between them."""
        self._series(self._steps, fragment, cause).inc()
        self._series(self._records_in, fragment).inc(cost.records_in)
        self._series(self._records_out, fragment).inc(cost.records_out)
        self._series(self._step_s, fragment).observe(ms / 1_000)
        for phase, phase_ms in cost.phases_ms.items():
            self._series(self._phase_s, fragment, phase).observe(phase_ms / 1_000)

    def commit(self, fragment: str, *, again: bool) -> None:
        """The catalog answered a commit."""
        self._series(self._commits_again if again else self._commits, fragment).inc()

    def verified(self, fragment: str, result: str) -> None:
        """A prepared job was compared with the ordinary plan and `agreed` or `differed`."""
        self._series(self._verifications, fragment, result).inc()

    def quarantined(self, stream: str, records: int = 1) -> None:
        """Records of a stream went to quarantine."""
        self._series(self._quarantined, stream).inc(records)

    def landed(self, stream: str, records: int) -> None:
        """Records of a source landed."""
        self._series(self._landed, stream).inc(records)

    def unclaimed(self, stream: str, records: int) -> None:
        """Records that came with a feed and are none of its streams'."""
        if records:
            self._series(self._unclaimed, stream).inc(records)

    def waiting(self, stream: str, polled: Polled, behind_s: float) -> None:
        """What a source has seen and not landed; of what it cannot tell there is no series."""
        if polled.waiting_files is not None:
            self._series(self._waiting_files, stream).set(polled.waiting_files)
        if polled.waiting_records is not None:
            self._series(self._waiting_records, stream).set(polled.waiting_records)
        self._series(self._behind_s, stream).set(behind_s)

    def headroom(self, stream: str, left_ms: int) -> None:
        """What the bound of a stream leaves now."""
        self._series(self._headroom_s, stream).set(left_ms / 1_000)

    def imported(self, stream: str, segments: int) -> None:
        """News of a partner's line came in."""
        self._series(self._imported, stream).inc(segments)

    def not_imported(self, stream: str) -> None:
        """A request to a partner failed."""
        self._series(self._not_imported, stream).inc()

    def waited(self, fragment: str) -> None:
        """A fragment had to wait this round."""
        self._series(self._waits, fragment).inc()

    def error(self, kind: str, *, is_conflict: bool) -> None:
        """An error was met."""
        self._series(self._errors, kind).inc()
        if is_conflict:
            self._series(self._conflicts).inc()

    def alarm(self, of: str, *, is_raised: bool) -> None:
        """An alarm is raised, or has ended; of one that never was there is no series."""
        self._series(self._alarm, of).set(1 if is_raised else 0)

    def log_line_lost(self) -> None:
        """A log line found no room."""
        self._series(self._lost).inc()
