"""Assembly of a running participant: its plans, engines, sources, and the loop over them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from medusa_core.commits import Lane, LeaseKey
from medusa_core.errors import Conflict, Unavailable
from medusa_core.fragments import landing_fragment
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Network
from pipelines.base import clock
from pipelines.base.cpu_meter import NO_METER, CpuMeter, Meter
from pipelines.exchange.chooser import Chooser, chooses
from pipelines.exchange.contents import FileContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.importer import Importer, NoImports
from pipelines.exchange.in_process import LocalExchange
from pipelines.exchange.nonblocking import PatientExchange
from pipelines.homes.lease_keeper import LeaseKeeper
from pipelines.homes.network_files import network_of_plan
from pipelines.participant.assigned_plans import (
    Work,
    check_in_force,
    leases_wanted,
    newest_assignments,
    works_of,
)
from pipelines.participant.driver import Driver
from pipelines.participant.home_session import Seat
from pipelines.participant.housekeeper import Housekeeper
from pipelines.participant.loop import Inputs, ParticipantLoop, Said, Workers
from pipelines.participant.market_door import MarketDoor, Turns
from pipelines.platform.drills.fault_injected_links import DrilledWays
from pipelines.sinks.delivery_workers import Deliveries
from pipelines.sources.closing import BucketCloser
from pipelines.sources.live.live_source import LiveSource
from pipelines.sources.live.source_declaration import parse_declaration
from pipelines.sources.live.source_factory import Declared, Place, open_sources
from pipelines.spark.failures import check_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.spark.step import StepEngine

LOOK_AGAIN_S = 0.25


class Engines:
    """The engines of a participant's networks, all in one Spark session."""

    def __init__(self, seat: Seat, session: Callable[[], SparkSession]) -> None:
        self._seat = seat
        self._session = session
        self._engines: dict[str, StepEngine] = {}

    def engine_of(self, work: Work) -> Callable[[], StepEngine]:
        """The engine of a network's steps."""

        def engine() -> StepEngine:
            from pipelines.spark.step import StepEngine

            if work.plan.id not in self._engines:
                storage = self._seat.home.storage
                self._engines[work.plan.id] = StepEngine(self._session(), storage, work.checked)
            return self._engines[work.plan.id]

        return engine


class OwnSession:
    """The Spark session of this process, opened when it is first asked for."""

    def __init__(self, seat: Seat, stack: ExitStack) -> None:
        self._seat = seat
        self._stack = stack
        self._session: SparkSession | None = None

    def __call__(self) -> SparkSession:
        if self._session is None:
            from pipelines.spark.session import close_session, open_session

            home = self._seat.home
            self._session = open_session(home.directory / "drivers" / home.participant)
            self._stack.callback(close_session, self._session)
        return self._session

    def check(self) -> None:
        """Raises SparkEnded if it was opened and its JVM has ended meanwhile."""
        if self._session is not None:
            check_jvm()


def loop_of(
    seat: Seat,
    leases: LeaseKeeper,
    session: Callable[[], SparkSession],
    said: Said,
    stack: ExitStack,
    limits: Limits,
    engines: Engines | None = None,
) -> ParticipantLoop:
    """The loop of a participant whose leases are taken; what it opens is closed with the stack.

    `engines` are those that were warmed up while it waited. In the backlog lane it only corrects.
    """
    assignments = newest_assignments(seat.home.catalog, seat.home.participant)
    works = load_works(seat)
    fragments = {f.id: f for work in works for f in work.fragments}
    check_in_force(works, seat.home.catalog.read_knowledge(fragments, limits))
    ways = DrilledWays(seat.home.directory, seat.home.participant, said.error)
    exchange = PatientExchange(LocalExchange(seat.home.participant, seat.partners, ways))
    stack.callback(exchange.close)
    engine_of = (engines or Engines(seat, session)).engine_of
    meter = CpuMeter(
        seat.home.catalog.record_load, driver=uuid4().hex, lane=leases.lane, told=said.error
    )
    stack.callback(meter.close)
    if leases.lane is Lane.BACKLOG:
        return ParticipantLoop(
            catalog=seat.home.catalog,
            drivers=drivers_of(seat, works, leases, engine_of, limits, said, meter),
            inputs=Inputs(importer=NoImports()),
            leases=leases,
            said=said,
            assignments=assignments,
            meter=meter,
        )
    loop = ParticipantLoop(
        catalog=seat.home.catalog,
        drivers=drivers_of(seat, works, leases, engine_of, limits, said, meter),
        inputs=Inputs(
            importer=Importer(
                seat.home.catalog,
                FileCopies(seat.home.storage),
                exchange,
                leases,
                contents=FileContents(seat.home.storage, seat.home.catalog),
            ),
            chooser=(
                Chooser(seat.home.catalog, leases, said.error) if chooses(assignments) else None
            ),
            sources=sources_of(seat, works, leases, session),
        ),
        leases=leases,
        said=said,
        assignments=assignments,
        workers=Workers(
            housekeeper=Housekeeper(seat.home.catalog, seat.home.storage, said.error, said.trimmed),
            deliveries=Deliveries(
                catalog=seat.home.catalog,
                root=seat.home.storage,
                directory=seat.home.directory,
                said=said,
                meter=meter,
            ),
            market=market_of(seat, said),
        ),
        meter=meter,
    )
    stack.callback(loop.close)
    return loop


