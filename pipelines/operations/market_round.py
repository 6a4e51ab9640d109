"""A round of one participant's market: offer load, and answer the offers of partners.

It is held with the participant's key in its own home, as the rounds of its loop are; both may run
at the same time. Partners answer in their own iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.commits import Lane
from medusa_core.errors import Unavailable
from medusa_core.market.decisions import MarketDecision
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.homes.home import chosen_participant
from pipelines.homes.signing_keys import load_key
from pipelines.market.rounds.round_assembly import open_market_worker
from pipelines.market.rounds.round_report import decision_documents
from pipelines.operations.job_supervision import lane_is_held
from pipelines.operations.sample_recomputation import recomputes
from pipelines.participant.home_session import open_session
from pipelines.platform.drills.fault_injected_exchange import FaultInjectedExchange
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks

REQUESTED = "requested by medusa round"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRequest:
    """Hold a round of `participant` (None: the only one of the folder); `explain` sends nothing."""

    participant: str | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """The number of the round and what was decided in it, or would be (`is_explained`).

    `has_declared_cost`: False if the cost of load is not declared, so that nothing is offered or
    taken. `not_sent`: messages that the next round sends again. `problems`: a sentence for each.
    """

    participant: Participant
    round: int
    is_explained: bool
    has_declared_cost: bool
    decisions: tuple[MarketDecision, ...]
    not_sent: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSkipped:
    """No round was held, and why."""

    participant: Participant
    because: str


def hold_round(settings: Settings, request: RoundRequest) -> RoundResult:
    """Open a round, decide and send; with `explain` only decide.

    Raises Refused if others may read the participant's key, Unavailable if it has none or its home
    cannot be reached.
    """
    chosen = chosen_participant(settings, request.participant)
    problems: list[str] = []

    def note(error: Exception) -> None:
        problems.append(str(error))

    with (
        open_session(settings, chosen) as home_session,
        open_market_worker(
            settings.directory,
            chosen,
            home_session.url,
            FaultInjectedExchange(
                home_session.exchange, FaultInjectedLinks(settings.directory, chosen, note)
            ),
            note,
            to_all=True,
            recomputes=recomputes(home_session.home.storage),
        ) as worker,
    ):
        if request.explain:
            facts, decisions = worker.explain()
            number, waiting = facts.round + 1, 0
        else:
            made = worker.tick(opens=REQUESTED)
            decisions, number, waiting = [*made.decisions], made.opened or 0, made.waiting
            facts = worker.facts()
    return RoundResult(
        participant=chosen,
        round=number,
        is_explained=request.explain,
        has_declared_cost=facts.declared is not None,
        decisions=tuple(decisions),
        not_sent=waiting,
        problems=tuple(problems),
    )


def hold_due_round(
    settings: Settings, participant: Participant, *, explain: bool, only_idle: bool
) -> RoundResult | RoundSkipped:
    """As `hold_round`, but skipped for a participant that cannot trade.

    With `only_idle` a participant that runs is skipped: it opens rounds of its own.
    """
    if only_idle and lane_is_held(settings, participant, Lane.LIVE):
        return RoundSkipped(participant=participant, because="it runs")
    try:
        load_key(settings.directory, participant)
    except Unavailable:
        # A home to which no contract was applied has no key, and no partner to trade with.
        return RoundSkipped(participant=participant, because="it has no key")
    return hold_round(settings, RoundRequest(participant=participant, explain=explain))


def document(result: RoundResult | RoundSkipped) -> Mapping[str, Any]:
    """The result for JSON."""
    if isinstance(result, RoundSkipped):
        return {"participant": result.participant, "is_left": True, "because": result.because}
    return {
        "participant": result.participant,
        "round": result.round,
        "is_explained": result.is_explained,
        "has_declared_cost": result.has_declared_cost,
        "decisions": decision_documents(result.decisions),
        "not_sent": result.not_sent,
        "problems": list(result.problems),
    }
