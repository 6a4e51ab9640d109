"""A settlement of one participant, now: count, state, send, answer.

It is made with the participant's key in its own home, as those of its loop are; both may run at the
same time. Partners answer in their own time.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from medusa_core.errors import Refused, Unavailable
from medusa_core.market.settlement_periods import next_period
from medusa_core.market.terms import ContractName, plain
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.catalog.book_records import AccountBalance, DisputeStatus
from pipelines.catalog.postgres.books import open_books
from pipelines.catalog.postgres.samples import open_samples
from pipelines.catalog.postgres.settlements import PostgresSettlements, open_settlements
from pipelines.homes.home import chosen_participant, home_server
from pipelines.homes.signing_keys import load_key
from pipelines.market.settlement.sample_sync import SampleSync
from pipelines.market.settlement.settlement_sync import SettlementSync
from pipelines.market.sync.sync_assembly import open_contract_sync
from pipelines.operations.sample_recomputation import recomputes
from pipelines.participant.home_session import open_session
from pipelines.platform.drills.fault_injected_exchange import FaultInjectedExchange
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks

OPEN = "open"
"""The state of a dispute that has not ended."""

BUCKETS_MAX = 10_000
"""The most buckets of a stream that a command recomputes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementResult:
    """How much was stated and answered, and what is owed now, over all contracts of a partner.

    `disputed` are the disputes that are open. `not_sent`: messages that are sent again later.
    `problems`: a sentence for each.
    """

    participant: Participant
    settled: int
    due: tuple[AccountBalance, ...]
    disputed: tuple[DisputeStatus, ...]
    not_sent: int
    problems: tuple[str, ...]

    def check(self) -> None:
        """Refused while a dispute is open: somebody has to decide."""
        if self.disputed:
            raise Refused("; ".join(map(dispute_line, self.disputed)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementSkipped:
    """Nothing was settled, and why."""

    participant: Participant
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementStep:
    """What a settlement would do about a contract."""

    contract: ContractName
    period: int
    action: str


def settle_now(settings: Settings, participant: str | None) -> SettlementResult:
    """Exchange messages, count, state and answer, and exchange messages again.

    Raises Refused if others may read the participant's key, Unavailable if it has none or its home
    cannot be reached.
    """
    chosen = chosen_participant(settings, participant)
    problems: list[str] = []

    def note(error: Exception) -> None:
        problems.append(str(error))

    with (
        open_session(settings, chosen) as home_session,
        open_contract_sync(
            settings.directory,
            chosen,
            home_session.url,
            FaultInjectedExchange(
                home_session.exchange, FaultInjectedLinks(settings.directory, chosen, note)
            ),
            note,
            to_all=True,
        ) as (contract_sync, _),
        closing(open_settlements(home_session.url)) as settlements,
        closing(open_samples(home_session.url)) as samples,
        closing(open_books(home_session.url)) as books,
    ):
        contract_sync.tick()
        home = home_session.home
        again = recomputes(home.storage)(home.catalog)
        sample_sync = SampleSync(
            samples, settlements, home.catalog, chosen, again, note, buckets_max=BUCKETS_MAX
        )
        sync = SettlementSync(settlements, chosen, note, looks_s=0, samples=sample_sync)
        settled = sync.settle()
        sent = contract_sync.tick()
        due = tuple(one for one in books.balances() if one.account == "partner")
        disputed = tuple(one for one in books.disputes() if one.state == OPEN)
    return SettlementResult(
        participant=chosen,
        settled=settled,
        due=due,
        disputed=disputed,
        not_sent=sent.waiting,
        problems=tuple(problems),
    )


def settle_due(
    settings: Settings, participant: Participant
) -> SettlementResult | SettlementSkipped:
    """As `settle_now`, but skipped for a participant that has no key."""
    try:
        load_key(settings.directory, participant)
    except Unavailable:
        # A home to which no contract was applied has no key, and nothing to settle.
        return SettlementSkipped(participant=participant, because="it has no key")
    return settle_now(settings, participant)


def dispute_line(dispute: DisputeStatus) -> str:
    """What is in dispute, and the commands that show and end it."""
    blocked = f"{plain(dispute.blocked)} {dispute.currency}"
    return (
        f"{blocked} of contract {dispute.contract}, period {dispute.period}, are in dispute from "
        f"{iso(dispute.from_us)} on: run medusa statement {dispute.contract} "
        f"{dispute.period}, then end it with medusa dispute"
    )


def explain_settlement(settings: Settings, participant: str | None) -> tuple[SettlementStep, ...]:
    """What a settlement would do now; nothing is changed."""
    chosen = chosen_participant(settings, participant)
    with (
        home_server(settings, chosen) as server,
        closing(open_settlements(server.login_url("job"))) as settlements,
    ):
        return (*_to_state(settlements), *_to_answer(settlements, chosen))


def _to_state(settlements: PostgresSettlements) -> list[SettlementStep]:
    steps = []
    for one in settlements.billed_contracts():
        period = next_period(one.revisions, one.before, one.ends_at_ms)
        if period is None:
            continue
        is_over = period.to_ms <= one.clock_ms
        action = f"state it once the stream is final to {iso(period.to_ms * 1_000)}"
        if not is_over:
            action = f"state it after {iso(period.to_ms * 1_000)}"
        steps.append(SettlementStep(contract=one.contract, period=period.number, action=action))
    return steps


def _to_answer(settlements: PostgresSettlements, here: Participant) -> list[SettlementStep]:
    steps, sync = [], SettlementSync(settlements, here)
    for received in settlements.to_answer(1_000):
        claimed, comparison = received.claimed, sync.compared(received)
        action = f"agree to {plain(claimed.total)} {claimed.currency}"
        if comparison.differences:
            action = f"dispute {plain(comparison.blocked)} {claimed.currency}"
        step = SettlementStep(contract=claimed.contract, period=claimed.period, action=action)
        steps.append(step)
    return steps
