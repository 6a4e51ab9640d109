"""The demo's third scene: load rises, a fragment moves to a partner, is paid for, and comes back.

Two participants run. While the load of one is high, the other one computes its fragment under a
movement contract. The demo types the two commands that begin and end the move (`medusa move`):
rounds begin and end moves by themselves, but decide by the load of a minute. Every printed line is
read from a home. Nothing waits for a fixed time: each action follows when the one before is
visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from medusa_core.market.moves import MoveState
from medusa_core.market.terms import plain
from medusa_core.segments import Producer
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.time_text import time_of_day
from pipelines.catalog.records import LineStatus, OwnerLine
from pipelines.cli.demo_federation import DemoFederation, demo_federation, wait_until
from pipelines.cli.demo_load import LoadSampler
from pipelines.cli.demo_move_homes import (
    BILLED,
    CONTRACT,
    FRAGMENT,
    MOVING,
    PAYER,
    PROVIDER,
    SECOND_US,
    SETTLED,
    PartyHome,
    agree,
    party_home,
)
from pipelines.cli.demo_move_verdict import OUTPUT, checks_of, show_figures, statements_of
from pipelines.cli.demo_sensor import Sensor
from pipelines.operations.fragment_moves import MoveRequest, begin_move, end_move
from pipelines.report.answer_figures import Mark, read_answers
from pipelines.report.move_figures import MoveFigures
from pipelines.report.move_page import write_move_page
from pipelines.report.next_steps import near

INCOMING = "incoming"
QUIET_PER_S, SPIKE_PER_S = 200, 20_000
BEFORE, RISEN, OF_PROVIDER, AFTER = 4, 4, 6, 3
"""How many buckets are shown before the spike, of the spike before the move, of the provider, and
after the way back."""
STEP_S_MAX = 180.0
EVENT_TIME = re.compile(r"\b[0-9]{16}\b")
"""Microseconds of event time, as reasons in a home have them."""


@dataclass(slots=True)
class _Scene:
    """Who takes part, and what has been shown."""

    federation: DemoFederation
    payer: PartyHome
    provider: PartyHome
    began_s: float
    say: Callable[[str], None]
    load: LoadSampler
    sensor: Sensor
    shown: MoveState | None = None

    def report(self, text: str) -> None:
        """A line with the seconds since the scene began."""
        self.say(f"{clock.monotonic_s() - self.began_s:6.1f} s  {text}")

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for it; load is measured and states of the move are printed meanwhile."""

        def look() -> bool:
            self.load.sample()
            self._show_move()
            return is_so()

        wait_until(self.federation, look, what, STEP_S_MAX)

    def mark(self, label: str) -> Mark:
        """Something that is done now."""
        return Mark(self.payer.home.catalog.read_clock_ms(), label)

    def line(self) -> LineStatus:
        """How far the output is."""
        lines = self.payer.home.catalog.lines(OUTPUT)
        return next(line for line in lines if line.producer == Producer(PAYER))

    def through_us(self) -> int:
        """Before when the output is final; 0 if nothing is."""
        return self.line().stable_through_us or 0

    def owners(self) -> tuple[OwnerLine, ...]:
        """The payer's log of owners."""
        return self.payer.home.catalog.fragment_owners(FRAGMENT)

    def until_final(self, through_us: int, what: str) -> None:
        """Wait until the output is final through a time."""
        self.until(lambda: self.through_us() >= through_us, what)

    def _show_move(self) -> None:
        move = self.payer.last_move()
        if move is not None and move.state is not self.shown:
            self.shown = move.state
            reason = EVENT_TIME.sub(lambda found: time_of_day(int(found[0])), move.reason)
            self.report(f"move {move.number} of {FRAGMENT}: {move.state.value}, {reason}")


def show_move(settings: Settings, folder: Path, page: Path, *, say: Callable[[str], None]) -> bool:
    """Play the scene in a new folder and write its page; whether everything was as promised.

    Raises Unavailable if a participant ends, or nothing goes on, with the place of the logs.
    """
    began_s = clock.monotonic_s()
    with demo_federation(settings, folder, MOVING) as federation:
        agree(federation)
        say(
            f"   {near(folder)} has a folder for each; {PAYER} has joined {PROVIDER}. By contract "
            f"{CONTRACT} {PAYER} may hand its fragment over to {PROVIDER}, and pays for it"
        )
        own = federation.settings
        with (
            party_home(own[PAYER], PAYER) as payer,
            party_home(own[PROVIDER], PROVIDER) as provider,
            Sensor(federation.contracts(PAYER) / INCOMING, QUIET_PER_S) as sensor,
        ):
            load = LoadSampler(payer.home.catalog.read_clock_ms)
            scene = _Scene(federation, payer, provider, began_s, say, load, sensor)
            from_us, marks = _play(scene)
            federation.stop()
            scene.report("both have ended; checking the result")
            owners = scene.owners()
            figures = MoveFigures(
                payer=PAYER,
                provider=PROVIDER,
                fragment=FRAGMENT,
                answers=read_answers(payer.home, OUTPUT, from_us),
                owners=owners,
                loads=load.spans,
                statements=statements_of(payer),
                checks=tuple(checks_of(payer, provider, owners)),
                marks=marks,
            )
            write_move_page(page, figures)
            return show_figures(figures, say)


