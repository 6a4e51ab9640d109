"""After all is delivered two homes hold the same, or both none, whatever happened on the way."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from medusa_core.market.converging import (
    CLOCK_MS_MAX,
    HeldAgreement,
    ReportedAgreement,
    Verdict,
    judge,
)
from medusa_core.market.terms import Revision
from tests.market.converging_homes import PAYER, PROVIDER, Home, Message, numbers
from tests.market.ending import Ending, end_of, is_heard_in_time
from tests.sweeps import examples

SIDES = st.sampled_from([PAYER, PROVIDER])
ROUNDS_MAX = 200
DAY_MS = 86_400_000


class TwoHomes(RuleBasedStateMachine):
    """Messages are lost, doubled and taken in any order; homes are set back; clocks differ."""

    @initialize(skew_ms=st.integers(-CLOCK_MS_MAX // 2, CLOCK_MS_MAX // 2))
    def begin(self, skew_ms: int) -> None:
        self.homes = {PAYER: Home(PAYER, skew_ms), PROVIDER: Home(PROVIDER, 0)}
        self.now_ms = 1_700_000_000_000
        self.on_the_way: list[tuple[str, Message]] = []

    @rule(terms=st.integers(0, 3))
    def the_provider_offers(self, terms: int) -> None:
        self.homes[PROVIDER].offer(terms, self.now_ms)

    @rule()
    def the_payer_accepts(self) -> None:
        self.homes[PAYER].accept()

    @rule(of=SIDES)
    def notice_is_given(self, of: str) -> None:
        self.homes[of].give_notice(self.now_ms)

    @rule(of=SIDES)
    def a_home_is_backed_up(self, of: str) -> None:
        self.homes[of].back_up()

    @rule(of=SIDES)
    def a_home_is_set_back(self, of: str) -> None:
        self.homes[of].restore()

    @rule(of=SIDES)
    def a_home_tells_what_it_holds(self, of: str) -> None:
        self.homes[of].compare()

    @rule(days=st.integers(1, 9))
    def time_passes(self, days: int) -> None:
        self.now_ms += days * DAY_MS

    @precondition(lambda self: self.on_the_way)
    @rule(draw=st.data(), stays=st.booleans())
    def a_message_comes(self, draw: st.DataObject, stays: bool) -> None:
        at = draw.draw(st.integers(0, len(self.on_the_way) - 1))
        to, message = self.on_the_way[at] if stays else self.on_the_way.pop(at)
        self.homes[to].take(message, self.now_ms)

    @precondition(lambda self: self.on_the_way)
    @rule(draw=st.data())
    def a_message_is_lost(self, draw: st.DataObject) -> None:
        self.on_the_way.pop(draw.draw(st.integers(0, len(self.on_the_way) - 1)))

    @invariant()
    def what_is_said_is_sent_and_numbers_have_no_hole(self) -> None:
        if not hasattr(self, "homes"):
            return
        for home in self.homes.values():
            self.on_the_way += [(home.partner, message) for message in home.sends]
            home.sends.clear()
            assert list(numbers(home)) == list(range(1, len(home.chain) + 1))

    def teardown(self) -> None:
        if not hasattr(self, "homes"):
            return
        self._deliver_all()
        for _ in range(6):
            for home in self.homes.values():
                home.compare()
                self._deliver_all()
        payer, provider = self.homes[PAYER], self.homes[PROVIDER]
        assert payer.chain == provider.chain
        assert payer.ends() == provider.ends()

    def _deliver_all(self) -> None:
        for _ in range(ROUNDS_MAX):
            self.what_is_said_is_sent_and_numbers_have_no_hole()
            if not self.on_the_way:
                return
            waiting, self.on_the_way = self.on_the_way, []
            for to, message in dict.fromkeys(waiting):
                self.homes[to].take(message, self.now_ms)
        raise AssertionError("they never come to rest")


TwoHomes.TestCase.settings = settings(
    max_examples=examples(40, 150),
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
TestTwoHomes = pytest.mark.sweep(TwoHomes.TestCase)

LOW, HIGH = Revision("0" * 64), Revision("f" * 64)


def told(revision: Revision, *, counts: bool) -> ReportedAgreement:
    return ReportedAgreement(number=1, revision=revision, supersedes=None, counts=counts)


def held(
    revision: Revision | None, *, counts: bool = False, is_bound: bool = True
) -> HeldAgreement:
    return HeldAgreement(revision=revision, before=None, counts=counts, is_bound=is_bound)


def test_what_counts_goes_before_what_does_not_and_of_two_the_smaller_hash() -> None:
    assert judge(told(HIGH, counts=True), held(LOW)) is Verdict.REPLACE
    assert judge(told(LOW, counts=False), held(HIGH, counts=True)) is Verdict.KEEP
    assert judge(told(LOW, counts=True), held(HIGH, counts=True)) is Verdict.REPLACE
    assert judge(told(HIGH, counts=True), held(LOW, counts=True)) is Verdict.KEEP


def test_a_late_agreement_is_refused_unless_it_was_held_once() -> None:
    late = held(None, is_bound=False)
    assert judge(told(LOW, counts=False), late) is Verdict.LATE
    assert judge(told(LOW, counts=True), late) is Verdict.AGREE


def test_an_agreement_that_builds_on_an_earlier_one_waits_for_it() -> None:
    second = ReportedAgreement(number=2, revision=LOW, supersedes=HIGH, counts=True)
    assert judge(second, held(None)) is Verdict.EARLIER


def test_the_earliest_notice_counts_as_the_one_says_that_was_given_it() -> None:
    notices = {PAYER: [Ending(ends_at_ms=5, is_heard=False), Ending(ends_at_ms=9, is_heard=True)]}
    assert end_of(notices) == 9
    assert end_of(notices | {PROVIDER: [Ending(ends_at_ms=10**15, is_heard=False)]}) == 9
    assert end_of({}) is None
    assert is_heard_in_time(DAY_MS + CLOCK_MS_MAX, 0, 0, DAY_MS)
    assert not is_heard_in_time(DAY_MS + CLOCK_MS_MAX + 1, 0, 0, DAY_MS)
