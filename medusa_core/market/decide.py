"""The market's two entry points: the offers of a participant in a round, and its answers.

Both are pure: the same knowledge gives the same decisions, and there is no need to decide again
while knowledge has not changed. The participant's loop and the simulator both call them.
"""

from __future__ import annotations

from medusa_core.market.accepting import answers, headroom_reports
from medusa_core.market.decisions import MarketDecision
from medusa_core.market.knowledge import MarketKnowledge
from medusa_core.market.relaying import offers_on
from medusa_core.market.returning import decide_returns, given_back
from medusa_core.market.shedding import offers_of_own


def decide_offers(knowledge: MarketKnowledge) -> list[MarketDecision]:
    """At the beginning of a round: offers, moves that end, and to whom there is room again.

    A participant that hands its own load over ends no move in the same round. What costs too much
    is given back although offers of others wait, or are offered on: nobody can keep it here. Then
    nothing is taken back.
    """
    relays = offers_on(knowledge)
    own = [] if relays else offers_of_own(knowledge)
    ends = []
    if not own:
        waits = relays or knowledge.received
        ends = given_back(knowledge) if waits else decide_returns(knowledge)
    return [*relays, *own, *ends, *headroom_reports(knowledge)]


def decide_answers(knowledge: MarketKnowledge) -> list[MarketDecision]:
    """When offers have come, or answers to one's own: what to say to each that waits."""
    return answers(knowledge)
