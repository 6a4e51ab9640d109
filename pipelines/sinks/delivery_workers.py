"""Delivery in the background of a participant's loop: every sink at its own pace, in threads.

The loop calls `look` at every tick: it reads the sinks and the state of their streams, starts
those that have something to do, and reports the results of the others. An unavailable target
holds up no step and no other sink: its next try waits, longer each time, up to half a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from medusa_core.errors import MedusaError, Refused
from medusa_core.names import StreamName, Version
from medusa_core.restart import RestartPolicy
from medusa_core.sinks import SinkRecord
from pipelines.base import clock, settings
from pipelines.base.cpu_meter import NO_METER, Meter
from pipelines.base.redaction import SafeText
from pipelines.catalog.records import LineStatus
from pipelines.sinks.delivered_line import line_of
from pipelines.sinks.delivery import DeliveredHome, Delivering, DeliveryResult

THREADS_MAX = 8
LOOK_S = 0.5
TICK_S = 5.0
RETRIES = RestartPolicy(back_off_ms=500, back_off_ms_max=30_000)
IDLE_S = 30.0


class DeliveryObserver(Protocol):
    """Observes what is delivered, and what went wrong."""

    def delivered(self, result: DeliveryResult) -> None: ...
    def error(self, error: Exception) -> None: ...


@dataclass(slots=True)
class _Worked:
    """One sink: its last ticks, and when to try again."""

    delivering: Delivering
    future: Future[list[DeliveryResult]] | None = None
    tried_at_s: float | None = None
    not_before_s: float = 0.0
    failures: int = 0
    version: Version | None = None
    problem: MedusaError | None = None
    message: str | None = None


@dataclass(slots=True)
class _Stop:
    """Whether the threads shall come to an end."""

    stop_requested: bool = False


@dataclass(kw_only=True)
class Deliveries:
    """The sinks of one home; `directory` is the folder of homes. `close` ends all threads."""

    catalog: DeliveredHome
    root: Path
    directory: Path
    observer: DeliveryObserver
    environment: Mapping[str, str] = field(default_factory=settings.environment)
    now_s: Callable[[], float] = clock.monotonic_s
    meter: Meter = NO_METER
    _worked: dict[tuple[StreamName, str], _Worked] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None
    _stop: _Stop = field(default_factory=_Stop)
    _looked_at_s: float | None = None
    _safe: SafeText = field(default_factory=SafeText)

    def look(self) -> None:
        """Send to work what is due, and tell what was done; seldom more than half a second apart.

        Raises Unavailable if the catalog is away.
        """
        now_s = self.now_s()
        if self._looked_at_s is not None and now_s - self._looked_at_s < LOOK_S:
            return
        self._looked_at_s = now_s
        sinks = self.catalog.sinks()
        self._let_go(sinks)
        if not sinks:
            return
        lines = self.catalog.lines()
        for sink in sinks:
            worked = self._worked.get((sink.stream, sink.name))
            if worked is None:
                made = self._made(sink)
                if made is None:
                    continue
                worked = self._worked[sink.stream, sink.name] = made
            self._collect(worked, sink)
            line = line_of(lines, sink.stream, self.catalog.participant)
            if worked.future is None and line is not None and self._is_due(worked, sink, line):
                self._send(worked)

    def has_delivered_all(self) -> bool:
        """Whether every sink has come to the end of its stream, all of which have ended.

        Raises Refused or Diverged if one cannot without somebody's help.
        """
        lines = self.catalog.lines()
        for sink in self.catalog.sinks():
            worked = self._worked.get((sink.stream, sink.name))
            if worked is not None and worked.problem is not None and not _may_pass(worked.problem):
                raise worked.problem
            line = line_of(lines, sink.stream, self.catalog.participant)
            if line is None or line.origin_us is None or line.end_us is None:
                continue
            if sink.from_us < line.end_us and sink.holds_from_us < line.end_us:
                return False
        return True

    def close(self) -> None:
        """End what is running as soon as possible, and close all targets."""
        self._stop.stop_requested = True
        for worked in self._worked.values():
            if worked.future is not None and not worked.future.done():
                worked.delivering.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        for worked in self._worked.values():
            future = worked.future
            if future is not None and not future.cancelled() and future.exception() is None:
                self._report(future.result())
            worked.delivering.close()
        self._worked.clear()

    # ------------------------------------------------------------ one look

    def _made(self, sink: SinkRecord) -> _Worked | None:
        try:
            return _Worked(
                Delivering(self.catalog, self.root, self.directory, sink, self.environment)
            )
        except Refused as error:
            # Written by a newer Medusa, say: whoever reads the status sees it.
            if sink.problem != self._safe(error):
                self.observer.error(error)
                self.catalog.record_sink_problem(sink, self._safe(error))
            return None

    def _let_go(self, sinks: tuple[SinkRecord, ...]) -> None:
        """Of sinks that were withdrawn or declared anew."""
        declared = {(s.stream, s.name): (s.document, s.from_us) for s in sinks}
        for key, worked in list(self._worked.items()):
            was = worked.delivering.sink
            if declared.get(key) == (was.document, was.from_us):
                continue
            if worked.future is not None and not worked.future.done():
                continue
            worked.delivering.close()
            del self._worked[key]

    def _is_due(self, worked: _Worked, sink: SinkRecord, line: LineStatus) -> bool:
        now_s, stable_us = self.now_s(), line.stable_through_us
        if stable_us is None or now_s < worked.not_before_s:
            return False
        if worked.tried_at_s is None or now_s - worked.tried_at_s >= worked.delivering.sign_s:
            return True
        is_corrected = worked.delivering.takes_tentative and worked.version != line.version
        return is_corrected or sink.through_us is None or sink.through_us < stable_us

    def _send(self, worked: _Worked) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="medusa-sink")
        worked.tried_at_s = self.now_s()
        worked.future = self._pool.submit(self._deliver, worked.delivering)

    def _deliver(self, delivering: Delivering) -> list[DeliveryResult]:
        """Tick until there is nothing to do, or for TICK_S, since other sinks wait."""
        with self.meter.delivering():
            ends_s, results = self.now_s() + TICK_S, [delivering.tick()]
            while results[-1].has_more and not self._stop.stop_requested and self.now_s() < ends_s:
                results.append(delivering.tick())
        return results

    def _collect(self, worked: _Worked, sink: SinkRecord) -> None:
        """Take the results of the submitted ticks, if they are over."""
        if worked.future is None:
            self._rest(worked)
            return
        if not worked.future.done():
            return
        future, worked.future = worked.future, None
        try:
            results = future.result()
        except MedusaError as error:
            self._note_problem(worked, sink, error)
            return
        except Exception as error:  # noqa: BLE001  whatever it is, it holds up no step
            self._note_problem(worked, sink, _a_fault_of_ours(sink, error))
            return
        if worked.message is not None:
            self.catalog.record_sink_problem(sink, None)
        worked.problem = worked.message = None
        worked.failures, worked.not_before_s = 0, 0.0
        worked.version = results[-1].version
        self._report(results)
        if not results[-1].has_more and results[-1].run is None and not results[-1].corrected:
            # It waits for a multiple of its pace, or gave a sign: not at once again.
            worked.not_before_s = self.now_s() + RETRIES.wait_ms(1) / 1_000

    def _report(self, results: list[DeliveryResult]) -> None:
        for result in results:
            if result.run is not None or result.corrected:
                self.observer.delivered(result)

    def _note_problem(self, worked: _Worked, sink: SinkRecord, error: MedusaError) -> None:
        worked.problem, text = error, self._safe(error)
        worked.failures += 1
        wait_ms = RETRIES.wait_ms(worked.failures)
        if not _may_pass(error):
            wait_ms = RETRIES.back_off_ms_max
        worked.not_before_s = self.now_s() + wait_ms / 1_000
        self.observer.error(error)
        if worked.message != text:
            worked.message = text
            self.catalog.record_sink_problem(sink, text)

    def _rest(self, worked: _Worked) -> None:
        """A target that was not needed for a while is let go of: others may want to look at it."""
        if worked.tried_at_s is not None and self.now_s() - worked.tried_at_s >= IDLE_S:
            worked.delivering.close()


def _may_pass(error: MedusaError) -> bool:
    """Whether a problem may be over soon without anybody's help."""
    return error.exit_code in (3, 4, 5)


def _a_fault_of_ours(sink: SinkRecord, error: Exception) -> MedusaError:
    return Refused(
        f"sink {sink.name} of {sink.stream} met a fault of Medusa's own ({type(error).__name__}): "
        "report it; until then fewer rows at a time (rows_max) may help"
    )


def deliver_once(
    catalog: DeliveredHome,
    root: Path,
    directory: Path,
    sinks: tuple[SinkRecord, ...],
    environment: Mapping[str, str],
    on_delivery: Callable[[DeliveryResult], None],
) -> list[tuple[SinkRecord, MedusaError]]:
    """Deliver what there is now to each of the sinks; returns those that could not, and why."""
    failed: list[tuple[SinkRecord, MedusaError]] = []
    for sink in sinks:
        try:
            delivering = Delivering(catalog, root, directory, sink, environment)
            try:
                has_more = True
                while has_more:
                    result = delivering.tick()
                    on_delivery(result)
                    has_more = result.has_more
            finally:
                delivering.close()
        except MedusaError as error:
            failed.append((sink, error))
            catalog.record_sink_problem(sink, SafeText()(error))
    return failed
