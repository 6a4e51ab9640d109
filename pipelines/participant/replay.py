"""Replay of recorded files through a network to the end: all buckets closed, all outputs stable.

The records land (`pipelines.participant.replay_landing`), and the driver ticks until every output
has ended. All progress is in the catalog: killed and started again in the same folder, a replay
continues from the last commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from medusa_core.commits import LeaseKey
from medusa_core.decide import ComputeStep, Decision
from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.fragments import landing_fragment
from medusa_core.names import Epoch, StreamName
from medusa_core.plans import Plan
from medusa_core.segments import Producer
from medusa_core.states import Transition
from pipelines.base import clock
from pipelines.base.files import write_atomically
from pipelines.base.foreign_documents import parse_json
from pipelines.catalog.reading_roles import Lines, Quarantine, StepHistory
from pipelines.homes.home import Home
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.language.check import CheckedNetwork, check_network, fragments_for
from pipelines.participant.assigned_plans import AssignedPlan
from pipelines.participant.driver import Applied, Driver
from pipelines.participant.replay_landing import ReplayLanding
from pipelines.participant.replay_order import ReplayOrder, Say
from pipelines.sources.closing import BucketCloser
from pipelines.spark.deployment import deployment_of, plan_of
from pipelines.storage.csv_export import export_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.spark.results import Verified
    from pipelines.spark.step import StepEngine

Sessions = Callable[[Home], "AbstractContextManager[Callable[[], SparkSession]]"]


@dataclass(kw_only=True)
class ReplayTimes:
    """Seconds of each part of a replay; `land` is the time that computing waited for landing."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=clock.monotonic_s)

    def lap(self, name: str) -> None:
        """Count the time since the last lap under this name."""
        now = clock.monotonic_s()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a replay did, all read from its catalog but the times."""

    network: str
    plan: str
    streams: Mapping[str, Mapping[str, int]]
    steps: int
    steps_resumed: int
    spark_jobs: int
    quarantined: int
    seconds: Mapping[str, float]
    step_ms: Sequence[float]
    exported: Mapping[str, str]
    verification_jobs: int = 0
    """Spark jobs that compared prepared jobs with ordinary plans, besides `spark_jobs`."""

    differences: Sequence[str] = ()
    """Prepared jobs that differed from their ordinary plan, whose results were taken instead."""

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        ordered = sorted(self.step_ms)
        middle = ordered[len(ordered) // 2] if ordered else 0.0
        return {
            "network": self.network,
            "plan": self.plan,
            "streams": {name: dict(figures) for name, figures in self.streams.items()},
            "buckets": sum(f["buckets"] for f in self.streams.values()),
            "segments": sum(f["segments"] for f in self.streams.values()),
            "steps": self.steps,
            "steps_resumed": self.steps_resumed,
            "spark_jobs": self.spark_jobs,
            "verification_jobs": self.verification_jobs,
            "quarantined": self.quarantined,
            "seconds": {name: round(s, 3) for name, s in self.seconds.items()},
            "step_ms_p50": round(middle, 1),
            "exported": dict(self.exported),
            "differences": list(self.differences),
        }


def replay(
    order: ReplayOrder,
    home: Home,
    export: Path | None,
    *,
    say: Say = lambda line: None,
    sessions: Sessions | None = None,
    engine: Callable[[], StepEngine] | None = None,
) -> ReplayResult:
    """Run the order to its end in a home of its own and export every output stream.

    `sessions` gives the Spark session to run in (default: one of its own, stopped at the end), and
    `engine` one in which the network's jobs were made before (default: a new one).

    Raises Refused for bad input, Conflict if the home holds another replay, Unavailable if a part
    is missing; whatever was committed stays.
    """
    times = ReplayTimes()
    if export is not None:
        make_folder(export, "--export")
    checked = check_network(order.network)
    plan = plan_of(order.network, checked, order.width_us, home.directory)
    holder = claim(home, order, plan)
    with ExitStack() as stack:
        session = stack.enter_context((sessions or StartingSession().of_home)(home))
        catalog = home.catalog
        producer = Producer(home.participant)
        fragments = fragments_for(checked)
        catalog.deploy(deployment_of(plan, checked, fragments, producer))
        leases = stack.enter_context(LeaseRenewer(catalog, holder))
        sources = [StreamName(s.name) for s in order.network.sources]
        names = [*(landing_fragment(s) for s in sources), *(f.id for f in fragments)]
        keys = [(LeaseKey(fragment=name, producer=producer), home.epoch) for name in names]
        leases.take(keys)
        before = len(catalog.steps())
        times.lap("open")
        landing = stack.enter_context(ReplayLanding(order, home, leases, producer, say))
        engine = engine or _LazyEngine(session, home.storage, checked)
        driver = Driver(
            catalog=catalog,
            assigned_plan=AssignedPlan(plan=plan, checked=checked, fragments=fragments),
            closer=BucketCloser(catalog, home.storage),
            leases=leases,
            engine=engine,
            limits=order.limits,
            observer=(heard := _Verifications()),
        )
        done = 0
        for total in landing.promises():
            times.lap("land")
            while applied := ticked(driver, leases, keys):
                done += _computed(applied)
                if done:
                    say(f"computed {min(done, total):,} of {total:,} records landed")
            times.lap("compute")
        check_ended(catalog, fragments)
        exported = {}
        if export is not None:
            for output in order.network.outputs:
                stream = StreamName(output.name)
                path = export / f"{output.name}.csv"
                rows = export_stream(catalog, home.storage, stream, path)
                say(f"exported {rows:,} rows to {path}")
                exported[output.name] = str(path)
        times.lap("export")
        result = _result(order, plan, catalog, before, times, exported)
        return replace(
            result,
            verification_jobs=heard.verification_jobs,
            differences=tuple(heard.sentences),
        )


def make_folder(folder: Path, option: str) -> None:
    """Make a folder for results before any work is done; Refused if it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(
            f"folder {folder} cannot be made ({error.strerror}): give {option} another"
        ) from error