def market_of(seat: Seat, said: Said) -> MarketDoor:
    """The door to the market, which is loaded when the home has a contract."""

    def opens() -> Turns | None:
        from pipelines.market.rounds.round_assembly import turns_beside

        home = seat.home
        return turns_beside(
            home.directory, home.participant, seat.urls[0], seat.partners, said.error
        )

    return MarketDoor(seat.home.catalog, opens)


def sources_of(
    seat: Seat, works: tuple[Work, ...], leases: LeaseKeeper, session: Callable[[], SparkSession]
) -> dict[StreamName, LiveSource]:
    """The live sources that are landed here and declared, opened; others land by other means."""
    home = seat.home
    assigned = {
        a.fragment: LeaseKey(fragment=a.fragment, producer=a.producer, partition=a.partition)
        for a in newest_assignments(home.catalog, home.participant)
    }
    plans = {s.name: work.plan for work in works for s in work.plan.network.sources}
    declared: dict[StreamName, Declared] = {}
    for stream, document in home.catalog.sources().items():
        key = assigned.get(landing_fragment(stream))
        if key is None or stream not in plans:
            continue
        plan = plans[stream]
        declared[stream] = Declared(
            declaration=parse_declaration(stream, document),
            source=plan.network.source(stream),
            width_us=plan.widths_us[stream],
            lease=partial(leases.lease, key),
        )
    place = Place(
        catalog=home.catalog,
        root=home.storage,
        checkpoints=home.directory / "drivers" / home.participant / "checkpoints",
        session=session,
        base=home.directory,
    )
    return open_sources(declared, place)


def load_works(seat: Seat) -> tuple[Work, ...]:
    """The plans that are assigned in this home, loaded and checked."""
    assignments = newest_assignments(seat.home.catalog, seat.home.participant)
    directory = seat.home.directory

    def load(document: Mapping[str, Any]) -> Network:
        return network_of_plan(document, directory)

    return works_of(seat.home.catalog, assignments, load, directory)


def drivers_of(
    seat: Seat,
    works: tuple[Work, ...],
    leases: LeaseKeeper,
    engine_of: Callable[[Work], Callable[[], StepEngine]],
    limits: Limits,
    said: Said | None = None,
    meter: Meter = NO_METER,
) -> list[Driver]:
    """A driver for each network."""
    return [
        Driver(
            catalog=seat.home.catalog,
            work=work,
            closer=BucketCloser(seat.home.catalog, seat.home.storage),
            leases=leases,
            engine=engine_of(work),
            limits=limits,
            said=said,
            meter=meter,
        )
        for work in works
    ]


def wait_for_leases(
    seat: Seat,
    leases: LeaseKeeper,
    lease_ms: int,
    said: Said,
    *,
    get_ready: Callable[[], None] | None = None,
    gets_ready_first: bool = False,
    stands_by: bool = False,
) -> None:
    """Take every lease of this participant; a predecessor that was killed is waited for.

    `get_ready` is called once: before the first attempt with `gets_ready_first`, else as soon as
    there is something to wait for. One that `stands_by` waits for as long as another driver holds a
    lease, also while the catalog is away. Raises Conflict if another driver still holds one after
    the time in which a dead one's would have ended.
    """
    is_ready = get_ready is None
    ends_s = clock.monotonic_s() + 1.5 * lease_ms / 1000
    while True:
        try:
            if gets_ready_first and not is_ready and get_ready is not None:
                get_ready()
                is_ready = True
                ends_s = clock.monotonic_s() + 1.5 * lease_ms / 1000
            wanted = leases_wanted(newest_assignments(seat.home.catalog, seat.home.participant))
            leases.take(wanted)
        except Conflict as error:
            is_too_late = clock.monotonic_s() > ends_s
            if is_too_late and not stands_by:
                raise
            said.error(error)
            if get_ready is not None and not is_ready:
                get_ready()
                is_ready = True
            else:
                clock.sleep_s(min(LOOK_AGAIN_S, lease_ms / 4_000))
        except Unavailable as error:
            if not stands_by:
                raise
            said.error(error)
            clock.sleep_s(LOOK_AGAIN_S)
            with contextlib.suppress(Unavailable):
                seat.revive()
        else:
            return


def has_promised(seat: Seat) -> bool:
    """Whether a bound is declared for an output that is computed here.

    A step whose plan has to be made first takes seconds, which a bound may not leave.
    """
    bounds = seat.home.catalog.bounds()
    return any(
        bounds.get(name, (None, 0))[0] is not None
        for work in load_works(seat)
        for fragment in work.fragments
        for name in fragment.outputs
    )


def has_ended(seat: Seat) -> bool:
    """Whether everything that this participant lands, imports or computes has come to its end."""
    catalog, here = seat.home.catalog, seat.home.participant
    own = [line for line in catalog.lines() if line.producer.participant == here]
    # Of several producers one may never come back: what was chosen among them counts.
    chosen = {line.stream.name for line in own if line.producer.is_import}
    if not all(s.has_ended for s in catalog.imports() if s.stream not in chosen):
        return False
    return all(line.has_ended for line in own)
