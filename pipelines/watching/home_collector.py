"""Metrics of a home, read from its catalog at each scrape: true also while the loop hangs.

Boundaries, stable prefixes and lag per line, the positions of sinks, and the leases that are held
here. If the catalog does not answer there is one figure, that it does not. Limit: a scrape counts
the live segments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from medusa_core.errors import MedusaError
from medusa_core.loads import WINDOW_MS, ActivityKind, Load, RecordedSample, load_of
from medusa_core.segments import Producer
from medusa_core.sinks import SinkRecord
from medusa_core.states import State, Transition
from pipelines.catalog.partner_records import LinkState, PartnerLinks
from pipelines.catalog.processing_roles import Deployments
from pipelines.catalog.records import LeaseRecord, StreamStatus
from pipelines.sinks.sink_facts import SinkFacts, sink_facts
from pipelines.watching.home_status import (
    FragmentState,
    behind_ms,
    fragment_states,
    is_finished,
)
from pipelines.watching.link_facts import present_state

LINE = ("participant", "stream", "producer")
STATE = ("participant", "fragment", "producer", "partition", "state")
SINK = ("participant", "stream", "sink")
PARTNER = ("participant", "partner")
LINK = (*PARTNER, "side")
LINK_COUNTERS = {
    "requests": ("requests", "Requests over a link."),
    "failures": ("failures", "Requests that failed."),
    "files": ("files", "Files that were transferred."),
    "bytes_received": ("received_bytes", "Bytes of bodies that arrived."),
    "bytes_sent": ("sent_bytes", "Bytes of bodies that were sent."),
}
FRAGMENT = ("participant", "fragment", "partition", "cause")


class WatchedHome(Deployments, Protocol):
    """What is shown of a home: calls of several roles."""

    def leases(self) -> tuple[LeaseRecord, ...]: ...
    def streams(self) -> tuple[StreamStatus, ...]: ...
    def sinks(self) -> tuple[SinkRecord, ...]: ...
    def states(self) -> tuple[Transition, ...]: ...
    def links(self) -> tuple[PartnerLinks, ...]: ...
    def loads_since(self, window_ms: int = WINDOW_MS) -> tuple[RecordedSample, ...]: ...


class HomeCollector(Collector):
    """Gauges of one home."""

    def __init__(self, catalog: WatchedHome, safe: Callable[[object], str]) -> None:
        self._catalog = catalog
        self._participant = safe(catalog.participant)
        self._safe = safe

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: to be registered must not need the catalog."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """One look at the catalog."""
        reachable = self._gauge("catalog_reachable", "1 if the catalog answers, else 0.")
        try:
            clock_ms, leases = self._catalog.read_clock_ms(), self._catalog.leases()
            streams, sinks = self._catalog.streams(), self._catalog.sinks()
            states = fragment_states(
                self._catalog.assignments(), self._catalog.states(), self._catalog.participant
            )
            links = self._catalog.links()
            load = load_of(self._catalog.loads_since(), clock_ms)
        except MedusaError:
            reachable.add_metric((self._participant,), 0)
            yield reachable
            return
        reachable.add_metric((self._participant,), 1)
        yield reachable
        yield self._leases(leases)
        yield from self._lines(streams, clock_ms)
        yield self._states(states)
        yield from self._sinks(sink_facts(sinks, streams, self._catalog.participant))
        yield from self._links(links)
        if load is not None:
            yield from self._loads(load)

    def _gauge(
        self, name: str, text: str, labels: tuple[str, ...] = ("participant",)
    ) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"medusa_{name}", text, labels=labels)

    def _leases(self, leases: tuple[LeaseRecord, ...]) -> GaugeMetricFamily:
        gauge = self._gauge("leases_held", "Leases in this home that are held.")
        gauge.add_metric((self._participant,), sum(record.is_held for record in leases))
        return gauge

    def _lines(
        self, streams: tuple[StreamStatus, ...], clock_ms: int
    ) -> Iterator[GaugeMetricFamily]:
        boundary = self._gauge("boundary_seconds", "Boundary in event time; +Inf once ended.", LINE)
        stable = self._gauge("stable_through_seconds", "End of final rows in event time.", LINE)
        tentative = self._gauge(
            "tentative_through_seconds", "End of tentative rows; absent if there are none.", LINE
        )
        corrected = self._gauge(
            "corrected_through_seconds", "Before it all that was tentative is final.", LINE
        )
        lag = self._gauge("lag_seconds", "Clock less stable through; absent once ended.", LINE)
        for status in streams:
            through_us, lag_ms = status.stable_through_us, behind_ms(status, clock_ms)
            if through_us is None:
                continue
            labels = self._labels(status.stream.name, status.producer)
            ended, finished = status.has_ended, is_finished(status)
            boundary.add_metric(labels, math.inf if ended else status.boundary_us / 1e6)
            stable.add_metric(labels, math.inf if finished else through_us / 1e6)
            for gauge, at_us in (
                (tentative, status.tentative_through_us),
                (corrected, status.corrected_through_us),
            ):
                if at_us is not None:
                    gauge.add_metric(labels, at_us / 1e6)
            if lag_ms is not None:
                lag.add_metric(labels, lag_ms / 1_000)
        yield from (boundary, stable, tentative, corrected, lag)

    def _states(self, states: Iterable[FragmentState]) -> GaugeMetricFamily:
        gauge = self._gauge("fragment_state", "1 for the state that a fragment is in.", STATE)
        for found in states:
            of = self._labels(found.of.fragment, found.of.producer)
            for state in State:
                labels = (*of, str(found.of.partition), state.value)
                gauge.add_metric(labels, 1 if state is found.state else 0)
        return gauge

    def _sinks(self, found: Iterable[SinkFacts]) -> Iterator[GaugeMetricFamily]:
        behind = self._gauge("sink_behind_seconds", "Stable through less delivered through.", SINK)
        rows = self._gauge("sink_rows", "Rows that its target has got.", SINK)
        stuck = self._gauge("sink_stuck", "1 if it is blocked, else 0.", SINK)
        for facts in found:
            sink = facts.sink
            labels = (self._participant, self._safe(sink.stream), self._safe(sink.name))
            if facts.behind_us is not None:
                behind.add_metric(labels, facts.behind_us / 1e6)
            rows.add_metric(labels, sink.rows)
            stuck.add_metric(labels, 0 if sink.problem is None else 1)
        yield from (behind, rows, stuck)

    def _links(self, links: Iterable[PartnerLinks]) -> Iterator[Metric]:
        """Two series for each partner; counters are sums over all processes of the home."""
        reachable = self._gauge(
            "link_reachable",
            "1 if the partner's server answers, else 0.",
            ("participant", "partner"),
        )
        counters = {
            name: CounterMetricFamily(f"medusa_link_{metric}", text, labels=LINK)
            for name, (metric, text) in LINK_COUNTERS.items()
        }
        answer = self._gauge("link_answer_seconds", "Median time until an answer.", LINK)
        delay = self._gauge(
            "link_news_delay_seconds",
            "Median time from commit to copy.",
            ("participant", "partner"),
        )
        for one in links:
            partner = self._safe(one.partner)
            for status in (one.client, one.server):
                if status is None:
                    continue
                labels, report = (self._participant, partner, status.side.value), status.report
                for name, counter in counters.items():
                    counter.add_metric(labels, getattr(report, name))
                if report.answer_ms is not None:
                    answer.add_metric(labels, report.answer_ms / 1_000)
            if one.client is not None and (state := present_state(one.client)) is not None:
                reachable.add_metric(labels[:2], 1 if state is LinkState.REACHABLE else 0)
            if one.client is not None and one.client.report.delay_ms is not None:
                delay.add_metric(labels[:2], one.client.report.delay_ms / 1_000)
        yield from (reachable, *counters.values(), answer, delay)

    def _loads(self, load: Load) -> Iterator[GaugeMetricFamily]:
        """What costs it, and above what it is too much, is not for all who reach the port."""
        gauge = self._gauge("load", "CPU seconds per second on a fragment, by cause.", FRAGMENT)
        other = self._gauge(
            "other_load", "CPU seconds per second on no fragment, by kind.", ("participant", "kind")
        )
        for key, cores in load.by_key.items():
            labels = (self._safe(key.fragment), str(key.partition), key.cause.value)
            gauge.add_metric((self._participant, *labels), cores)
        for kind in ActivityKind:
            other.add_metric((self._participant, kind.value), load.kinds.get(kind, 0.0))
        yield from (gauge, other)

    def _labels(self, stream: str, producer: Producer) -> tuple[str, str, str]:
        return (self._participant, self._safe(stream), self._safe(producer))