def ticked(
    driver: Driver, leases: LeaseRenewer, keys: Sequence[tuple[LeaseKey, Epoch]]
) -> list[Applied]:
    """One tick; if a lease ran out meanwhile (a suspended machine), with leases taken anew.

    The home is held alone by this process, so nobody else can have had them. Raises Conflict if
    somebody has all the same.
    """
    try:
        return driver.tick()
    except Conflict:
        leases.take(keys)
        return driver.tick()


def claim(home: Home, order: ReplayOrder, plan: Plan) -> str:
    """Mark the home as this replay's and return the name of its driver.

    Started again with the same order it has the same name, so its own leases do not stop it; two at
    once are kept apart by the lock that the home holds. Refused for another order.
    """
    mark = home.directory / "replay.json"
    expected = {"order": order.fingerprint, "plan": plan.id}
    if mark.exists():
        found = _mark_in(mark)
        if {k: found.get(k) for k in expected} != expected or not isinstance(found["holder"], str):
            raise Refused(
                f"{home.directory} holds another replay (other network, files, width or engine): "
                "choose an empty folder for --keep"
            )
        return found["holder"]
    holder = f"replay-{uuid4().hex}"
    text = json.dumps({**expected, "holder": holder, "network": order.network.name})
    write_atomically(mark, text)
    return holder


def _mark_in(mark: Path) -> Mapping[str, Any]:
    """What a mark says; that it has no holder, if it is none of ours."""
    nothing: dict[str, Any] = {"holder": None}
    try:
        found = parse_json(mark.read_bytes(), str(mark), "choose another folder")
    except OSError as error:
        raise Unavailable(f"{mark} cannot be read ({error.strerror}): mend its rights") from error
    except Refused:
        return nothing
    return nothing | found if isinstance(found, dict) else nothing


