"""`medusa run` and `medusa tick`: one participant's loop, or one turn of it."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from medusa_core.commits import Lane
from medusa_core.decide import explain
from medusa_core.errors import Conflict, Unavailable
from medusa_core.knowledge import Limits
from pipelines.base.settings import Settings
from pipelines.base.time_text import counted
from pipelines.cli.arguments import add_running
from pipelines.homes.lease_keeper import LEASE_MS

if TYPE_CHECKING:
    from pipelines.participant.assembly import OwnSession
    from pipelines.participant.assigned_plans import Work
    from pipelines.participant.home_session import Seat
    from pipelines.participant.loop import ParticipantLoop

if TYPE_CHECKING:
    from pipelines.spark.step import StepEngine

POLL_MS = 500
"""How long the loop waits for a bell before it looks by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """How a participant is run: until when, and how long its leases are.

    One that `stands_by` waits, warmed up, for as long as another driver has the leases. In the
    backlog lane it corrects what is owed, beside the live one, and ends.
    """

    participant: str | None
    lane: Lane = Lane.LIVE
    until_ended: bool = False
    stands_by: bool = False
    lease_ms: int = LEASE_MS
    poll_ms: int = POLL_MS
    limits: Limits = field(default_factory=Limits)


def run_order(options: Namespace) -> RunOrder:
    """From the command line."""
    records_max = options.records_per_step_max
    return RunOrder(
        participant=options.participant,
        until_ended=getattr(options, "until_ended", False),
        stands_by=getattr(options, "standby", False),
        lane=Lane(getattr(options, "lane", Lane.LIVE.value)),
        lease_ms=int(options.lease * 1_000),
        limits=Limits(records_per_step_max=records_max) if records_max else Limits(),
    )


def run_participant(settings: Settings, order: RunOrder) -> int:
    """Run a participant's loop; returns when told to stop, or with `until_ended` at the end."""
    from pipelines.participant.loop import AssignmentsChanged

    while True:
        try:
            _run(settings, order)
        except AssignmentsChanged:
            # Other networks, plans, imports or partners: everything is made anew from the catalog.
            order = replace(order, stands_by=False)
            continue
        return 0


def _run(settings: Settings, order: RunOrder) -> None:
    from pipelines.exchange.notification_listener import Bell
    from pipelines.homes.home import chosen_participant
    from pipelines.participant.assembly import has_ended
    from pipelines.platform.drills.fault_injected_links import DrilledWays
    from pipelines.platform.drills.run_processes import recorded

    participant = chosen_participant(settings, order.participant)
    is_live = order.lane is Lane.LIVE
    with (
        recorded(settings.directory, participant) if is_live else nullcontext(_nothing) as drives,
        _running(settings, order, warms_up=is_live) as (seat, loop, session),
        ExitStack() as stack,
    ):
        drives()
        ways = DrilledWays(settings.directory, participant)
        bell = Bell(seat.urls, is_heard=ways.is_heard(seat.partners))
        stack.callback(bell.close)

        has_corrected = False

        def wait(limit_ms: int | None) -> None:
            nonlocal has_corrected
            if not is_live:
                has_corrected = True  # nothing is owed any more
                return
            # A driver without Spark must not hold the leases until it is needed.
            session.check()
            bell.wait(order.poll_ms if limit_ms is None else min(order.poll_ms, limit_ms))

        def recover(error: Exception) -> None:
            session.check()
            seat.revive()

        loop.run(
            is_done=lambda: (
                has_corrected
                or (order.until_ended and has_ended(seat) and loop.has_delivered_all())
            ),
            wait=wait,
            recover=recover,
        )


