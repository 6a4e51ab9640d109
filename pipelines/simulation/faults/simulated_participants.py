"""A participant's process: the product's loop with its drivers, importer, leases and listener.

It is assembled as in `pipelines.participant.assembly`, from the same parts. Simulated are the
parts that they call: the catalog's client, the exchange, the engine, sources and time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from medusa_core.commits import Lane
from medusa_core.decide import Decision
from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.fragments import Fragment, move_of
from medusa_core.imports import Choose, explain_choice
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Port
from medusa_core.states import Transition
from pipelines.exchange.chooser import Chooser
from pipelines.exchange.contents import AnyContents
from pipelines.exchange.importer import Imported, Importer, NoImports
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.language.check import CheckedNetwork
from pipelines.participant.assigned_plans import AssignedPlan, leases_needed, newest_assignments
from pipelines.participant.driver import Applied, Driver
from pipelines.participant.late_admission import LateAdmission
from pipelines.participant.loop import AssignmentsChanged, Inputs, ParticipantLoop
from pipelines.participant.revising import reach_of_import
from pipelines.simulation.faults.clients import CatalogClient
from pipelines.simulation.faults.engine import SimulatedEngine
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.feeding import SimulatedSource
from pipelines.simulation.faults.scenario import landing_of
from pipelines.simulation.faults.simulated_exchange import MemoryCopies, SimulatedExchange
from pipelines.simulation.faults.simulated_listener import listener_of
from pipelines.simulation.faults.simulated_processes import Ended, Process
from pipelines.simulation.faults.simulated_revisions import LateContents
from pipelines.sources.live.live_source import LiveSource, Polled

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

LEASE_MS = 4_000
POLL_MS = 1_000
BACKLOG_MS = 1_000
"""How often those who correct look; news does not wake them."""

TAKE_AGAIN_MS = 250


def run(world: World, process: Process) -> NoReturn:
    """Run a participant's loop as `medusa run` does, for ever; raises Ended where that ends."""
    catalog = CatalogClient(world, process)
    listener = listener_of(world, process)
    recorder = EventRecorder(world, process)
    is_live = process.lane is Lane.LIVE
    while True:
        leases = LaneLeases(catalog, process)
        process.renewer = leases
        take_leases(world, process, leases, recorder)
        loop = ParticipantLoop(
            catalog=catalog,
            drivers=drivers_of(world, process, catalog, leases, recorder),
            inputs=Inputs(
                importer=importer_of(world, process, catalog, leases),
                chooser=chooser_of(world, process, catalog, leases, recorder),
                sources=sources_of(world, process, catalog, leases) if is_live else {},
                late=late_of(world, process, catalog, recorder) if is_live else None,
            ),
            leases=leases,
            observer=recorder,
            assignments=newest_assignments(catalog, process.participant),
            now_s=lambda: world.now_ms / 1_000,
        )
        try:
            loop.run(
                is_done=lambda: False,
                wait=lambda limit_ms: (
                    listener.wait(POLL_MS if limit_ms is None else min(POLL_MS, limit_ms))
                    if is_live
                    else world.rest(BACKLOG_MS, is_timer=True)
                ),
                recover=lambda error: None,
                pause=lambda ms: world.rest(ms, is_timer=True),
            )
        except AssignmentsChanged:
            world.emit(process.name, "anew")
        except Conflict as error:
            raise Ended(str(error)) from error