def _play(scene: _Scene) -> tuple[int, tuple[Mark, ...]]:
    """The scene itself; from which bucket on it is shown, and what was done when."""
    federation = scene.federation
    for participant in MOVING.all:
        federation.start(participant)
        scene.load.watch(participant, federation.running[participant].pid)
    scene.until(lambda: all(map(federation.drives, MOVING.all)), "both participants run")
    scene.until(lambda: scene.through_us() > 0, f"{PAYER} computes")
    parties = (scene.payer, scene.provider)
    scene.until(lambda: all(one.has_contract() for one in parties), "the contract is in force")
    from_us = scene.through_us()
    scene.until_final(from_us + BEFORE * SECOND_US, f"{PAYER} has computed some buckets")
    scene.report(f"{PAYER} and {PROVIDER} run; {PAYER} computes {OUTPUT} every second")
    rises_s, rises = clock.monotonic_s(), scene.mark("spike")
    marks = (rises, *_hand_over(scene), *_take_back(scene))
    _settle(scene)
    scene.report(f"from the spike to the settled bill: {clock.monotonic_s() - rises_s:.0f} s")
    return from_us, marks


def _hand_over(scene: _Scene) -> tuple[Mark, ...]:
    """The load rises, and the fragment goes to the partner."""
    federation = scene.federation
    scene.sensor.per_s = SPIKE_PER_S
    scene.report(
        f"a spike: {PAYER} logs {SPIKE_PER_S:,} connections a second, before {QUIET_PER_S}"
    )
    # By now its load shows it.
    scene.until_final(scene.through_us() + RISEN * SECOND_US, "the spike has arrived")
    request = MoveRequest(participant=PAYER, fragment=FRAGMENT, to=PROVIDER)
    moved = scene.mark("move")
    begun = begin_move(federation.settings[PAYER], request)
    scene.report(f"medusa move {FRAGMENT} --to {PROVIDER}: move {begun.number}, {begun.contract}")
    scene.until(lambda: scene.shown is MoveState.RELEASED, f"{PROVIDER} computes the fragment")
    released_us = scene.through_us()
    scene.until_final(released_us + OF_PROVIDER * SECOND_US, f"{PAYER} commits rows of {PROVIDER}")
    return (moved,)


def _take_back(scene: _Scene) -> tuple[Mark, ...]:
    """The load falls, and the fragment comes back."""
    federation = scene.federation
    scene.sensor.per_s = QUIET_PER_S
    falls = scene.mark("spike ends")
    scene.report(f"the spike ends: {QUIET_PER_S} connections a second")
    end_move(federation.settings[PAYER], PAYER, FRAGMENT)
    scene.report(f"medusa move {FRAGMENT} --back")
    for party, who in ((scene.payer, PAYER), (scene.provider, PROVIDER)):
        scene.until(lambda party=party: _has_ended(party), f"the move has ended at {who}")  # type: ignore[misc]
    back_us = scene.owners()[-1].from_us
    scene.until_final(back_us + AFTER * SECOND_US, f"{PAYER} computes again")
    scene.report(f"{PAYER} computes {OUTPUT} again")
    return (falls,)


def _has_ended(party: PartyHome) -> bool:
    move = party.last_move()
    return move is not None and move.state is MoveState.ENDED


def _settle(scene: _Scene) -> None:
    """Both homes state the periods of 10 s that are over, and agree; nothing is typed."""
    back_us = scene.owners()[-1].from_us
    parties = ((scene.payer, PAYER), (scene.provider, PROVIDER))
    scene.until(
        lambda: all(_is_settled(party, who, back_us) for party, who in parties),
        "the bill is settled",
    )
    for bill in scene.payer.bills():
        if bill.made_by == PROVIDER and bill.state == SETTLED:
            scene.report(
                f"{PROVIDER} bills period {bill.period}: {plain(bill.total)} {bill.currency}; "
                f"{PAYER} owes it: {bill.state}"
            )


def _is_settled(party: PartyHome, who: str, back_us: int) -> bool:
    """Whether a home has stated everything until the way back, and all of it is settled."""
    bills = party.bills()
    own = [bill.to_ms * 1_000 for bill in bills if bill.made_by == who]
    is_settled = all(bill.state != BILLED for bill in bills)
    return is_settled and max(own, default=0) >= back_us
