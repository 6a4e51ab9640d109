"""Assembly of a running participant: its plans, engines, sources, and the loop over them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from medusa_core.commits import Lane, LeaseKey
from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.fragments import landing_fragment
from medusa_core.knowledge import Limits
from medusa_core.names import Participant, StreamName
from medusa_core.network import Network
from pipelines.base import clock
from pipelines.base.cpu_meter import NO_METER, CpuMeter, Meter
from pipelines.catalog.processing_roles import Deployments
from pipelines.catalog.records import Assignment
from pipelines.exchange.chooser import Chooser, chooses
from pipelines.exchange.contents import FileContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.exchange_port import Exchange
from pipelines.exchange.importer import Importer, Marks, NoImports
from pipelines.exchange.nonblocking import NonBlockingExchange, NonBlockingTransport
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.homes.network_files import network_of_plan
from pipelines.participant.assigned_plans import (
    AssignedPlan,
    assigned_plans_of,
    check_in_force,
    leases_needed,
    newest_assignments,
    shared_fragments,
)
from pipelines.participant.driver import Driver
from pipelines.participant.home_session import HomeSession
from pipelines.participant.housekeeper import Housekeeper
from pipelines.participant.late_admission import LateAdmission, LateFiles
from pipelines.participant.loop import Inputs, LoopObserver, ParticipantLoop, Workers
from pipelines.participant.market_door import MarketDoor, MarketTicker
from pipelines.participant.notification_queue import NotificationQueue
from pipelines.participant.placed_partitions import MAIN, PlacedPartitions
from pipelines.participant.revising import reach_of_import
from pipelines.platform.drills.fault_injected_exchange import FaultInjectedExchange
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks
from pipelines.sinks.delivery_workers import Deliveries
from pipelines.sources.closing import BucketCloser
from pipelines.sources.live.live_source import LiveSource
from pipelines.sources.live.source_declaration import parse_declaration
from pipelines.sources.live.source_factory import Declared, Place, open_sources
from pipelines.spark.failures import check_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.market.rounds.round_assembly import Recomputes
    from pipelines.spark.step import StepEngine

LOOK_AGAIN_S = 0.25


class Engines:
    """The engines of a participant's networks, all in one Spark session, over a storage root.

    They outlive the loop: one that is made for other assignments goes on with the same engines.
    """

    def __init__(self, storage: Path, session: Callable[[], SparkSession]) -> None:
        self._storage = storage
        self._session = session
        self._engines: dict[str, StepEngine] = {}

    def engine_of(self, assigned_plan: AssignedPlan) -> Callable[[], StepEngine]:
        """The engine of a network's steps."""

        def engine() -> StepEngine:
            from pipelines.spark.step import StepEngine

            if assigned_plan.plan.id not in self._engines:
                self._engines[assigned_plan.plan.id] = StepEngine(
                    self._session(), self._storage, assigned_plan.checked
                )
            return self._engines[assigned_plan.plan.id]

        return engine

    def keep(self, assigned_plans: tuple[AssignedPlan, ...]) -> None:
        """Let the engines of all other plans go."""
        plans = {assigned_plan.plan.id for assigned_plan in assigned_plans}
        self._engines = {plan: made for plan, made in self._engines.items() if plan in plans}


class OwnSession:
    """The Spark session of this process, opened at its first use."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        """`directory` is the driver's own; the session is closed with the stack."""
        self._directory = directory
        self._stack = stack
        self._session: SparkSession | None = None

    def __call__(self) -> SparkSession:
        if self._session is None:
            from pipelines.spark.session import close_session, open_session

            self._session = open_session(self._directory)
            self._stack.callback(close_session, self._session)
        return self._session

    def check(self) -> None:
        """Raises SparkEnded if it was opened and its JVM has ended meanwhile."""
        if self._session is not None:
            check_jvm()


