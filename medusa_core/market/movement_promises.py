"""What a movement contract can promise of availability: a moved fragment has two participants.

Its payer and its provider alone have its inputs. With active standby both compute it; with each
other method one of them does at a time. Agreements from before this rule stay as they are.
"""

from __future__ import annotations

from medusa_core.market.term_rules import require, unless
from medusa_core.market.terms import Availability, Method

REPLICAS_OF_PAIR = 2


def check_possible(availability: Availability) -> None:
    """Raise InvalidTerms for a number of replicas that a payer and a provider cannot be."""
    method, replicas = availability.method, availability.replicas
    is_active = method is Method.ACTIVE_STANDBY
    fields = ("availability", "replicas")
    require(
        unless(
            not is_active or replicas == REPLICAS_OF_PAIR,
            fields,
            f"is {replicas}, but the payer and the provider of a moved fragment compute it, and "
            f"nobody else: write replicas: {REPLICAS_OF_PAIR}",
        ),
        unless(
            is_active or replicas == 1,
            fields,
            f"is {replicas}, but with method {method.value} one participant at a time computes a "
            "moved fragment: write replicas: 1, or method: active_standby",
        ),
    )
