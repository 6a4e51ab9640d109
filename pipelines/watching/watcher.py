"""Reports of a participant's loop about itself: one log line per decision, and metrics.

The loop calls `decided` for each decision before carrying it out, `applied` once it is committed,
`polled` for a source's landing, `imported` for a partner's news, `error` for an error, and
`alarm` for an obstacle, until it is removed. A wait is a line only when its reason changes; a
problem that stays the same is a line once a minute. Reporting changes nothing and, except for a
port that is in use, raises nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, assert_never

from medusa_core.bound_headroom import Headroom
from medusa_core.decide import (
    Adopt,
    CloseBuckets,
    ComputeStep,
    Decision,
    DropBuckets,
    Promote,
    Wait,
)
from medusa_core.errors import Conflict
from medusa_core.exchange import import_fragment
from medusa_core.fragments import landing_fragment
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName
from medusa_core.partitions.placing import PlacePartition
from medusa_core.states import Transition
from pipelines.base import clock
from pipelines.base.redaction import SafeText
from pipelines.base.settings import Settings
from pipelines.homes.headroom_file import HeadroomFile, fact_of, headroom_sentence
from pipelines.watching.alarms import Alarms
from pipelines.watching.backlog import BacklogFile
from pipelines.watching.json_log import JsonLog
from pipelines.watching.log_fields import applied_fields, decision_fields, range_fields
from pipelines.watching.lost_ranges import lost_name, lost_sentence

if TYPE_CHECKING:
    from pipelines.exchange.importer import Imported
    from pipelines.participant.driver import Applied
    from pipelines.participant.housekeeper import TrimmedLine
    from pipelines.sinks.delivery import DeliveryResult
    from pipelines.sources.live.live_source import Polled
    from pipelines.spark.results import Verified
    from pipelines.watching.home_collector import WatchedHome
    from pipelines.watching.metrics import Metrics
    from pipelines.watching.metrics_server import MetricsServer

REPEATED_AFTER_S = 60.0
PROBLEMS_MAX = 256

ROOM_AGAIN = 0.1
"""What part of a bound must be left before it counts as kept again."""


def watcher_of(
    settings: Settings, participant: Participant, catalog: WatchedHome | None = None
) -> Watcher:
    """The watcher of a participant's driver, as the environment declares it.

    With its catalog, lines name networks and metrics tell how the home stands.
    """
    network_of: Mapping[str, str] = {}
    if catalog is not None:
        from pipelines.homes.deployed_fragments import networks_in_force

        network_of = networks_in_force(catalog)
    return Watcher(
        participant,
        settings.directory,
        network_of=network_of,
        catalog=catalog,
        metrics_at=(
            None
            if settings.metrics_port is None
            else (settings.metrics_host, settings.metrics_port)
        ),
        secrets=[settings.catalog_url],
    )


@dataclass(slots=True)
class _Span:
    """When a decision began to be carried out, and when the next one did."""

    begun_s: float
    ended_s: float | None = None


@dataclass(slots=True)
class _Problem:
    """A recurring problem: when it was last reported, and how often it recurred since."""

    reported_at_s: float
    times: int = 0


class Watcher:
    """A context manager; `network_of` maps a fragment to its network, as far as that is known.

    `secrets` are passwords, or URLs with one, that may reach neither log nor label. `metrics_at`:
    the address and port at which metrics are served (0: a free port), None serves none. Raises
    Unavailable for a port that is taken.
    """

    def __init__(
        self,
        participant: Participant,
        directory: Path,
        *,
        network_of: Mapping[str, str] | None = None,
        catalog: WatchedHome | None = None,
        metrics_at: tuple[str, int] | None = None,
        secrets: Iterable[str | None] = (),
        log: JsonLog | None = None,
        monotonic: Callable[[], float] = clock.monotonic_s,
        wall: Callable[[], float] = clock.wall_s,
    ) -> None:
        self._participant = participant
        self._network_of = dict(network_of or {})
        self._safe = SafeText(secrets)
        self._log = log or JsonLog(directory / "logs" / f"{participant}.jsonl")
        self._backlog = BacklogFile(directory, participant)
        self._alarms = Alarms(directory, participant)
        self._monotonic, self._wall = monotonic, wall
        self._guard = threading.Lock()
        self._spans: dict[object, _Span] = {}
        self._latest: _Span | None = None
        self._waits: dict[str, str] = {}
        self._problems: dict[tuple[str, str], _Problem] = {}
        self._headroom = HeadroomFile(directory, participant)
        self._short: set[str] = set()
        self._lost: dict[str, Range] = {}
        self._metrics: Metrics | None = None
        self._server: MetricsServer | None = None
        self.on_event: Callable[[Mapping[str, Any]], None] | None = None
        """Called with the fields of each line of the log, without secrets."""
        if metrics_at is not None:
            from pipelines.watching.metrics import Metrics
            from pipelines.watching.metrics_server import MetricsServer

            self._metrics = Metrics(participant, self._safe, catalog)
            self._server = MetricsServer(self._metrics, *metrics_at)

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving and close the log."""
        if self._server is not None:
            self._server.close()
        with self._guard:
            self._alarms.close()
            self._log.close()

    @property
    def metrics_url(self) -> str | None:
        """Where metrics are served, if they are."""
        return self._server.url if self._server else None

    # ------------------------------------------------------------ what the loop tells

    def decided(self, decision: Decision) -> None:
        """A decision is carried out from now on. A wait is logged if its reason is new."""
        with self._guard:
            self._alarms.beat(self._wall())
            now_s = self._monotonic()
            if self._latest is not None:
                self._latest.ended_s, self._latest = now_s, None
            if not isinstance(decision, Wait):
                self._latest = self._spans[_key(decision)] = _Span(now_s)
                return
            # Who waits is a fragment or, where it is a landing, the source's stream.
            landing = landing_fragment(StreamName(decision.of))
            fragment = landing if landing in self._network_of else decision.of
            if self._metrics:
                self._metrics.waited(fragment)
            reason = decision.because.reason
            if self._waits.get(fragment) != reason:
                self._waits[fragment] = reason
                self._write_event({**decision_fields(decision), "fragment": fragment})

    def applied(self, applied: Applied) -> None:
        """A decision was carried out and committed, at the latest when the next one was made."""
        fields, commit = applied_fields(applied), applied.commit
        with self._guard:
            ms = self._ms_of(applied.decision)
            self._write_event({**fields, "ms": None if ms is None else round(ms, 1)})
            if isinstance(applied.decision, Adopt) and applied.decision.is_lost:
                self._report_loss(applied.decision)
            if self._metrics is None:
                return
            fragment, again = fields["fragment"], applied.committed.again
            self._metrics.commit(fragment, again=again)
            if again:
                return
            spent_ms = sum(commit.metrics.phases_ms.values()) if ms is None else ms
            self._metrics.step(fragment, commit.cause.value, commit.metrics, spent_ms)
            for record in commit.quarantine:
                self._metrics.quarantined(record.stream)

    def transitioned(self, transition: Transition) -> None:
        """A fragment came into another state of the protocol."""
        with self._guard:
            self._write_event(
                {
                    "fragment": transition.fragment,
                    "event": "state",
                    "state": transition.state.value,
                    "because": {"reason": transition.because},
                }
            )

    def verified(self, verified: Verified) -> None:
        """A prepared job was compared with the ordinary plan; that they differ is an alarm."""
        result = "agreed" if verified.difference is None else "differed"
        with self._guard:
            self._write_event(
                {
                    "fragment": verified.fragment,
                    "event": "verify",
                    **range_fields(verified.range),
                    "result": result,
                    "message": verified.sentence,
                }
            )
            if self._metrics:
                self._metrics.verified(verified.fragment, result)
            if verified.difference is not None:
                # It stays until the driver ends: the fragment has no such job any more.
                self._set_alarm(
                    f"{verified.job} of {verified.fragment}", self._safe(verified.sentence)
                )

    def polled(self, stream: StreamName, polled: Polled) -> None:
        """A source was polled; it may feed several streams (`polled.members`)."""
        members = dict(polled.members or {stream: polled})
        if polled.unclaimed:
            # Told under the feed's first stream: no stream of its own has them.
            first = min(members)
            members[first] = replace(members[first], unclaimed=polled.unclaimed)
        with self._guard:
            behind_s = self._backlog.record_all(members, self._wall())
            if self._metrics:
                for member, poll in members.items():
                    self._metrics.landed(member, poll.landed)
                    self._metrics.quarantined(member, poll.quarantined)
                    self._metrics.waiting(member, poll, behind_s[member])
                self._metrics.unclaimed(stream, polled.unclaimed)
            self._set_alarm(f"files of {stream}", self._safe(polled.left_out) or None)
            if polled.batches or polled.quarantined or polled.unclaimed:
                self._write_event(
                    {
                        "fragment": landing_fragment(stream),
                        "event": "land",
                        "streams": [stream],
                        "boundary_us": polled.boundary_us,
                        "boundary_because": polled.because,
                        "batches": polled.batches,
                        "records_out": polled.landed,
                        "quarantined": polled.quarantined,
                        "late": polled.late,
                    }
                    | (
                        {"fed": len(polled.members), "unclaimed": polled.unclaimed}
                        if polled.members
                        else {}
                    )
                )

    def imported(self, imported: Imported) -> None:
        """A request for a line's news has ended; `problem` says why there is none."""
        fragment = import_fragment(imported.stream)
        fields = {
            "fragment": fragment,
            "event": "import",
            "streams": [imported.stream],
            "producer": imported.producer,
            "versions": {imported.stream: imported.version},
            "segments": imported.segments,
        }
        with self._guard:
            of = f"{fragment} of {imported.producer}"
            if imported.problem is None:
                self._problems = {k: p for k, p in self._problems.items() if k[0] != of}
                self._write_event(fields)
                self._set_alarm(of, None)
            else:
                problem = self._safe(imported.problem)
                self._report_problem(of, problem, {**fields, "message": problem})
                self._set_alarm(of, problem)
            if self._metrics and imported.problem is None:
                self._metrics.imported(imported.stream, imported.segments)
            elif self._metrics:
                self._metrics.not_imported(imported.stream)

    def delivered(self, result: DeliveryResult) -> None:
        """A sink was delivered into, or what was tentative in it was corrected."""
        with self._guard:
            fields: dict[str, Any] = {
                "fragment": None,
                "event": "deliver",
                "streams": [result.sink.stream],
                "sink": result.sink.name,
            }
            if result.run is not None:
                fields |= {**range_fields(result.run.range), "records_out": result.run.rows}
            self._write_event(fields | {"corrected": result.corrected})

    def trimmed(self, line: TrimmedLine) -> None:
        """Housekeeping let something of a line go."""
        with self._guard:
            self._write_event(
                {
                    "fragment": None,
                    "event": "trim",
                    "streams": [line.stream],
                    "producer": str(line.producer),
                    "before_us": line.before_us,
                    "segments": line.segments,
                    "rows": line.rows,
                    "files": line.files,
                    "bytes": line.bytes,
                }
            )

    def placed(self, decision: PlacePartition) -> None:
        """A partition was placed at a worker, or moves to another one."""
        with self._guard:
            self._write_event(
                {
                    "fragment": decision.fragment,
                    "event": "placement",
                    "from_worker": decision.from_worker,
                    "to_worker": decision.to_worker,
                    "because": str(decision.because),
                }
            )

    def write_headroom_to(self, file: HeadroomFile) -> None:
        """Write what bounds leave to another file than the driver's: that of a worker."""
        with self._guard:
            self._headroom = file

    def headroom(self, headrooms: Sequence[Headroom]) -> None:
        """What the bounds leave now. It is logged when a bound may not be kept any more, and when
        it has room again."""
        with self._guard:
            now_s = self._wall()
            self._headroom.write(headrooms, now_s)
            self._alarms.beat(now_s)
            for found in headrooms:
                if self._metrics:
                    for stream in found.streams:
                        self._metrics.headroom(stream, found.left_ms)
                # Around the limit it would be logged again and again.
                was_short = found.fragment in self._short
                is_short = found.left_ms < (found.bound_ms * ROOM_AGAIN if was_short else 0)
                if is_short is was_short:
                    continue
                self._short ^= {found.fragment}
                fact = fact_of(found)
                message = headroom_sentence(fact) if is_short else "the bound can be kept again"
                self._write_event({**fact, "event": "headroom", "message": message})

    def error(self, error: BaseException, decision: Decision | None = None) -> None:
        """Something went wrong, while a decision was carried out or between."""
        kind, text = type(error).__name__, self._safe(error)
        fields: dict[str, Any] = {"fragment": None, "event": "error"}
        if decision is not None:
            known = decision_fields(decision)
            fields = {**known, "event": "error", "decision": known["event"]}
        with self._guard:
            # What was begun in this round is not applied any more, or was and is not logged.
            self._spans.clear()
            self._latest = None
            if self._metrics:
                self._metrics.error(kind, is_conflict=isinstance(error, Conflict))
            logged = {**fields, "error": kind, "message": text}
            self._report_problem(str(fields["fragment"]), f"{kind}: {text}", logged)

    def alarm(self, of: str, because: str | None) -> None:
        """Something is kept from going on by this; None: it goes on."""
        with self._guard:
            self._set_alarm(of, None if because is None else self._safe(because))

    def raised(self) -> Mapping[str, str]:
        """The alarms that are raised now: of what, and why."""
        with self._guard:
            return self._alarms.raised()

    # ------------------------------------------------------------ log lines and alarms

    def _report_loss(self, decision: Adopt) -> None:
        """Raise an alarm for a gap that a lost provider leaves; it stays until the driver ends."""
        fragment, part = decision.fragment.fragment.id, decision.range
        part = self._lost.setdefault(fragment, part).hull(part)
        self._lost[fragment] = part
        self._set_alarm(lost_name(fragment), lost_sentence(decision.provider, part))

    def _set_alarm(self, of: str, because: str | None) -> None:
        """Raise or end an alarm; a line of the log if that is news."""
        now_s, of = self._wall(), self._safe(of)
        fields: dict[str, Any] = {"fragment": None, "event": "alarm", "of": of}
        if because is not None:
            if self._alarms.raise_(of, because, now_s):
                self._write_event({**fields, "is_raised": True, "message": because})
        elif (ended := self._alarms.end(of)) is not None:
            ms = max(round((now_s - ended.since_s) * 1_000), 0)
            self._write_event({**fields, "is_raised": False, "message": ended.because, "ms": ms})
        else:
            return
        if self._metrics:
            self._metrics.alarm(of, is_raised=because is not None)

    def _ms_of(self, decision: Decision) -> float | None:
        """How long it took; None if its beginning was not reported."""
        span = self._spans.pop(_key(decision), None)
        if span is None:
            return None
        if span is self._latest:
            self._latest = None
        ended_s = self._monotonic() if span.ended_s is None else span.ended_s
        return (ended_s - span.begun_s) * 1_000

    def _report_problem(self, of: str, text: str, fields: Mapping[str, Any]) -> None:
        now_s, last = self._monotonic(), self._problems.pop((of, text), None)
        if last and now_s - last.reported_at_s < REPEATED_AFTER_S:
            last.times += 1
            self._problems[of, text] = last
            return
        self._problems[of, text] = _Problem(reported_at_s=now_s)
        while len(self._problems) > PROBLEMS_MAX:
            del self._problems[next(iter(self._problems))]  # the one that was longest away
        self._write_event({**fields, "times": last.times + 1 if last else 1})

    def _write_event(self, fields: Mapping[str, Any]) -> None:
        now = datetime.fromtimestamp(self._wall(), UTC)
        head = {
            "ts": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "participant": self._participant,
            "network": self._network_of.get(str(fields.get("fragment"))),
        }
        line = self._shown({**head, **fields})
        if not self._log.write(line) and self._metrics:
            self._metrics.log_line_lost()
        if self.on_event is not None:
            self.on_event(line)

    def _shown(self, value: Any) -> Any:
        match value:
            case str():
                return self._safe(value)
            case Mapping():
                return {self._safe(k): self._shown(v) for k, v in value.items()}
            case list() | tuple():
                return [self._shown(v) for v in value]
            case _:
                return value


def _key(decision: Decision) -> object:
    """What tells a round's decisions apart."""
    match decision:
        case ComputeStep():
            return (decision.fragment.fragment.id, decision.range, decision.outputs)
        case Promote():
            outputs = tuple(t.segment.stream for t in decision.tentative)
            return (decision.fragment.fragment.id, decision.range, outputs)
        case Adopt():
            return (decision.fragment.fragment.id, decision.range, tuple(decision.segments))
        case DropBuckets():
            return (decision.fragment.fragment.id, decision.range, decision.outputs)
        case CloseBuckets():
            return (decision.landing.stream, decision.range)
        case Wait():
            return decision.of
        case _:
            assert_never(decision)