def loop_of(
    home_session: HomeSession,
    leases: LeaseRenewer,
    session: Callable[[], SparkSession],
    observer: LoopObserver,
    stack: ExitStack,
    limits: Limits,
    engines: Engines | None = None,
    recomputes: Recomputes | None = None,
    worker: str = MAIN,
) -> ParticipantLoop:
    """The loop of a participant whose leases are taken; what it opens is closed with the stack.

    `engines` are those that were warmed up while it waited. In the backlog lane it only corrects,
    and as a `worker` other than the main one it only computes the partitions that are placed there.
    `recomputes` makes what samples of moved load are recomputed by.
    """
    assignments = newest_assignments(home_session.home.catalog, home_session.home.participant)
    assigned_plans = load_assigned_plans(home_session)
    fragments = {f.id: f for assigned_plan in assigned_plans for f in assigned_plan.fragments}
    check_in_force(assigned_plans, home_session.home.catalog.read_knowledge(fragments, limits))
    links = FaultInjectedLinks(
        home_session.home.directory, home_session.home.participant, observer.error
    )
    exchange = loop_exchange(home_session, links)
    stack.callback(exchange.close)
    engines = engines or Engines(home_session.home.storage, session)
    engines.keep(assigned_plans)
    engine_of = engines.engine_of
    meter = CpuMeter(
        home_session.home.catalog.record_load,
        driver=uuid4().hex,
        lane=leases.lane,
        on_error=observer.error,
    )
    stack.callback(meter.close)
    if worker != MAIN:
        return worker_loop(
            home_session,
            assigned_plans,
            assignments,
            leases,
            engine_of,
            observer,
            stack,
            limits,
            meter,
            worker,
        )
    if leases.lane is Lane.BACKLOG:
        return ParticipantLoop(
            catalog=home_session.home.catalog,
            drivers=drivers_of(
                home_session, assigned_plans, leases, engine_of, limits, observer, meter
            ),
            inputs=Inputs(importer=NoImports()),
            leases=leases,
            observer=observer,
            assignments=assignments,
            meter=meter,
        )
    partitions = partitions_of(home_session, assignments, leases, observer, MAIN)
    loop = ParticipantLoop(
        catalog=home_session.home.catalog,
        drivers=drivers_of(
            home_session,
            assigned_plans,
            leases,
            engine_of,
            limits,
            observer,
            meter,
            lambda of: partitions is None or partitions.is_here(of),
        ),
        inputs=Inputs(
            importer=importer_of(home_session, leases, exchange, links),
            chooser=(
                Chooser(home_session.home.catalog, leases, observer.error)
                if chooses(assignments)
                else None
            ),
            sources=sources_of(home_session, assigned_plans, leases, session),
            late=late_records_of(home_session, assigned_plans, observer),
            declarations=home_session.home.catalog.sources,
            partitions=partitions,
        ),
        leases=leases,
        observer=observer,
        assignments=assignments,
        workers=Workers(
            housekeeper=Housekeeper(
                home_session.home.catalog,
                home_session.home.storage,
                observer.error,
                observer.trimmed,
                check=NotificationQueue(
                    home_session.home.catalog.notifications_used, observer.alarm
                ).check,
            ),
            deliveries=Deliveries(
                catalog=home_session.home.catalog,
                root=home_session.home.storage,
                directory=home_session.home.directory,
                observer=observer,
                meter=meter,
            ),
            market=market_of(home_session, observer, recomputes),
        ),
        meter=meter,
    )
    stack.callback(loop.close)
    return loop


def worker_loop(
    home_session: HomeSession,
    assigned_plans: tuple[AssignedPlan, ...],
    assignments: tuple[Assignment, ...],
    leases: LeaseRenewer,
    engine_of: Callable[[AssignedPlan], Callable[[], StepEngine]],
    observer: LoopObserver,
    stack: ExitStack,
    limits: Limits,
    meter: Meter,
    worker: str,
) -> ParticipantLoop:
    """The loop of a worker: it computes partitions, and neither lands nor imports nor delivers."""
    partitions = partitions_of(home_session, assignments, leases, observer, worker)
    if partitions is None:
        raise Refused(
            f"{home_session.home.participant} computes no partitioned fragment for worker {worker}:"
            " declare partitions in a network, or run it without --worker"
        )
    loop = ParticipantLoop(
        catalog=home_session.home.catalog,
        drivers=drivers_of(
            home_session,
            assigned_plans,
            leases,
            engine_of,
            limits,
            observer,
            meter,
            lambda of: partitions.is_shared(of) and partitions.is_here(of),
        ),
        inputs=Inputs(importer=NoImports(), partitions=partitions),
        leases=leases,
        observer=observer,
        assignments=assignments,
        meter=meter,
    )
    stack.callback(loop.close)
    return loop


