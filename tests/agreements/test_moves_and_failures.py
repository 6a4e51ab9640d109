"""What a contract says of failures acts: a lost provider costs what was promised, and no more."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from medusa_core.adopting import adopting_commit
from medusa_core.commits import Cause, Commit, Lease, LeaseKey, OutputSegment
from medusa_core.decide import Adopt, ComputeStep, Decision, Wait, decide
from medusa_core.exchange import import_fragment
from medusa_core.fragments import Move, moved_fragment
from medusa_core.grid import Range
from medusa_core.knowledge import NEVER_MS, Limits
from medusa_core.market.moves import MoveState
from medusa_core.names import FIRST_EPOCH, StreamName, Version
from medusa_core.segments import Producer, Stability
from pipelines.homes.deployed_fragments import fragments_in_force
from pipelines.market.moves.move_sync import MoveSync
from pipelines.watching.lost_ranges import with_lost_ranges
from tests.agreements.building import ALPHA, BETA, DAY_MS, Party
from tests.agreements.test_moves import (
    FRAGMENT,
    LENDS,
    WIDTH_US,
    exchanged,
    started,
    state,
    syncs,
)

__all__ = ["syncs"]

COUNTED, SEEN = StreamName("counted"), StreamName("seen")
BOUND_MS = 1
PROMISES = {
    "amnesia": ("gap", "amnesia", 1),
    "gap": ("gap", "upstream_backup", 1),
    "passive standby": ("rollback", "passive_standby", 1),
    "active standby": ("precise", "active_standby", 2),
    "upstream backup": ("precise", "upstream_backup", 1),
}


@dataclass
class Lender:
    """Alpha, whose fragment has moved to beta."""

    alpha: Party
    beta: Party
    syncs: tuple[MoveSync, MoveSync]

    def lend(self, promise: str) -> None:
        recovery, method, replicas = PROMISES[promise]
        statement = LENDS.format(fragments="'{main}'").replace("replicas, penalty", "replicas, "
            "bound_ms, penalty").replace("'precise', 'upstream_backup', 1,", f"'{recovery}', "
            f"'{method}', {replicas}, {BOUND_MS},")  # fmt: skip
        for party in (self.alpha, self.beta):
            party.sql(statement)
        exchanged(self.alpha, self.beta)
        for party in (self.alpha, self.beta):
            party.agreements.open_round(0, "a test")

    def lease(self, party: Party, fragment: str, by: Producer) -> Lease:
        key = LeaseKey(fragment=fragment, producer=by)
        return party.connections.catalog.acquire_lease(key, FIRST_EPOCH, "me", DAY_MS)

    def write(self, party: Party, fragment: str, by: Producer, stream: StreamName, part: Range,
              stability: Stability = Stability.STABLE) -> None:  # fmt: skip
        catalog = party.connections.catalog
        plans = {a.fragment: a.plan for a in catalog.assignments() if a.producer == by}
        catalog.commit(
            Commit(
                lease=self.lease(party, fragment, by),
                plan=plans[fragment],
                cause=Cause.NORMAL,
                segments=(OutputSegment(stream=stream, range=part, stability=stability),),
            )
        )

    def land(self, from_bucket: int, to_bucket: int) -> None:
        part = Range(from_bucket * WIDTH_US, to_bucket * WIDTH_US)
        self.write(self.alpha, "landing/seen", Producer(ALPHA), SEEN, part)

    def release(self) -> None:
        """Beta has computed the bucket behind alpha's, and alpha knows."""
        started(self.alpha, self.beta, self.syncs)
        beta = Producer(BETA, 1)
        part = Range(3 * WIDTH_US, 4 * WIDTH_US)
        self.write(self.beta, moved_fragment(FRAGMENT, Move(ALPHA, 1)), beta, COUNTED, part)
        news = self.beta.connections.catalog.line_news(COUNTED, beta, Version(0), segments_max=9)
        catalog = self.alpha.connections.catalog
        (plan,) = {a.plan for a in catalog.assignments() if a.fragment == FRAGMENT}
        lease = self.lease(self.alpha, import_fragment(COUNTED), Producer(ALPHA))
        assert catalog.import_line(lease, news, plan)
        self.syncs[0].settle()
        assert state(self.alpha) is MoveState.RELEASED

    def decided(self) -> Decision:
        """What is next for the fragment in alpha's home."""
        catalog = self.alpha.connections.catalog
        knowledge = catalog.read_knowledge(fragments_in_force(catalog), Limits())
        found = decide(knowledge, knowledge.clock_ms)
        (decision,) = [
            d for d in found
            if isinstance(d, Adopt | ComputeStep) or (isinstance(d, Wait) and d.of == FRAGMENT)
        ]  # fmt: skip
        return decision

    def carry_out(self, decision: Adopt) -> None:
        lease = self.lease(self.alpha, FRAGMENT, Producer(ALPHA))
        self.alpha.connections.catalog.commit(adopting_commit(decision, lease))

    def lose_beta(self) -> None:
        """Nothing of beta arrives any more while alpha's inputs do, and alpha notices.

        The bucket before the release is alpha's.
        """
        self.land(3, 30)
        (line,) = self.alpha.connections.catalog.fragment_owners(FRAGMENT)
        part = Range(3 * WIDTH_US, line.from_us)
        self.write(self.alpha, FRAGMENT, Producer(ALPHA), COUNTED, part)
        self.syncs[0].settle()
        self.alpha.sql("SELECT pg_sleep(0.05)")
        self.syncs[0].settle()


