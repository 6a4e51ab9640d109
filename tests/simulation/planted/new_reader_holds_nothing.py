"""A partner that has acknowledged nothing yet holds nothing of what it is to read (S7)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from medusa_core.commits import Hold
from medusa_core.names import Participant
from pipelines.exchange import first_holds
from pipelines.exchange.first_holds import Wiring


def no_holds(
    wiring: Wiring, owners: Mapping[str, tuple[Participant, ...]]
) -> dict[Participant, tuple[Hold, ...]]:
    return {}


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(first_holds, "first_holds", no_holds)