def fixed_of(
    catalog: Deployments, assignments: tuple[Assignment, ...], worker: str, lane: Lane
) -> tuple[Assignment, ...]:  # fmt: skip
    """What a process has from its beginning to its end: of the main one all that workers do not
    share, of another one nothing, and in the backlog lane all, since workers share only the live
    one."""
    if worker != MAIN:
        return ()
    if lane is Lane.BACKLOG:
        return assignments
    shared = shared_fragments(catalog)
    return tuple(a for a in assignments if a.fragment not in shared)


def partitions_of(
    home_session: HomeSession,
    assignments: tuple[Assignment, ...],
    leases: LeaseRenewer,
    observer: LoopObserver,
    worker: str,
) -> PlacedPartitions | None:
    """The partitions that a worker shares with others, from now on; None if there are none."""
    catalog = home_session.home.catalog
    shared = shared_fragments(catalog)
    mine = tuple(a for a in assignments if a.fragment in shared)
    if not mine:
        return None
    partitions = PlacedPartitions(
        catalog,
        leases,
        name=worker,
        keys={key.fragment: (key, epoch) for key, epoch in leases_needed(mine)},
        observer=observer,
    )
    partitions.begin(1.5 * leases.lease_ms / 1_000)
    return partitions


def loop_exchange(home_session: HomeSession, links: FaultInjectedLinks) -> NonBlockingExchange:
    """The exchange with partners as a loop calls it: without blocking, over links with faults."""
    return NonBlockingExchange(FaultInjectedExchange(home_session.exchange, links))


def importer_of(
    home_session: HomeSession,
    leases: LeaseRenewer,
    exchange: Exchange,
    links: FaultInjectedLinks,
) -> Importer:
    """The importer of a home; over a link with a fault nothing is known without a request."""
    home = home_session.home

    def line_marks(partner: Participant) -> Marks | None:
        is_heard = links.carries_notification(partner)
        return home_session.exchange.line_marks(partner) if is_heard else None

    importer = Importer(
        home.catalog,
        FileCopies(home.storage),
        exchange,
        leases,
        contents=FileContents(home.storage, home.catalog),
        line_marks=line_marks,
        on_delay=home_session.exchange.links.note_delay,
    )
    importer.set_reach(partial(reach_of_import, home.catalog))
    return importer


def market_of(
    home_session: HomeSession, observer: LoopObserver, recomputes: Recomputes | None = None
) -> MarketDoor:
    """The door to the market, which is loaded when the home has a contract."""

    def opens() -> MarketTicker | None:
        from pipelines.market.rounds.round_assembly import market_worker

        home = home_session.home
        links = FaultInjectedLinks(home.directory, home.participant, observer.error)
        transport = NonBlockingTransport(FaultInjectedExchange(home_session.exchange, links))
        return market_worker(
            home.directory,
            home.participant,
            home_session.url,
            transport,
            observer.error,
            home_session.exchange.line_marks,
            recomputes,
        )

    return MarketDoor(home_session.home.catalog, opens)


def sources_of(
    home_session: HomeSession,
    assigned_plans: tuple[AssignedPlan, ...],
    leases: LeaseRenewer,
    session: Callable[[], SparkSession],
) -> dict[StreamName, LiveSource]:
    """The live sources that are landed here and declared, opened; others land by other means."""
    home = home_session.home
    assigned = {
        a.fragment: LeaseKey(fragment=a.fragment, producer=a.producer, partition=a.partition)
        for a in newest_assignments(home.catalog, home.participant)
    }
    plans = {
        s.name: assigned_plan.plan
        for assigned_plan in assigned_plans
        for s in assigned_plan.plan.network.sources
        if s.is_landed
    }
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


def late_records_of(
    home_session: HomeSession, assigned_plans: tuple[AssignedPlan, ...], observer: LoopObserver
) -> LateAdmission | None:
    """The late records of sources that are landed here and declared with `late="revise"`; None if
    there is no such source."""
    home = home_session.home
    assigned = {a.fragment for a in newest_assignments(home.catalog, home.participant)}
    every_us = {
        StreamName(source.name): source.late_every_us
        for assigned_plan in assigned_plans
        for source in assigned_plan.plan.network.sources
        if source.is_landed and landing_fragment(StreamName(source.name)) in assigned
    }
    revising = {stream: us for stream, us in every_us.items() if us is not None}
    return LateAdmission(home.catalog, LateFiles(home), revising, observer) if revising else None


