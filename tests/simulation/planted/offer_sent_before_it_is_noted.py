"""An offer is put out before the home notes it as open: a crash in between forgets it (ONCE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.market.messages import offer_from
from pipelines.base.failpoints import reached
from pipelines.catalog.memory.rounds import MemoryRounds

apply = MemoryRounds.apply


def put_out_first(self: MemoryRounds, request: Mapping[str, Any]) -> None:
    for made in request["offers"]:
        body = made["body"].encode()
        offer = offer_from(body)
        provider = self.mailbox.in_force()[offer.contract].provider
        self.mailbox.put(provider, EnvelopeKind.OFFER, f"offer/{offer.nonce}", body)
        reached("round.applied")
    apply(self, request)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryRounds, "apply", put_out_first)
