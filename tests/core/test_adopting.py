"""A moved fragment: final rows of the provider take the place of steps, and are waited for."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.adopting import adopting_commit
from medusa_core.bounds import Bound
from medusa_core.commits import Lease, LeaseKey
from medusa_core.decide import Adopt, ComputeStep, Decision, Wait, decide, explain
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import NEVER_MS, FragmentKnowledge, Knowledge, ProviderKnowledge
from medusa_core.names import Participant, PlanId
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from tests.core import builders as a

BETA = Producer(Participant("beta"), 1)
FILE = SegmentFile(path="copies/of_beta", size_bytes=1, sha256="ab", rows=9)
TIMEOUT_MS = 5_000


def provided(
    from_s: int, to_s: int, counts: dict[int, int], stability: Stability = Stability.STABLE
) -> Segment:
    segment = a.a_segment(a.seconds(from_s, to_s), counts, stream=a.TOTALS, stability=stability)
    return replace(segment, producer=BETA, files=(FILE,) if counts else ())


def moved(
    *rows: Segment,
    from_s: int = 0,
    to_s: int | None = None,
    computed_s: int = 0,
    through_s: int = 120,
) -> FragmentKnowledge:
    """Windows of 60 s of beta from `from_s` on; the input is here through `through_s`."""
    counts = dict.fromkeys(range(0, through_s, 10), 10)
    known = a.a_fragment_knowledge(
        a.an_input(a.a_segment(a.seconds(0, through_s), counts)), computed_s=computed_s, width_s=60
    )
    until_us = FOREVER_US if to_s is None else to_s * a.SECOND_US
    return replace(
        known,
        provider=ProviderKnowledge(
            producer=BETA,
            range=Range(from_s * a.SECOND_US, until_us),
            timeout_ms=TIMEOUT_MS,
            segments={a.TOTALS: rows},
        ),
    )


def decided(fragment: FragmentKnowledge, now_ms: int = 0) -> Decision:
    knowledge = Knowledge(participant=a.ALPHA.participant, landings=(), fragments=(fragment,))
    (decision,) = decide(knowledge, now_ms)
    return decision


def test_final_rows_of_the_provider_are_committed_in_place_of_a_step() -> None:
    decision = decided(moved(provided(0, 60, {0: 2}), provided(60, 120, {60: 3})))
    assert isinstance(decision, Adopt)
    assert decision.range == a.seconds(0, 120)
    assert {read.input for read in decision.reads} == {a.READINGS}
    key = LeaseKey(fragment="example/main", producer=a.ALPHA)
    lease = Lease(key=key, epoch=decision.fragment.epoch, holder="me", expires_at_ms=0)
    commit = adopting_commit(decision, lease)
    (segment,) = commit.segments
    assert {at: digest.rows for at, digest in segment.buckets.items()} == {0: 2, 60_000_000: 3}
    assert segment.files == (FILE,)
    assert (commit.metrics.records_in, commit.metrics.records_out) == (120, 5)


def test_only_the_buckets_that_the_provider_has_finished_are_adopted() -> None:
    tentative = provided(60, 120, {60: 3}, Stability.TENTATIVE)
    for rows in ((provided(0, 60, {0: 2}),), (provided(0, 60, {0: 2}), tentative)):
        decision = decided(moved(*rows))
        assert isinstance(decision, Adopt)
        assert decision.range == a.seconds(0, 60)


def test_a_hole_in_the_line_of_the_provider_ends_what_is_adopted() -> None:
    decision = decided(moved(provided(60, 120, {60: 3})))
    assert isinstance(decision, Wait)


def test_rows_of_another_plan_are_not_adopted() -> None:
    known = moved(provided(0, 60, {0: 2}), provided(60, 120, {60: 3}))
    decision = decided(replace(known, plan=PlanId("1" * 32)), now_ms=TIMEOUT_MS)
    assert isinstance(decision, ComputeStep)


def test_a_provider_that_is_late_is_waited_for_and_then_the_step_is_computed_here() -> None:
    waits = decided(moved(), now_ms=TIMEOUT_MS - 1)
    assert isinstance(waits, Wait)
    assert waits.until_ms == TIMEOUT_MS
    step = decided(moved(), now_ms=TIMEOUT_MS)
    assert isinstance(step, ComputeStep)
    assert step.stability is Stability.STABLE
    assert "beta/1 is late" in step.because.reason


def test_a_promised_bound_shortens_the_wait() -> None:
    known = moved()
    promised = {a.TOTALS: replace(known.outputs[a.TOTALS], bound=Bound(bound_ms=2_000))}
    waits = decided(replace(known, outputs=promised))
    assert isinstance(waits, Wait)
    assert waits.until_ms is not None
    assert waits.until_ms < 2_000


def lossy(*rows: Segment, to_s: int | None = None) -> FragmentKnowledge:
    known = moved(*rows, to_s=to_s)
    assert known.provider is not None
    return replace(known, provider=replace(known.provider, timeout_ms=NEVER_MS))


def test_with_gap_recovery_what_is_late_is_waited_for_whatever_the_bound() -> None:
    known = lossy()
    promised = {a.TOTALS: replace(known.outputs[a.TOTALS], bound=Bound(bound_ms=2_000))}
    for one in (known, replace(known, outputs=promised)):
        waits = decided(one, now_ms=10**9)
        assert isinstance(waits, Wait)
        assert waits.until_ms is None
        assert "with gap it is not computed here" in waits.because.reason
    assert isinstance(decided(lossy(provided(0, 60, {0: 2}))), Adopt)


def test_with_gap_recovery_what_is_not_there_when_another_owner_follows_is_a_gap() -> None:
    rows = provided(0, 60, {0: 2})
    adopted = decided(lossy(rows, to_s=120))
    assert isinstance(adopted, Adopt)
    assert (adopted.range, adopted.is_lost) == (a.seconds(0, 60), False)
    lost = decided(lossy(to_s=120))
    assert isinstance(lost, Adopt)
    assert (lost.range, lost.is_lost) == (a.seconds(0, 120), True)
    key = LeaseKey(fragment="example/main", producer=a.ALPHA)
    lease = Lease(key=key, epoch=lost.fragment.epoch, holder="me", expires_at_ms=0)
    commit = adopting_commit(lost, lease)
    (segment,) = commit.segments
    assert (segment.stability, segment.range) == (Stability.GAP, a.seconds(0, 120))
    assert not segment.buckets
    assert commit.lineage == ()
    assert "declare a gap in totals" in explain([lost])[0]


def test_with_active_standby_a_step_waits_for_nobody_and_takes_what_is_there() -> None:
    for rows, expected in (((), ComputeStep), ((provided(0, 120, {0: 2}),), Adopt)):
        known = moved(*rows)
        assert known.provider is not None
        at_once = replace(known, provider=replace(known.provider, timeout_ms=0))
        assert isinstance(decided(at_once, now_ms=0), expected)


def test_a_step_ends_before_the_first_bucket_of_another_owner() -> None:
    before = decided(moved(provided(60, 120, {60: 3}), from_s=60))
    assert isinstance(before, ComputeStep)
    assert before.range == a.seconds(0, 60)
    rows = (provided(0, 60, {0: 2}), provided(60, 120, {60: 3}))
    until = decided(moved(*rows, to_s=60))
    assert isinstance(until, Adopt)
    assert until.range == a.seconds(0, 60)
    after = decided(moved(*rows, to_s=60, computed_s=60))
    assert isinstance(after, ComputeStep)
    assert after.range == a.seconds(60, 120)


def test_a_step_with_a_tentative_input_is_computed_here() -> None:
    known = moved(provided(0, 60, {0: 2}), provided(60, 120, {60: 3}))
    tentative = a.a_segment(a.seconds(0, 120), {0: 1}, stability=Stability.TENTATIVE)
    decision = decided(replace(known, inputs={a.READINGS: a.an_input(tentative)}))
    assert isinstance(decision, ComputeStep)
    assert decision.stability is Stability.TENTATIVE