def load_assigned_plans(home_session: HomeSession) -> tuple[AssignedPlan, ...]:
    """The plans that are assigned in this home, loaded and checked."""
    assignments = newest_assignments(home_session.home.catalog, home_session.home.participant)
    directory = home_session.home.directory

    def load(document: Mapping[str, Any]) -> Network:
        return network_of_plan(document, directory)

    return assigned_plans_of(home_session.home.catalog, assignments, load, directory)


def drivers_of(
    home_session: HomeSession,
    assigned_plans: tuple[AssignedPlan, ...],
    leases: LeaseRenewer,
    engine_of: Callable[[AssignedPlan], Callable[[], StepEngine]],
    limits: Limits,
    observer: LoopObserver | None = None,
    meter: Meter = NO_METER,
    is_here: Callable[[str], bool] = lambda fragment: True,
) -> list[Driver]:
    """A driver for each network."""
    return [
        Driver(
            catalog=home_session.home.catalog,
            assigned_plan=assigned_plan,
            closer=BucketCloser(home_session.home.catalog, home_session.home.storage),
            leases=leases,
            engine=engine_of(assigned_plan),
            limits=limits,
            observer=observer,
            meter=meter,
            is_here=is_here,
        )
        for assigned_plan in assigned_plans
    ]


def wait_for_leases(
    home_session: HomeSession,
    leases: LeaseRenewer,
    lease_ms: int,
    observer: LoopObserver,
    *,
    get_ready: Callable[[], None] | None = None,
    gets_ready_first: bool = False,
    is_standby: bool = False,
    worker: str = MAIN,
) -> None:
    """Take every lease of this participant; a predecessor that was killed is waited for. Leases of
    what workers share are not taken here.

    `get_ready` is called once: before the first attempt with `gets_ready_first`, else as soon as
    there is something to wait for. One that `is_standby` waits for as long as another driver holds
    a lease, also while the catalog is away. Raises Conflict if another driver still holds one after
    the time in which a dead one's would have ended.
    """
    is_ready = get_ready is None
    requested_s = clock.monotonic_s()
    ends_s = requested_s + 1.5 * lease_ms / 1000
    while True:
        try:
            if gets_ready_first and not is_ready and get_ready is not None:
                get_ready()
                is_ready = True
                ends_s = clock.monotonic_s() + 1.5 * lease_ms / 1000
            requested_s = clock.monotonic_s()
            newest = newest_assignments(home_session.home.catalog, home_session.home.participant)
            fixed = fixed_of(home_session.home.catalog, newest, worker, leases.lane)
            leases.take(leases_needed(fixed))
        except Conflict as error:
            # An answer from before that time, to a process that stood still since, says nothing.
            is_too_late = requested_s > ends_s
            if is_too_late and not is_standby:
                raise
            observer.error(error)
            if get_ready is not None and not is_ready:
                get_ready()
                is_ready = True
            else:
                clock.sleep_s(min(LOOK_AGAIN_S, lease_ms / 4_000))
        except Unavailable as error:
            if not is_standby:
                raise
            observer.error(error)
            clock.sleep_s(LOOK_AGAIN_S)
            with contextlib.suppress(Unavailable):
                home_session.revive()
        else:
            return


def has_promised(home_session: HomeSession) -> bool:
    """Whether a bound is declared for an output that is computed here.

    A step whose plan has to be made first takes seconds, which a bound may not leave.
    """
    bounds = home_session.home.catalog.bounds()
    return any(
        bounds.get(name, (None, 0))[0] is not None
        for assigned_plan in load_assigned_plans(home_session)
        for fragment in assigned_plan.fragments
        for name in fragment.outputs
    )


def has_ended(home_session: HomeSession) -> bool:
    """Whether everything that this participant lands, imports or computes has come to its end."""
    catalog, here = home_session.home.catalog, home_session.home.participant
    own = [line for line in catalog.lines() if line.producer.participant == here]
    # Of several producers one may never come back: what was chosen among them counts.
    chosen = {line.stream.name for line in own if line.producer.is_import}
    if not all(s.has_ended for s in catalog.imports() if s.stream not in chosen):
        return False
    return all(line.has_ended for line in own)
