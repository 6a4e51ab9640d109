"""The loop of one participant: feed, import, choose, decide, apply; repeated until stopped.

One process per participant, one Spark session in it, one home. All progress is in the catalog, so
the loop keeps no state: killed anywhere and restarted, it continues from the last commit. It
waits for what is unavailable (the catalog, a partner, a file); a lost lease is taken again if it
is free, and left to its holder if it is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from medusa_core.bound_headroom import Headroom
from medusa_core.decide import ComputeStep
from medusa_core.errors import Conflict, OutcomeUnknown, Refused, Unavailable
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.fragments import landing_fragment
from medusa_core.loads import ActivityKind
from medusa_core.names import StreamName
from medusa_core.wait_budget import WaitBudget, together
from pipelines.base import clock
from pipelines.base.cpu_meter import NO_METER, Meter
from pipelines.catalog.processing_roles import Deployments
from pipelines.catalog.records import Assignment
from pipelines.exchange.chooser import Chooser
from pipelines.exchange.importer import Imported, Importer, NoImports
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.assigned_plans import leases_needed, newest_assignments
from pipelines.participant.attribution import import_spans, landing_spans
from pipelines.participant.driver import Applied, Driver, DriverObserver
from pipelines.participant.housekeeper import Housekeeper, TrimmedLine
from pipelines.participant.market_door import MarketDoor
from pipelines.participant.placed_partitions import PlacedPartitions, PlacingObserver
from pipelines.participant.retries import RETRIES
from pipelines.sources.live.live_source import LiveSource, Polled

if TYPE_CHECKING:
    from pipelines.sinks.delivery import DeliveryResult


class AssignmentsChanged(Exception):
    """The assignments are not those that the loop was made for: make another loop."""


class LoopObserver(DriverObserver, PlacingObserver, Protocol):
    """Observes what the loop does: logs, metrics, the terminal."""

    def imported(self, imported: Imported) -> None: ...
    def polled(self, stream: StreamName, polled: Polled) -> None: ...
    def delivered(self, result: DeliveryResult) -> None: ...
    def trimmed(self, line: TrimmedLine) -> None: ...
    def headroom(self, headrooms: Sequence[Headroom]) -> None: ...


class Deliveries(Protocol):
    """The home's sinks, each at its own pace in the background (`sinks.delivery_workers`)."""

    def look(self) -> None: ...
    def has_delivered_all(self) -> bool: ...
    def close(self) -> None: ...


