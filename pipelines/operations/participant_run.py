"""Run one participant: its loop until it is stopped, or one iteration of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from medusa_core.commits import Lane
from medusa_core.decide import Decision
from medusa_core.errors import Conflict, Unavailable
from medusa_core.knowledge import Limits
from medusa_core.names import Participant
from pipelines.base.garbage_collection import exempt_loaded_objects
from pipelines.base.settings import CATALOG_URL, Settings, child_environment
from pipelines.catalog.worker_records import WORKER_HOLDER
from pipelines.exchange.link_recorder import reported_links
from pipelines.homes.headroom_file import HeadroomFile
from pipelines.homes.home import (
    HomeServer,
    checked_storage,
    chosen_participant,
    home_server,
    without_login,
)
from pipelines.homes.lease_renewer import LEASE_MS, LeaseRenewer
from pipelines.operations.exchange_process import ExchangeProcess, exchange_process
from pipelines.operations.sample_recomputation import recomputes
from pipelines.participant.assembly import (
    Engines,
    OwnSession,
    drivers_of,
    has_ended,
    has_promised,
    load_assigned_plans,
    loop_of,
    wait_for_leases,
)
from pipelines.participant.assigned_plans import AssignedPlan
from pipelines.participant.home_notifications import notification_listener
from pipelines.participant.home_session import HomeSession, open_session, session_at
from pipelines.participant.loop import AssignmentsChanged, ParticipantLoop
from pipelines.participant.placed_partitions import MAIN
from pipelines.participant.warm_up import warm_up
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks
from pipelines.platform.drills.run_processes import recorded
from pipelines.spark.failures import jvm_errors
from pipelines.watching.progress_lines import ProgressLines
from pipelines.watching.watcher import Watcher, watcher_of

if TYPE_CHECKING:
    from pipelines.spark.step import StepEngine

POLL_MS = 500
"""Maximum wait of the loop for a notification before it polls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a participant; `participant` None: the only one of the folder.

    In the live lane it runs until it is stopped or, with `until_ended`, until all streams have
    ended. In the backlog lane it corrects what is owed, in parallel with the live driver, and ends.
    `is_standby`: wait, warmed up, for as long as another driver holds the leases. `worker`: the
    name of a worker, which only computes partitions that are placed there. `lease_ms`: how long a
    lease lasts. `poll_ms`: maximum wait for a notification. `reports_progress`: the observer
    receives a `Progress` with a line for people, once a second at most.
    """

    participant: str | None = None
    lane: Lane = Lane.LIVE
    until_ended: bool = False
    is_standby: bool = False
    worker: str = MAIN
    lease_ms: int = LEASE_MS
    poll_ms: int = POLL_MS
    limits: Limits = field(default_factory=Limits)
    reports_progress: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """What the participant has done since the last of these, as a line for people."""

    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """A participant waits for its leases with so many fragments ready to run."""

    participant: Participant
    fragments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServesMetrics:
    """A participant serves its metrics on a free port, because port 0 was given."""

    url: str


Observer = Callable[[Standby | ServesMetrics | Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """What one iteration of the loop did: rows landed, and versions, buckets and steps.

    `revised` counts revisions by late records. `alarms` are those that were raised at its end: of
    what, and why.
    """

    landed: int
    imported: int
    closed: int
    steps: int
    revised: int = 0
    alarms: Mapping[str, str] = field(default_factory=dict)


def ignore(event: Standby | ServesMetrics | Progress) -> None:
    """The observer that does nothing."""


def document(result: TickResult) -> Mapping[str, int]:
    """The figures for JSON."""
    return {name: value for name, value in asdict(result).items() if name != "alarms"}


def run_participant(settings: Settings, options: RunOptions, observer: Observer = ignore) -> None:
    """Run a participant's loop until its end (`RunOptions`).

    Raises Refused for a participant or plan that cannot be run, Conflict if another driver takes
    its leases, Unavailable if its home or Spark cannot be reached, Diverged if what must be equal
    is not.
    """
    participant = chosen_participant(settings, options.participant)
    is_main = options.lane is Lane.LIVE and options.worker == MAIN
    settings = without_login(settings)
    with ExitStack() as stack:
        server = stack.enter_context(home_server(settings, participant))
        # Of an administrator's login nothing reaches Spark and its workers.
        stack.enter_context(child_environment({CATALOG_URL: settings.catalog_url or ""}))
        exchange = stack.enter_context(exchange_process(settings, server)) if is_main else None
        spark = _spark_of(server, stack, options.worker)
        while True:
            try:
                _run(settings, options, observer, server, spark, exchange)
            except AssignmentsChanged:
                # Networks, plans, imports or partners have changed: all but Spark is read again.
                options = replace(options, is_standby=False)
                continue
            return


def _run(
    settings: Settings,
    options: RunOptions,
    observer: Observer,
    server: HomeServer,
    spark: DriverSpark,
    exchange: ExchangeProcess | None,
) -> None:
    participant, is_main = server.participant, exchange is not None
    is_live = options.lane is Lane.LIVE
    progress = ProgressLines(lambda line: observer(Progress(line)))
    with (
        recorded(settings.directory, participant) if is_main else nullcontext(_nothing) as drives,
        _running(
            settings,
            options,
            observer,
            server,
            spark,
            exchange,
            progress if options.reports_progress else None,
        ) as (home_session, loop, _),
        ExitStack() as stack,
    ):
        stack.callback(progress.write_rest)
        if options.reports_progress:
            of_worker = "" if options.worker == MAIN else f" as worker {options.worker}"
            progress.say(f"{participant} runs{of_worker}")
        drives()
        listener = notification_listener(
            home_session, FaultInjectedLinks(settings.directory, participant)
        )
        stack.callback(listener.close)

        has_corrected = False

        def wait(limit_ms: int | None) -> None:
            nonlocal has_corrected
            if not is_live:
                has_corrected = True  # nothing is owed any more
                return
            # A driver without Spark must not hold the leases until it is needed.
            spark.session.check()
            listener.wait(options.poll_ms if limit_ms is None else min(options.poll_ms, limit_ms))

        def recover(error: Exception) -> None:
            spark.session.check()
            home_session.revive()

        def is_done() -> bool:
            progress.write_due()
            return has_corrected or (
                options.until_ended
                and has_ended(home_session)
                and loop.has_admitted_all()
                and loop.has_delivered_all()
            )

        exempt_loaded_objects()
        loop.run(is_done=is_done, wait=wait, recover=recover)


def tick_participant(settings: Settings, options: RunOptions) -> TickResult:
    """One iteration: land, import, decide, apply; raises as `run_participant` does."""
    participant = chosen_participant(settings, options.participant)
    with (
        home_server(settings, participant) as server,
        ExitStack() as stack,
        _running(settings, options, ignore, server, _spark_of(server, stack)) as (_, loop, watcher),
    ):
        try:
            done = loop.tick()
        except AssignmentsChanged:
            raise Conflict(
                "what is assigned here changed meanwhile: run medusa tick again"
            ) from None
        alarms = watcher.raised()
    return TickResult(
        landed=done.landed, imported=done.imported, closed=done.closed, steps=done.steps,
        revised=done.revised, alarms=alarms,
    )  # fmt: skip


def decide_next(settings: Settings, options: RunOptions) -> tuple[Decision, ...]:
    """What the next iteration would decide from what is known now; nothing is changed."""
    with open_session(settings, chosen_participant(settings, options.participant)) as home_session:
        leases = LeaseRenewer(home_session.home.catalog, "explain")
        assigned_plans = load_assigned_plans(home_session)
        drivers = drivers_of(home_session, assigned_plans, leases, _no_engine, options.limits)
        return tuple(decision for driver in drivers for decision in driver.decide())


def _nothing() -> None:
    """Only the process of the live lane is recorded for drills."""


def _no_engine(assigned_plan: AssignedPlan) -> Callable[[], StepEngine]:
    def engine() -> StepEngine:
        raise AssertionError("an explanation computes nothing")

    return engine


@dataclass(frozen=True, slots=True)
class DriverSpark:
    """What of Spark a driver has, from its first use until its process ends."""

    session: OwnSession
    engines: Engines


def _spark_of(server: HomeServer, stack: ExitStack, worker: str = MAIN) -> DriverSpark:
    # What closing it makes of the end of its JVM is told as that.
    stack.enter_context(jvm_errors())
    directory, participant = server.directory, server.participant
    own = directory / "drivers" / participant
    session = OwnSession(own if worker == MAIN else own / "workers" / worker, stack)
    return DriverSpark(session, Engines(checked_storage(directory, participant), session))


@contextmanager
def _running(
    settings: Settings,
    options: RunOptions,
    observer: Observer,
    server: HomeServer,
    spark: DriverSpark,
    exchange: ExchangeProcess | None = None,
    progress: ProgressLines | None = None,
) -> Iterator[tuple[HomeSession, ParticipantLoop, Watcher]]:
    participant = server.participant
    with ExitStack() as stack:
        home_session = stack.enter_context(session_at(server))
        watcher = stack.enter_context(watcher_of(settings, participant, home_session.home.catalog))
        if options.worker != MAIN:
            watcher.write_headroom_to(HeadroomFile(settings.directory, participant, options.worker))
        watcher.on_event = None if progress is None else progress.note
        if settings.metrics_port == 0 and watcher.metrics_url is not None:
            observer(ServesMetrics(url=watcher.metrics_url))
        if exchange is not None:
            exchange.on_alarm = partial(watcher.alarm, "exchange")
        links = home_session.exchange.links
        stack.enter_context(reported_links(links, home_session.home.catalog.report_links))
        # What is opened from here on is closed before the end of the JVM is reported.
        stack.enter_context(jvm_errors(watcher.error))
        holder = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        if options.worker != MAIN:
            holder = f"{WORKER_HOLDER}{options.worker}/{holder}"

        def get_ready() -> None:
            assigned_plans = load_assigned_plans(home_session)
            try:
                ready = warm_up(assigned_plans, spark.engines.engine_of)
            except Unavailable as error:
                # The driver that holds the leases may hold the memory that Spark lacks.
                watcher.error(error)
                return
            if options.is_standby:
                observer(Standby(participant=participant, fragments=ready))

        leases = LeaseRenewer(
            home_session.home.catalog, holder, lease_ms=options.lease_ms, lane=options.lane
        )
        stack.enter_context(leases)
        wait_for_leases(
            home_session,
            leases,
            options.lease_ms,
            watcher,
            get_ready=get_ready,
            gets_ready_first=options.is_standby
            or options.worker != MAIN
            or (exchange is not None and has_promised(home_session)),
            is_standby=options.is_standby,
            worker=options.worker,
        )
        yield (
            home_session,
            loop_of(
                home_session,
                leases,
                spark.session,
                watcher,
                stack,
                options.limits,
                spark.engines,
                recomputes(home_session.home.storage),
                options.worker,
            ),
            watcher,
        )
