"""Each offered fragment is weighed as if nothing else were taken with it (S4)."""

from __future__ import annotations

import pytest

from medusa_core.market.accepting import _Taking
from medusa_core.market.decisions import HandOn
from medusa_core.market.knowledge import ProviderStatus, ReceivedOffer
from medusa_core.market.messages import Item
from medusa_core.market.relaying import Relay

take = _Taking._take


def alone(
    self: _Taking, received: ReceivedOffer, status: ProviderStatus, relay: Relay
) -> tuple[tuple[Item, ...], tuple[HandOn, ...]]:
    load = self._load
    items: list[Item] = []
    handed: list[HandOn] = []
    for item in received.offer.items:
        self._load = load
        one = ReceivedOffer(received.offer.__class__(**{**_fields(received), "items": (item,)}), 0)
        more, on = take(self, one, status, relay)
        items += more
        handed += on
    return tuple(items), tuple(handed)


def _fields(received: ReceivedOffer) -> dict[str, object]:
    offer = received.offer
    return {name: getattr(offer, name) for name in offer.__dataclass_fields__}


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Taking, "_take", alone)