def check_ended(catalog: Lines, fragments: Sequence[Any]) -> None:
    """Every output must have ended; anything else is a fault of ours, not of the input."""
    written = {stream for f in fragments for stream in f.outputs}
    open_ = [s.stream.name for s in catalog.streams() if s.stream.name in written
             and s.end_us is None]  # fmt: skip
    assert not open_, f"nothing left to do but {open_} have not ended"


def _computed(applied: Sequence[Applied]) -> int:
    return sum(a.commit.metrics.records_in for a in applied if isinstance(a.decision, ComputeStep))


class ReplayedHome(Lines, StepHistory, Quarantine, Protocol):
    """What a replay has left in its home."""


def _result(
    order: ReplayOrder,
    plan: Plan,
    catalog: ReplayedHome,
    before: int,
    times: ReplayTimes,
    exported: Mapping[str, str],
) -> ReplayResult:
    streams = {}
    for status in catalog.streams():
        segments = catalog.segments(status.stream.name)
        streams[str(status.stream.name)] = {
            "rows": status.rows,
            "segments": status.segments,
            "buckets": sum(len(s.buckets) for s in segments),
            "version": status.version,
        }
    steps = catalog.steps()
    computed = [s for s in steps if s.cause != "landing"]
    return ReplayResult(
        network=order.network.name,
        plan=plan.id,
        streams=streams,
        steps=len(computed),
        steps_resumed=before,
        spark_jobs=sum(s.metrics.spark_jobs for s in steps),
        quarantined=catalog.quarantine_count(),
        seconds={**times.seconds, "total": sum(times.seconds.values())},
        step_ms=[s.metrics.step_ms for s in computed],
        exported=exported,
    )


class _Verifications:
    """An observer of the driver that keeps what verification cost and found wrong."""

    def __init__(self) -> None:
        self.verification_jobs = 0
        self.sentences: list[str] = []

    def verified(self, verified: Verified) -> None:
        """A prepared job was compared with the ordinary plan."""
        self.verification_jobs += verified.spark_jobs
        if verified.difference is not None:
            self.sentences.append(verified.sentence)

    def decided(self, decision: Decision) -> None:
        """See `pipelines.participant.driver.DriverObserver`."""

    def applied(self, applied: Applied) -> None:
        """See `pipelines.participant.driver.DriverObserver`."""

    def transitioned(self, transition: Transition) -> None:
        """See `pipelines.participant.driver.DriverObserver`."""

    def alarm(self, of: str, because: str | None) -> None:
        """See `pipelines.participant.driver.DriverObserver`."""


class _LazyEngine:
    """The step engine, made when the first step needs it and the session has started."""

    def __init__(
        self, session: Callable[[], SparkSession], root: Path, checked: CheckedNetwork
    ) -> None:
        self._session, self._root, self._checked = session, root, checked
        self._engine: StepEngine | None = None

    def __call__(self) -> StepEngine:
        if self._engine is None:
            from pipelines.spark.step import StepEngine

            self._engine = StepEngine(self._session(), self._root, self._checked)
        return self._engine


class StartingSession:
    """A Spark session that starts in the background, and is stopped at the end if it was started.

    A JVM takes seconds to start, in which a home can be made and records land.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        self._session: Future[SparkSession] | None = None

    def start(self, directory: Path) -> None:
        """Begin to start it, once; its files are in `directory`."""
        from pipelines.spark.session import open_session

        if self._session is None:
            self._session = self._pool.submit(open_session, directory)

    @contextmanager
    def of_home(self, home: Home) -> Iterator[Callable[[], SparkSession]]:
        """What returns the session when it has started; it is stopped with the block."""
        self.start(home.directory)
        assert self._session is not None
        try:
            yield self._session.result
        finally:
            self.close()

    def close(self) -> None:
        """Stop it, once it has started."""
        from pipelines.spark.session import close_session

        session, self._session = self._session, None
        try:
            if session is not None and not session.cancel():
                session.exception()
        finally:
            # Also if an interrupt ended the wait: the JVM would outlive its folder.
            if session is not None and not session.cancelled() and session.exception() is None:
                close_session(session.result())
            self._pool.shutdown()
