"""The market's two entries: what a participant offers in a round, and what it answers.

Both are pure: the same knowledge gives the same decisions, and knowledge that has not changed need
not be asked again. The participant's loop and the simulator call them alike.
"""

from __future__ import annotations

from medusa_core.market.accepting import answers, rooms_to_tell
from medusa_core.market.decisions import MarketDecision
from medusa_core.market.knowledge import MarketKnowledge
from medusa_core.market.relaying import offers_on
from medusa_core.market.shedding import offers_of_own


def decide_offers(knowledge: MarketKnowledge) -> list[MarketDecision]:
    """At the beginning of a round: offers, and to whom there is room again."""
    offers = offers_on(knowledge) or offers_of_own(knowledge)
    return [*offers, *rooms_to_tell(knowledge)]


def decide_answers(knowledge: MarketKnowledge) -> list[MarketDecision]:
    """When offers have come, or answers to one's own: what to say to each that waits."""
    return answers(knowledge)
