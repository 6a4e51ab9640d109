"""`medusa run` and `medusa tick`: one participant's loop, or one turn of it."""

from __future__ import annotations

import json
import os
import socket
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from medusa_core.decide import explain
from medusa_core.errors import Conflict, Unavailable
from medusa_core.knowledge import Limits
from pipelines.exchange.bell import Bell
from pipelines.federation import Seat, take_seat
from pipelines.home import chosen_participant
from pipelines.leases import LEASE_MS, LeaseKeeper
from pipelines.participant import AssignmentsChanged, ParticipantLoop
from pipelines.report.times import counted
from pipelines.running import (
    Engines,
    OwnSession,
    drivers_of,
    has_ended,
    load_works,
    loop_of,
    wait_for_leases,
)
from pipelines.settings import Settings
from pipelines.warming import warm_up
from pipelines.watching.watcher import watcher_of
from pipelines.works import Work

if TYPE_CHECKING:
    from pipelines.spark.step import StepEngine

POLL_MS = 500
"""How long the loop waits for a bell before it looks by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """How a participant is run: until when, and how long its leases are.

    One that `stands_by` waits, warmed up, for as long as another driver has the leases.
    """

    participant: str | None
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
        lease_ms=int(options.lease * 1_000),
        limits=Limits(records_per_step_max=records_max) if records_max else Limits(),
    )


def run(settings: Settings, order: RunOrder) -> int:
    """Run a participant's loop; returns when told to stop, or with `until_ended` at the end."""
    while True:
        try:
            _run(settings, order)
        except AssignmentsChanged:
            # Other networks, plans, imports or partners: everything is made anew from the catalog.
            order = replace(order, stands_by=False)
            continue
        return 0


def _run(settings: Settings, order: RunOrder) -> None:
    with _running(settings, order) as (seat, loop), ExitStack() as stack:
        bell = Bell(seat.urls)
        stack.callback(bell.close)

        def recover(error: Exception) -> None:
            seat.revive()

        loop.run(
            is_done=lambda: order.until_ended and has_ended(seat) and loop.has_delivered_all(),
            wait=lambda: bell.wait(order.poll_ms),
            recover=recover,
        )


def tick(settings: Settings, order: RunOrder, *, as_json: bool) -> int:
    """One turn: feed, import, decide, apply."""
    with _running(settings, order) as (_, loop):
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
    with take_seat(settings, chosen_participant(settings, order.participant)) as seat:
        leases = LeaseKeeper(seat.home.catalog, "explain")
        works = load_works(seat)
        for driver in drivers_of(seat, works, leases, _no_engine, order.limits):
            for line in explain(driver.decide()):
                print(line)
    return 0


def _no_engine(work: Work) -> Callable[[], StepEngine]:
    def engine() -> StepEngine:
        raise AssertionError("an explanation computes nothing")

    return engine


@contextmanager
def _running(settings: Settings, order: RunOrder) -> Iterator[tuple[Seat, ParticipantLoop]]:
    participant = chosen_participant(settings, order.participant)
    with ExitStack() as stack:
        seat = stack.enter_context(take_seat(settings, participant))
        said = stack.enter_context(watcher_of(settings, participant, seat.home.catalog))
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

        leases = LeaseKeeper(seat.home.catalog, holder, lease_ms=order.lease_ms)
        stack.enter_context(leases)
        wait_for_leases(
            seat, leases, order.lease_ms, said, get_ready=get_ready, stands_by=order.stands_by
        )
        yield seat, loop_of(seat, leases, session, said, stack, order.limits, engines)
