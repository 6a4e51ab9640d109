"""Replay of recorded files through a network to the end: all buckets closed, all outputs stable.

All files of one replay are one finite set, so nothing in it is late. The replay lands them,
declares the sources ended in the catalog, and ticks until every output has ended too. All
progress is in the catalog: killed and started again in the same folder it continues from the last
commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from medusa_core.commits import Lease, LeaseKey
from medusa_core.decide import ComputeStep, Decision
from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.fragments import landing_fragment
from medusa_core.grid import FOREVER_US, ceil_us, floor_us
from medusa_core.knowledge import Limits
from medusa_core.names import Epoch, StreamName
from medusa_core.network import Network, Source
from medusa_core.plans import Plan
from medusa_core.segments import Producer
from medusa_core.states import Transition
from medusa_core.suggest import counted, did_you_mean
from pipelines.base import clock
from pipelines.base.files import write_atomically
from pipelines.base.foreign_documents import parse_json
from pipelines.catalog.processing_roles import LandedFiles, Landing
from pipelines.catalog.reading_roles import Lines, Quarantine, StepHistory
from pipelines.homes.home import Home
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.language.check import CheckedNetwork, check_network, fragments_for
from pipelines.participant.assigned_plans import AssignedPlan
from pipelines.participant.driver import Applied, Driver
from pipelines.participant.kept_history import KeptHistory
from pipelines.sources.closing import BucketCloser
from pipelines.sources.landing import landed_batch, log_batch
from pipelines.sources.recorded.reader import check_named_once, read_recorded
from pipelines.spark.deployment import deployment_of, plan_of
from pipelines.storage.arrow_schema import columns_of
from pipelines.storage.csv_export import export_stream
from pipelines.storage.file_limits import FileLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.spark.results import Verified
    from pipelines.spark.step import StepEngine

HISTORY = "history"
"""The query under which the kept history of a stream lands."""

Say = Callable[[str], None]
Sessions = Callable[[Home], "AbstractContextManager[Callable[[], SparkSession]]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOrder:
    """What to replay: a network, bucket width, limits of steps and files, and what sources read.

    `inputs` are files by source, `histories` streams of a home; each source has one or the other.
    """

    network: Network
    inputs: Mapping[StreamName, tuple[Path, ...]]
    width_us: int
    limits: Limits = field(default_factory=Limits)
    chunk_records: int = 250_000
    file_limits: FileLimits = field(default_factory=FileLimits)
    histories: Mapping[StreamName, KeptHistory] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """The same for the same work, so that a kept folder is not gone on with by another."""
        files = {
            name: [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in paths]
            for name, paths in sorted(self.inputs.items())
        }
        read: list[object] = [files, self.width_us, self.chunk_records]
        if self.histories:
            read.append({name: its.fingerprint for name, its in sorted(self.histories.items())})
        text = json.dumps(read)
        return sha256(text.encode()).hexdigest()


def with_landed_sources(network: Network, histories: Collection[str] = ()) -> Network:
    """The network with sources that land in the place of streams of others that it reads.

    `histories` are the sources whose records come from a home, with their event time. Raises
    Refused for another source of which nobody says which column has event time.
    """
    landed: list[Source] = []
    for source in network.sources:
        if source.name in histories:
            # No column is parsed for event time; a source that lands has to name one.
            time = source.time or next(iter(source.columns))
            landed.append(replace(source, stream=None, time=time, key=()))
            continue
        if not source.is_landed and not source.time:
            raise Refused(
                f"source {source.name} of network {network.name} reads stream {source.stream}: "
                "to replay files in its place, name its column with event time as time"
            )
        landed.append(replace(source, stream=None))
    return replace(network, sources=tuple(landed))


def streams_of_network(
    network: Network, given: Sequence[str], option: str = "--stream", noun: str = "STREAM"
) -> dict[StreamName, str]:
    """Streams (or views) of a home by source, from `[SOURCE=]STREAM` words of an option.

    Raises Refused for an unknown source.
    """
    streams: dict[StreamName, str] = {}
    names = [source.name for source in network.sources]
    for word in given:
        name, sign, stream = word.partition("=")
        if not sign:
            name, stream = _only_source(network, option, f"SOURCE={noun}", word), word
        if name not in names:
            hint = did_you_mean(name, names, f"it has {', '.join(names)}")
            raise Refused(f"network {network.name} has no source {name!r}: {hint}")
        if streams.setdefault(StreamName(name), stream) != stream:
            raise Refused(
                f"source {name} of network {network.name} is given two {noun.lower()}s: give one"
            )
    return streams


def _only_source(network: Network, option: str, form: str, word: str) -> str:
    names = [source.name for source in network.sources]
    if len(names) > 1:
        raise Refused(
            f"{option} {word!r} does not say which source of {network.name} it is for: "
            f"write {form} with one of {', '.join(names)}"
        )
    return names[0]


def inputs_of_network(
    network: Network, given: Sequence[str], histories: Collection[str] = ()
) -> dict[StreamName, tuple[Path, ...]]:
    """Files by source, from `[STREAM=]FILE` words; Refused unless every source has one.

    Sources of `histories` read a stream instead.
    """
    files: dict[StreamName, list[Path]] = {StreamName(s.name): [] for s in network.sources}
    names = ", ".join(files)
    for word in given:
        name, sign, path = word.partition("=")
        if not sign or not name.isidentifier() or _is_there(Path(word)):
            name, path = _only_source(network, "--input", "STREAM=FILE", word), word
        if name not in files:
            hint = did_you_mean(name, files, f"it has {names}")
            raise Refused(f"network {network.name} has no source {name!r}: {hint}")
        if name in histories:
            raise Refused(
                f"source {name} of network {network.name} has a file and a stream: give one"
            )
        files[StreamName(name)].append(Path(path))
    for name in histories:
        del files[StreamName(name)]
    for source, paths in files.items():
        if not paths:
            raise Refused(
                f"source {source} of network {network.name} has no input: give --input "
                f"{source}=FILE, --stream {source}=STREAM or --view {source}=VIEW"
            )
        for file in paths:
            if not _is_there(file):
                raise Refused(f"input file {file} does not exist: give the path of a recorded file")
            if file.is_dir():
                raise Refused(f"input {file} is a folder: name the files inside it")
            if file.is_char_device() or file.is_block_device():
                raise Refused(f"input {file} is a device: give the path of a recorded file")
        check_named_once(paths)
    return {name: tuple(paths) for name, paths in files.items()}


def _is_there(path: Path) -> bool:
    """Whether the path can be looked at; one that is too long or closed to us is not there."""
    try:
        path.stat()
    except OSError:
        return False
    return True


@dataclass(kw_only=True)
class ReplayTimes:
    """Seconds of each part of a replay."""

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
        session = stack.enter_context((sessions or _StartingSession)(home))
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
        for name in sources:
            if name in order.histories:
                land_history(order, home, leases, name, producer, say)
            else:
                land(order, home, leases, name, producer, say)
        times.lap("land")
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
        total = _records(catalog, sources)
        done = 0
        while applied := ticked(driver, leases, keys):
            done += _computed(applied)
            if done:
                say(f"computed {min(done, total):,} of {total:,} records")
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


def land(
    order: ReplayOrder,
    home: Home,
    leases: LeaseRenewer,
    stream: StreamName,
    producer: Producer,
    say: Say,
) -> None:
    """Land the files of one source, those parts that have not landed yet, then promise its end."""
    catalog = home.catalog
    lease_key = LeaseKey(fragment=landing_fragment(stream), producer=producer)
    source = order.network.source(stream)
    columns = columns_of(f"source {source.name!r}", source.columns)
    check_named_once(order.inputs[stream])
    landed = 0
    for at, file in enumerate(order.inputs[stream]):
        query_id = f"recorded-{at}"
        batches = catalog.landed_batches(stream, query_id)
        landed += sum(batches.values())
        chunks = read_recorded(
            source,
            [file],
            chunk_records=order.chunk_records,
            skip={file: len(batches)},
            limits=order.file_limits,
        )
        for chunk in chunks:
            batch = landed_batch(
                home.storage,
                stream,
                query_id,
                chunk.index,
                chunk.records,
                columns,
                order.width_us,
                chunk.quarantined,
            )
            log_batch(catalog, leases.lease(lease_key), batch)
            landed += chunk.records.num_rows
            say(f"landed {landed:,} records of {stream}")
    promise_end(order, catalog, leases.lease(lease_key), stream)


def land_history(
    order: ReplayOrder,
    home: Home,
    leases: LeaseRenewer,
    stream: StreamName,
    producer: Producer,
    say: Say,
) -> None:
    """Land the kept history of a stream, those parts that have not landed yet; promise its end."""
    catalog, history = home.catalog, order.histories[stream]
    lease_key = LeaseKey(fragment=landing_fragment(stream), producer=producer)
    columns = columns_of(f"source {stream!r}", order.network.source(stream).columns)
    batches = catalog.landed_batches(stream, HISTORY)
    landed = sum(batches.values())
    if history.gaps:
        say(f"stream {history.stream} has {counted(history.gaps, 'gap')}: rows there are lost")
    for at, records in enumerate(history.tables(order.chunk_records)):
        if at in batches:
            continue
        batch = landed_batch(home.storage, stream, HISTORY, at, records, columns, order.width_us)
        log_batch(catalog, leases.lease(lease_key), batch)
        landed += records.num_rows
        say(f"landed {landed:,} records of {stream}")
    promise_end(order, catalog, leases.lease(lease_key), stream)


def promise_end(order: ReplayOrder, catalog: Landing, lease: Lease, stream: StreamName) -> None:
    """Say that all of a stream has landed."""
    origin_us, end_us = extent(catalog, stream, order.width_us)
    catalog.promise(lease, stream, origin_us=origin_us, boundary_us=FOREVER_US, end_us=end_us)


def extent(catalog: Landing, stream: StreamName, width_us: int) -> tuple[int, int]:
    """Start of the first and end of the last bucket that has landed records; one bucket if none."""
    starts = catalog.landed_extent(stream)
    if starts is None:
        return 0, width_us
    return floor_us(starts[0], width_us), ceil_us(starts[1] + 1, width_us)


def check_ended(catalog: Lines, fragments: Sequence[Any]) -> None:
    """Every output must have ended; anything else is a fault of ours, not of the input."""
    written = {stream for f in fragments for stream in f.outputs}
    open_ = [s.stream.name for s in catalog.streams() if s.stream.name in written
             and s.end_us is None]  # fmt: skip
    assert not open_, f"nothing left to do but {open_} have not ended"


def _records(catalog: LandedFiles, sources: Sequence[StreamName]) -> int:
    return sum(
        sum(catalog.landed_batches(name, query).values())
        for name in sources
        for query in catalog.landed_queries(name)
    )


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


class _StartingSession:
    """A Spark session that starts in the background while records land, stopped at the end."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        self._session: Future[SparkSession] | None = None

    def __enter__(self) -> Callable[[], SparkSession]:
        from pipelines.spark.session import open_session

        self._session = self._pool.submit(open_session, self._home.directory)
        return self._session.result

    def __exit__(self, *error: object) -> None:
        from pipelines.spark.session import close_session

        assert self._session is not None
        if not self._session.cancel() and self._session.exception() is None:
            close_session(self._session.result())
        self._pool.shutdown()