@pytest.fixture
def lender(alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync]) -> Lender:
    return Lender(alpha, beta, syncs)


def waits_ms(lender: Lender) -> int:
    """How long alpha waits for a bucket of beta's before it computes it itself."""
    (line,) = lender.alpha.connections.catalog.fragment_owners(FRAGMENT)
    assert line.owner == Producer(BETA, 1)
    return line.timeout_ms


@pytest.mark.parametrize("promise", ["amnesia", "gap"])
def test_with_gap_a_lost_provider_leaves_a_gap_up_to_the_next_bucket_and_nothing_else(
    lender: Lender, promise: str
) -> None:
    lender.lend(promise)
    lender.release()
    assert waits_ms(lender) == NEVER_MS
    lender.lose_beta()
    assert state(lender.alpha) in (MoveState.RETURNING, MoveState.ENDED)
    log = lender.alpha.connections.catalog.fragment_owners(FRAGMENT)
    assert (log[-1].owner, log[-1].from_us) == (Producer(ALPHA), 30 * WIDTH_US)
    lender.land(30, 31)
    kinds = []
    while (step := lender.decided()) and not isinstance(step, Wait):
        assert isinstance(step, Adopt | ComputeStep)
        kinds.append((type(step), step.range))
        if isinstance(step, Adopt):
            lender.carry_out(step)
        else:
            lender.write(lender.alpha, FRAGMENT, Producer(ALPHA), COUNTED, step.range)
    released_us = log[0].from_us
    assert kinds == [
        (Adopt, Range(released_us, 30 * WIDTH_US)),
        (ComputeStep, Range(30 * WIDTH_US, 31 * WIDTH_US)),
    ]
    segments = lender.alpha.connections.catalog.segments(COUNTED, producer=Producer(ALPHA))
    lost = [s.range for s in segments if s.stability is Stability.GAP]
    assert lost == [Range(released_us, 30 * WIDTH_US)]
    for now_us, expected in ((30 * WIDTH_US, 1), (31 * WIDTH_US + DAY_MS * 1_000, 0)):
        shown = with_lost_ranges([], lender.alpha.connections.catalog, now_us // 1_000)
        assert [one["of"] for one in shown] == ["a range of sums/main"] * expected
        assert not expected or shown[0]["because"].startswith("beta was lost, and its results from")
    lender.syncs[0].settle()
    assert state(lender.alpha) is MoveState.ENDED


@pytest.mark.parametrize(
    ("promise", "expected_ms"),
    [("passive standby", BOUND_MS), ("active standby", 0), ("upstream backup", BOUND_MS)],
)
def test_without_gap_what_a_lost_provider_has_not_sent_is_computed_by_its_payer(
    lender: Lender, promise: str, expected_ms: int
) -> None:
    lender.lend(promise)
    lender.release()
    assert waits_ms(lender) == expected_ms
    lender.lose_beta()
    decision = lender.decided()
    assert isinstance(decision, ComputeStep)
    assert decision.stability is Stability.STABLE