def keep(world: World, process: Process) -> NoReturn:
    """Renew what the process holds at every third of a lease."""
    while True:
        world.rest(LEASE_MS // 3, is_timer=True)
        if process.renewer is not None:
            process.renewer.renew()


def take_leases(
    world: World, process: Process, leases: LaneLeases, recorder: EventRecorder
) -> None:
    """Take every lease; who still finds another driver's after a dead one's time ends."""
    ends_ms = world.now_ms + 3 * LEASE_MS // 2
    while True:
        try:
            requests = leases_needed(newest_assignments(leases.catalog, process.participant))
            leases.take(requests)
        except (Conflict, Unavailable) as error:
            if isinstance(error, Conflict) and world.now_ms > ends_ms:
                raise Ended("another driver has its leases") from error
            recorder.error(error)
        else:
            world.emit(process.name, "leases", f"{len(requests)} taken")
            return
        world.rest(TAKE_AGAIN_MS, is_timer=True)


def drivers_of(
    world: World,
    process: Process,
    catalog: CatalogClient,
    leases: LeaseRenewer,
    recorder: EventRecorder,
) -> list[Driver]:
    """The product's driver, in the lane of the process."""
    scenario = world.scenario
    engine = SimulatedEngine(world, process, catalog)
    driver = Driver(
        catalog=catalog,
        assigned_plan=AssignedPlan(
            plan=scenario.plan,
            checked=CheckedNetwork(
                network=scenario.network,
                columns={Port(str(stream)): () for stream in scenario.feeds},
                boxes={},
            ),
            fragments=tuple(fragments_here(world, catalog).values()),
        ),
        closer=engine,
        leases=leases,
        engine=lambda: engine,
        limits=scenario.limits,
        observer=recorder,
    )
    return [driver]


def fragments_here(world: World, catalog: CatalogClient) -> dict[str, Fragment]:
    """The fragments that a participant may compute, by id, those of its payers' moves too."""
    scenario = world.scenario
    if catalog.participant not in scenario.moves.providers:
        return dict(scenario.fragments)
    moves = (move_of(a.fragment) for a in newest_assignments(catalog, catalog.participant))
    found = (replace(scenario.fragments[of[1]], move=of[0]) for of in moves if of is not None)
    return {fragment.id: fragment for fragment in found}


def importer_of(
    world: World, process: Process, catalog: CatalogClient, leases: LeaseRenewer
) -> Importer | NoImports:
    """The product's importer; who corrects does not import."""
    if process.lane is not Lane.LIVE:
        return NoImports()
    importer = Importer(
        catalog,
        MemoryCopies(world.homes[process.participant]),
        SimulatedExchange(world, process),
        leases,
        contents=AnyContents(),
        segments_max=world.scenario.news_segments_max,
        now_s=lambda: world.now_ms / 1_000,
    )
    importer.set_reach(partial(reach_of_import, catalog))
    return importer


def chooser_of(
    world: World,
    process: Process,
    catalog: CatalogClient,
    leases: LeaseRenewer,
    recorder: EventRecorder,
) -> Chooser | None:
    """The product's choice among several producers; who corrects does not choose.

    In every other schedule it learns of a few rows at a time, so that it has to come back.
    """
    if process.lane is not Lane.LIVE or not world.scenario.chosen(process.participant):
        return None
    limits = world.scenario.limits if world.scenario.seed % 2 else Limits()
    return Chooser(catalog, leases, recorder.error, limits=limits, chose=recorder.chose)


def sources_of(
    world: World, process: Process, catalog: CatalogClient, leases: LeaseRenewer
) -> dict[StreamName, LiveSource]:
    """The sources that a participant lands."""
    engine = SimulatedEngine(world, process, catalog)
    return {
        stream: SimulatedSource(world, stream, catalog, leases, engine)
        for stream in world.scenario.feeds
        if world.scenario.owners[landing_of(stream)] == process.participant
    }


def late_of(
    world: World, process: Process, catalog: CatalogClient, recorder: EventRecorder
) -> LateAdmission | None:
    """The product's admission of the late records of the sources that a participant lands."""
    every_us = {
        stream: every_s * 1_000_000
        for stream, every_s in world.scenario.revisions.every_s.items()
        if world.scenario.owners[landing_of(stream)] == process.participant
    }
    if not every_us:
        return None
    return LateAdmission(catalog, LateContents(world, process, catalog), every_us, recorder)


class LaneLeases(LeaseRenewer):
    """The product's leases, in the lane of a process."""

    def __init__(self, catalog: CatalogClient, process: Process) -> None:
        super().__init__(catalog, process.name, lease_ms=LEASE_MS, lane=process.lane)
        self.catalog = catalog


class EventRecorder:
    """What a loop says becomes events; a refusal that nobody should meet is a finding."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._name = process.name
        self.applications = 0

    def decided(self, decision: Decision) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""
        self._world.emit_decision(self._name, decision)

    def applied(self, applied: Applied) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""
        self.applications += 1

    def chose(self, choice: Choose) -> None:
        """What was chosen among several producers."""
        what, _, why = explain_choice(choice).partition(": ")
        self._world.emit(self._name, "choose", what, why)

    def imported(self, imported: Imported) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""
        if imported.problem is not None:
            self._world.emit(self._name, "no news", imported.stream, imported.problem)

    def transitioned(self, transition: Transition) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""
        self._world.emit(
            self._name, transition.state.value, transition.fragment, transition.because
        )

    def verified(self, verified: object) -> None:
        """See `driver.DriverObserver`; the simulated engine has no prepared jobs."""

    def polled(self, stream: StreamName, polled: Polled) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""

    def delivered(self, tick: object) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""

    def placed(self, decision: object) -> None:
        """Nothing is placed here."""

    def trimmed(self, line: object) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""

    def alarm(self, of: str, because: str | None) -> None:
        """See `pipelines.participant.loop.LoopObserver`; the errors behind it are events."""

    def headroom(self, headrooms: object) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""

    def error(self, error: Exception) -> None:
        """See `pipelines.participant.loop.LoopObserver`."""
        if isinstance(error, Refused):
            raise Violation("REFUSED", str(error)) from error
        self._world.emit(self._name, type(error).__name__.lower(), why=str(error))