class LateRecords(Protocol):
    """The late records of this home's sources (`participant.late_admission`)."""

    def tick(self) -> int: ...
    def has_admitted_all(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class LoopTick:
    """What one tick did; `revised` counts revisions by late records, `away` is the first thing
    that kept a step from being made."""

    steps: int = 0
    closed: int = 0
    imported: int = 0
    landed: int = 0
    chosen: int = 0
    revised: int = 0
    away: Unavailable | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (
            self.steps or self.closed or self.imported or self.landed or self.chosen or self.revised
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a loop takes in: partners' lines, the choice among their producers, live sources, and
    late records of these; and the `partitions` that it shares with other processes of the
    participant. `declarations` reads how sources are declared now (None: they do not
    change); the loop was made for those that it reads first."""

    importer: Importer | NoImports
    chooser: Chooser | None = None
    sources: Mapping[StreamName, LiveSource] = field(default_factory=dict)
    late: LateRecords | None = None
    declarations: Callable[[], Mapping[StreamName, str]] | None = None
    partitions: PlacedPartitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Background workers of a loop. The loop polls them and never blocks on them."""

    housekeeper: Housekeeper | None = None
    deliveries: Deliveries | None = None
    market: MarketDoor | None = None


NO_WORKERS = Workers()

DECLARATIONS_S = 5.0
"""How long a changed declaration of a source may wait until the loop notices it."""

TICK_ATTEMPTS_MAX = 5
"""How often one tick is begun whose leases end before it does."""


class ParticipantLoop:
    """What a participant does, a tick at a time; `meter` knows what that costs."""

    def __init__(
        self,
        *,
        catalog: Deployments,
        drivers: Sequence[Driver],
        inputs: Inputs,
        leases: LeaseRenewer,
        observer: LoopObserver,
        assignments: tuple[Assignment, ...] = (),
        workers: Workers = NO_WORKERS,
        meter: Meter = NO_METER,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._catalog = catalog
        self._drivers = drivers
        self._importer = inputs.importer
        self._chooser = inputs.chooser
        self._sources = inputs.sources
        self._late = inputs.late
        self._declarations = inputs.declarations
        self._declared = inputs.declarations() if inputs.declarations is not None else {}
        self._asks_s = now_s() + DECLARATIONS_S
        self._is_settled = False
        self._leases = leases
        self._observer = observer
        self._assignments = assignments
        self._housekeeper = workers.housekeeper
        self._deliveries = workers.deliveries
        self._market = workers.market
        self._partitions = inputs.partitions
        self.meter = meter
        self._now_s = now_s
        self._tick_began_s: float | None = None
        self._idle_since_s: float | None = None
        self._landed = 0
        self._imports = [
            (StreamName(a.fragment.removeprefix(IMPORT_PREFIX)), 0)
            for a in assignments
            if a.fragment.startswith(IMPORT_PREFIX)
        ]

    def take_leases(self) -> None:
        """Take the leases of everything that is assigned here and that workers do not share, and
        those of the partitions that are here; Conflict while another has one of the former."""
        assignments = newest_assignments(self._catalog, self._catalog.participant)
        if self._partitions is not None:
            self._partitions.report()
            assignments = tuple(a for a in assignments if self._partitions.is_fixed(a.fragment))
        self._leases.take(leases_needed(assignments))
        if self._partitions is not None:
            self._partitions.retake()

    def tick(self) -> LoopTick:
        """As `attempt`, but raises Unavailable if something kept a step from being made.

        A lease that ended meanwhile, as on a busy machine, is taken again if it is free, and the
        tick is repeated. Raises Conflict once another driver has it.
        """
        landed, ticked = 0, None
        for number in range(TICK_ATTEMPTS_MAX):
            if number:
                self.take_leases()
            try:
                ticked = self.attempt()
                break
            except Conflict as error:
                if number + 1 == TICK_ATTEMPTS_MAX:
                    raise
                landed += self._landed
                self._observer.error(error)
        assert ticked is not None, "the last attempt returns or raises"
        if ticked.away is not None:
            raise ticked.away
        return replace(ticked, landed=landed + ticked.landed)

    def attempt(self) -> LoopTick:
        """Feed, import, choose, decide and apply once; a step that cannot be made is put off.

        Raises Conflict if a lease is another's now, Unavailable while the catalog is away, and
        AssignmentsChanged if this loop was made for others than now stand in the log.
        """
        began_s = self._now_s()
        self._landed = 0
        self._is_settled = False
        tick_ms = self._last_tick_ms(began_s)
        if newest_assignments(self._catalog, self._catalog.participant) != self._assignments:
            raise AssignmentsChanged
        self._check_declarations()
        self.meter.tick()
        self.meter.did(kind=ActivityKind.DECIDING)
        if self._partitions is not None:
            self._partitions.tick()
        self._poll_sources()
        self._leases.check()
        imported = self._import()
        chosen = 0 if self._chooser is None else self._chooser.tick()
        self.meter.did(kind=ActivityKind.DECIDING)
        lead_ms = (self._now_s() - began_s) * 1_000
        applied: list[Applied] = []
        away: Unavailable | None = None
        for driver in self._drivers:
            its_tick = driver.attempt(lead_ms, tick_ms)
            applied += its_tick.applied
            away = away or its_tick.away
        revised = 0 if self._late is None else self._late.tick()
        self._importer.set_paths(
            {stream: ms for driver in self._drivers for stream, ms in driver.paths_ms.items()}
        )
        wait_budgets = together(driver.wait_budgets for driver in self._drivers)
        self._importer.set_headroom(self._headroom_ms(wait_budgets))
        if self._chooser is not None:
            self._chooser.set_wait_budgets(wait_budgets)
        self._observer.headroom([found for driver in self._drivers for found in driver.headrooms])
        self.meter.did(kind=ActivityKind.DECIDING)
        steps = sum(isinstance(done.decision, ComputeStep) for done in applied)
        ticked = LoopTick(
            steps=steps,
            closed=len(applied) - steps,
            imported=imported,
            landed=self._landed,
            chosen=chosen,
            revised=revised,
            away=away,
        )
        self._is_settled = ticked.is_idle and away is None
        return ticked

    def _check_declarations(self) -> None:
        """AssignmentsChanged if a source is declared otherwise than when it was opened."""
        if self._declarations is None or self._now_s() < self._asks_s:
            return
        self._asks_s = self._now_s() + DECLARATIONS_S
        if self._declarations() != self._declared:
            raise AssignmentsChanged

    def _last_tick_ms(self, now_s: float) -> float:
        """How long the last tick took; another one begins now."""
        began_s, ended_s = self._tick_began_s, self._idle_since_s
        self._tick_began_s, self._idle_since_s = now_s, None
        if began_s is None:
            return 0.0
        return ((now_s if ended_s is None else ended_s) - began_s) * 1_000

    def _headroom_ms(self, wait_budgets: Mapping[StreamName, WaitBudget]) -> int | None:
        """How long until something must be answered, what comes meanwhile included; None: nothing
        is promised."""
        if not wait_budgets:
            return None
        dues = [driver.wakes_in_ms for driver in self._drivers if driver.wakes_in_ms is not None]
        return min([*dues, *(one.wait_ms for one in wait_budgets.values())])

    def _import(self) -> int:
        """Bring in partners' news; asking in vain is the work of all that is imported."""
        brought: list[tuple[StreamName, int]] = []

        def on_import(imported: Imported) -> None:
            self._observer.imported(imported)
            brought.append((imported.stream, imported.segments))

        moved = self._importer.poll(on_import)
        self.meter.did(*import_spans(brought or self._imports))
        return moved

    def _poll_sources(self) -> None:
        """Let every source land what has come; one that cannot be read holds up no other."""
        for stream, source in self._sources.items():
            try:
                polled = source.poll(self._catalog.read_clock_ms())
            except (Refused, Unavailable) as error:
                self._observer.error(error)
                self._observer.alarm(landing_fragment(stream), str(error))
                self.meter.did(*landing_spans(stream, None))
                continue
            self.meter.did(*landing_spans(stream, polled))
            if polled.batches or polled.has_more:
                self._landed += 1
            self._observer.alarm(landing_fragment(stream), None)
            self._observer.polled(stream, polled)

    def run(
        self,
        *,
        is_done: Callable[[], bool],
        wait: Callable[[int | None], object],
        recover: Callable[[Exception], None],
        pause: Callable[[int], None] = lambda ms: clock.sleep_s(ms / 1_000),
    ) -> None:
        """Tick until `is_done`; `wait` comes back when something may have happened, and in the
        given number of milliseconds at the latest, if there is one.

        When something is away there is an alarm, a `pause` of so many milliseconds, longer each
        time, and then `recover`, which may bring it back or raise. Raises Conflict once somebody
        else holds a lease that this participant had.
        """
        was_lost = False
        conflicts = failures = 0
        while True:
            try:
                if was_lost:
                    # Frozen past its end, a lease may still be free; another's is not ours to take.
                    self.take_leases()
                    was_lost = False
                if is_done():
                    return
                has_more = self._run_tick()
                conflicts = 0
                if failures:
                    self._observer.alarm(self._catalog.participant, None)
                    failures = 0
                if not has_more:
                    self._idle_since_s = self._now_s()
                    wait(self.wakes_in_ms())
                    if self._partitions is not None:
                        self._partitions.waited(self._now_s() - self._idle_since_s)
                    self.meter.did()
                self.meter.look()
            except Conflict as error:
                if was_lost:
                    raise
                self._tick_began_s = None  # such a tick says nothing about others
                self._observer.error(error)
                was_lost = True
                conflicts += 1
                if conflicts > 1:
                    pause(
                        RETRIES.wait_ms(1)
                    )  # whoever is in the way again and again is not hurried
            except (Unavailable, OutcomeUnknown) as error:
                failures += 1
                self._tick_began_s = None
                self._observer.error(error)
                self._observer.alarm(self._catalog.participant, str(error))
                pause(RETRIES.wait_ms(failures))
                with contextlib.suppress(Unavailable):
                    recover(error)

    def _run_tick(self) -> bool:
        """One tick, and a look at the background workers; whether there is more to do at once."""
        ticked = self.attempt()
        if ticked.away is not None:
            self._observer.error(ticked.away)
        if self._deliveries is not None:
            self._deliveries.look()
            self.meter.did(kind=ActivityKind.DELIVERY)
        if self._market is not None:
            self._market.look()
        has_more = self._keep_house(is_idle=ticked.is_idle)
        self.meter.did(kind=ActivityKind.HOUSEKEEPING)
        return has_more or not ticked.is_idle

    def wakes_in_ms(self) -> int | None:
        """When something is to be done even if nothing happens."""
        times = [driver.wakes_in_ms for driver in self._drivers]
        if self._chooser is not None:
            times.append(self._chooser.wakes_in_ms)
        if self._partitions is not None:
            times.append(self._partitions.wakes_in_ms)
        return min((ms for ms in times if ms is not None), default=None)

    def _keep_house(self, *, is_idle: bool) -> bool:
        """A piece of housekeeping, if it is time; whether there is more."""
        return self._housekeeper is not None and self._housekeeper.tick(is_idle=is_idle)

    def has_delivered_all(self) -> bool:
        """Whether every sink has come to the end of its stream; raises what keeps one from it."""
        return self._deliveries is None or self._deliveries.has_delivered_all()

    def has_admitted_all(self) -> bool:
        """Whether no late record is to be admitted, and what was computed from one is final.

        Only a tick that found nothing to do shows the latter.
        """
        return self._late is None or (self._is_settled and self._late.has_admitted_all())

    def close(self) -> None:
        """Give partitions back, and close sources, sinks and the market."""
        if self._partitions is not None:
            self._partitions.close()
        if self._market is not None:
            self._market.close()
        if self._deliveries is not None:
            self._deliveries.close()
        for source in self._sources.values():
            source.close()
