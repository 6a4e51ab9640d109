"""The status of one home, as facts: the one document behind `medusa status` and its --json.

Every figure is read from the home's catalog; nothing is written and no lease is taken. Names
include units; times are given twice, as text for people and as numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from medusa_core.decide import explain
from medusa_core.names import Participant
from medusa_core.states import State, Transition
from pipelines.base.time_text import iso
from pipelines.catalog.processing_roles import Imports
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import Assignment, LeaseRecord, StepRecord, StreamStatus
from pipelines.exchange.chooser import choices_of
from pipelines.homes.deployed_fragments import decisions_of
from pipelines.homes.headroom_file import bound_facts
from pipelines.homes.home import Home
from pipelines.homes.missing_partners import missing_partners
from pipelines.sinks.sink_facts import SinkFacts, sink_facts
from pipelines.watching.alarms import alarm_facts
from pipelines.watching.backlog import backlog_facts
from pipelines.watching.drop_facts import drop_facts
from pipelines.watching.link_facts import link_facts
from pipelines.watching.load_facts import load_facts
from pipelines.watching.lost_ranges import with_lost_ranges
from pipelines.watching.worker_facts import worker_facts

REASONS_MAX = 20
WITHOUT_STATE = ("landing/", "import/")
"""Fragments that compute nothing, whose outputs are never tentative by themselves."""


@dataclass(frozen=True, slots=True)
class FragmentState:
    """A fragment and its last transition; None if it has been STABLE ever since."""

    of: Assignment
    last: Transition | None

    @property
    def state(self) -> State:
        """The state that it came into last."""
        return State.STABLE if self.last is None else self.last.state


def home_status(home: Home) -> dict[str, Any]:
    """The facts; raises Unavailable if the catalog cannot be reached."""
    catalog = home.catalog
    clock_ms = catalog.read_clock_ms()
    assignments, streams, last = catalog.assignments(), held_streams(catalog), catalog.steps(1)
    counts, here = catalog.step_counts(), catalog.participant
    disputed, leases = catalog.disputed(), catalog.leases()
    return {
        "participant": home.participant,
        "directory": str(home.directory),
        "clock": iso(clock_ms * 1_000),
        "clock_ms": clock_ms,
        "alarms": with_lost_ranges(
            alarm_facts(home.directory, home.participant), catalog, clock_ms
        ),
        "links": link_facts(catalog.links()),
        "missing_partners": [
            {"partner": partner, "streams": streams}
            for partner, streams in missing_partners(catalog, home.directory).items()
        ],
        "participants": _participants(home, assignments, streams),
        "networks": [{"network": p.network, "plan": p.id} for p in catalog.plans()],
        "leases": [_lease(record) for record in leases],
        "workers": worker_facts(catalog, {a.fragment for a in assignments}),
        "streams": [
            stream_progress(status, clock_ms, disputed.get(status.stream.name))
            for status in streams
        ],
        "fragments": [
            _state(s, clock_ms)
            for s in fragment_states(assignments, catalog.states(), catalog.participant)
        ],
        "bounds": bound_facts(home, is_driven=any(record.is_held for record in leases)),
        "drops": drop_facts(catalog, streams),
        "sinks": [_sink(f, clock_ms) for f in sink_facts(catalog.sinks(), streams, here)],
        "sources": backlog_facts(home.directory, catalog.participant, catalog.sources()),
        "quarantine": {
            "records": catalog.quarantine_count(),
            "by_reason": [
                {"stream": q.stream, "reason": q.reason, "records": q.records}
                for q in catalog.quarantine_reasons(REASONS_MAX)
            ],
        },
        "steps": sum(counts.values()),
        "steps_by_cause": {cause.value: n for cause, n in counts.items()},
        "last_step": _step(last[-1], clock_ms) if last else None,
        "load": load_facts(catalog, clock_ms),
        "market": _market(home),
        "storage_bytes": _stored_bytes(home.storage),
        "next": [*choices_of(catalog), *explain(decisions_of(catalog))],
    }


class KnownLines(Lines, Imports, Protocol):
    """The lines that a home knows, and those of partners that it imports."""


def held_streams(catalog: KnownLines) -> tuple[StreamStatus, ...]:
    """The lines that this home writes or reads, and those of which it has rows.

    A home knows every output of a partner's fragment of which it reads one. The others never come
    into the home.
    """
    read = {(line.stream, line.producer) for line in catalog.imports()}
    return tuple(
        status
        for status in catalog.streams()
        if status.producer.participant == catalog.participant
        or status.version
        or (status.stream.name, status.producer) in read
    )


def behind_ms(status: StreamStatus, clock_ms: int) -> int | None:
    """How far the stable prefix is behind the catalog's clock, in event time.

    None before the stream has begun and once all of it, to its end, is stable.
    """
    through_us = status.stable_through_us
    if through_us is None or is_finished(status):
        return None
    return max(clock_ms - through_us // 1_000, 0)


def is_finished(status: StreamStatus) -> bool:
    """Whether the stream has ended and nothing of it is tentative."""
    return status.has_ended and status.tentative_through_us is None


def _participants(
    home: Home, assignments: tuple[Assignment, ...], streams: tuple[StreamStatus, ...]
) -> list[str]:
    producers = [a.producer for a in assignments] + [s.producer for s in streams]
    return sorted({home.participant, *(producer.participant for producer in producers)})


def _lease(record: LeaseRecord) -> Mapping[str, Any]:
    key = record.lease.key
    return {
        "fragment": key.fragment,
        "partition": key.partition,
        "producer": str(key.producer),
        "lane": key.lane.value,
        "epoch": record.lease.epoch,
        "holder": record.lease.holder,
        "is_held": record.is_held,
        "expires_in_ms": record.expires_in_ms,
    }


def _market(home: Home) -> Mapping[str, Any] | None:
    # Loops load this module for their metrics; the market is loaded where it is shown.
    from pipelines.catalog.postgres.moves import PostgresMoves
    from pipelines.catalog.postgres.rounds import PostgresRounds
    from pipelines.market.rounds.round_report import market_facts

    rounds = PostgresRounds(home.catalog.engine, home.participant)
    return market_facts(rounds, PostgresMoves(home.catalog.engine).statuses())


def fragment_states(
    assignments: Iterable[Assignment], states: Iterable[Transition], here: Participant
) -> tuple[FragmentState, ...]:
    """In which state of the protocol each fragment is that is computed here, and since when."""
    last = {(t.fragment, t.partition, t.producer): t for t in states}
    return tuple(
        FragmentState(a, last.get((a.fragment, a.partition, a.producer)))
        for a in assignments
        if a.producer.participant == here and not a.fragment.startswith(WITHOUT_STATE)
    )


def _state(state: FragmentState, clock_ms: int) -> Mapping[str, Any]:
    since_ms = None if state.last is None else state.last.changed_at_ms
    return {
        "fragment": state.of.fragment,
        "partition": state.of.partition,
        "producer": str(state.of.producer),
        "state": state.state.value,
        "since": None if since_ms is None else iso(since_ms * 1_000),
        "since_ago_ms": None if since_ms is None else max(clock_ms - since_ms, 0),
        "because": None if state.last is None else state.last.because,
    }


def stream_progress(
    status: StreamStatus, clock_ms: int, disputed_us: int | None = None
) -> Mapping[str, Any]:
    """How far a line is stable, tentative and corrected, and from where on its stream is disputed;
    see docs/watching.md."""
    stable_us, tentative_us = status.stable_through_us, status.tentative_through_us
    corrected_us = status.corrected_through_us
    return {
        "stream": status.stream.name,
        "kind": status.stream.kind,
        "producer": str(status.producer),
        "width_us": status.stream.width_us,
        "version": status.version,
        "stable_through": None if stable_us is None else iso(stable_us),
        "stable_through_us": stable_us,
        "tentative_through": None if tentative_us is None else iso(tentative_us),
        "tentative_through_us": tentative_us,
        "corrected_through": None if corrected_us is None else iso(corrected_us),
        "corrected_through_us": corrected_us,
        "disputed_from": None if disputed_us is None else iso(disputed_us),
        "disputed_from_us": disputed_us,
        "behind_ms": behind_ms(status, clock_ms),
        "has_ended": is_finished(status),
        "rows": status.rows,
        "segments": status.segments,
    }


def _sink(facts: SinkFacts, clock_ms: int) -> Mapping[str, Any]:
    sink, behind_us = facts.sink, facts.behind_us
    at_ms = sink.delivered_at_ms
    return {
        "stream": sink.stream,
        "sink": sink.name,
        "kind": facts.kind,
        "target": facts.target,
        "through": None if sink.through_us is None else iso(sink.through_us),
        "through_us": sink.through_us,
        "behind_ms": None if behind_us is None else behind_us // 1_000,
        "has_ended": facts.is_finished,
        "rows": sink.rows,
        "lost_us": sink.lost_us,
        "told_ago_ms": None if at_ms is None else max(clock_ms - at_ms, 0),
        "problem": sink.problem,
    }


def _step(step: StepRecord, clock_ms: int) -> Mapping[str, Any]:
    return {
        "fragment": step.fragment,
        "cause": step.cause,
        "from": iso(step.range.from_us),
        "to": iso(step.range.to_us),
        "from_us": step.range.from_us,
        "to_us": step.range.to_us,
        "committed_at": iso(step.committed_at_ms * 1_000),
        "committed_ago_ms": max(clock_ms - step.committed_at_ms, 0),
        "versions": dict(step.versions),
        "records_in": step.metrics.records_in,
        "records_out": step.metrics.records_out,
        "spark_jobs": step.metrics.spark_jobs,
        "phases_ms": {name: round(ms, 1) for name, ms in step.metrics.phases_ms.items()},
    }


def _stored_bytes(storage: Path) -> int:
    found = 0
    for path in storage.rglob("*"):
        try:
            found += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue  # trimmed while we look
    return found