def tick(settings: Settings, order: RunOrder, *, as_json: bool) -> int:
    """One turn: feed, import, decide, apply."""
    from pipelines.participant.loop import AssignmentsChanged

    with _running(settings, order) as (_, loop, _):
        try:
            done = loop.tick()
        except AssignmentsChanged:
            raise Conflict(
                "what is assigned here changed meanwhile: run medusa tick again"
            ) from None
    figures = {
        "landed": done.landed,
        "imported": done.imported,
        "closed": done.closed,
        "steps": done.steps,
    }
    if as_json:
        print(json.dumps(figures))
    else:
        print(", ".join(f"{name} {number}" for name, number in figures.items()))
    return 0


def explain_tick(settings: Settings, order: RunOrder) -> int:
    """Print what the next tick would decide of what is known now, and change nothing."""
    from pipelines.homes.home import chosen_participant
    from pipelines.homes.lease_keeper import LeaseKeeper
    from pipelines.participant.assembly import drivers_of, load_works
    from pipelines.participant.home_session import take_seat

    with take_seat(settings, chosen_participant(settings, order.participant)) as seat:
        leases = LeaseKeeper(seat.home.catalog, "explain")
        works = load_works(seat)
        for driver in drivers_of(seat, works, leases, _no_engine, order.limits):
            for line in explain(driver.decide()):
                print(line)
    return 0


def _nothing() -> None:
    """Drills are for the process that does the participant's work."""


def _no_engine(work: Work) -> Callable[[], StepEngine]:
    def engine() -> StepEngine:
        raise AssertionError("an explanation computes nothing")

    return engine


@contextmanager
def _running(
    settings: Settings, order: RunOrder, *, warms_up: bool = False
) -> Iterator[tuple[Seat, ParticipantLoop, OwnSession]]:
    from pipelines.homes.home import chosen_participant
    from pipelines.homes.lease_keeper import LeaseKeeper
    from pipelines.participant.assembly import (
        Engines,
        OwnSession,
        has_promised,
        load_works,
        loop_of,
        wait_for_leases,
    )
    from pipelines.participant.home_session import take_seat
    from pipelines.participant.warm_up import warm_up
    from pipelines.spark.failures import jvm_errors
    from pipelines.watching.watcher import watcher_of

    participant = chosen_participant(settings, order.participant)
    with ExitStack() as stack:
        seat = stack.enter_context(take_seat(settings, participant))
        said = stack.enter_context(watcher_of(settings, participant, seat.home.catalog))
        if settings.metrics_port == 0:
            print(f"metrics: {said.metrics_url}", file=sys.stderr, flush=True)
        # What is opened from here on is closed before the end of the JVM is told.
        stack.enter_context(jvm_errors(said.error))
        holder = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        session = OwnSession(seat, stack)
        engines = Engines(seat, session)

        def get_ready() -> None:
            works = load_works(seat)
            try:
                ready = warm_up(works, engines.engine_of)
            except Unavailable as error:
                # Whoever it waits for may hold the memory that Spark lacks.
                said.error(error)
                return
            if order.stands_by:
                print(f"{participant} stands by: {counted(ready, 'fragment')} ready", flush=True)

        leases = LeaseKeeper(seat.home.catalog, holder, lease_ms=order.lease_ms, lane=order.lane)
        stack.enter_context(leases)
        wait_for_leases(
            seat,
            leases,
            order.lease_ms,
            said,
            get_ready=get_ready,
            gets_ready_first=order.stands_by or (warms_up and has_promised(seat)),
            stands_by=order.stands_by,
        )
        yield seat, loop_of(seat, leases, session, said, stack, order.limits, engines), session


HELP = "run a participant: land, import, compute, until told to stop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa run`."""
    parser.add_argument("--until-ended", action="store_true", help="stop when all has ended")
    standby = (
        "wait, warmed up, for as long as another driver runs it, and take over when it is gone"
    )
    parser.add_argument("--standby", action="store_true", help=standby)
    lane = "backlog: only correct what is owed, beside the live driver, and end (default: live)"
    parser.add_argument("--lane", choices=("live", "backlog"), default="live", help=lane)
    add_running(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run a participant, or with --explain print what it would decide."""
    order = run_order(options)
    return explain_tick(settings, order) if options.explain else run_participant(settings, order)
