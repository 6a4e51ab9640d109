"""A reader acknowledges tentative rows too, whose corrections it has yet to fetch (S7)."""

from __future__ import annotations

import pytest

from medusa_core.names import StreamName
from medusa_core.segments import Producer
from pipelines.simulation import importing
from pipelines.simulation.homes import SimulatedHome


def safe_through_us(home: SimulatedHome, stream: StreamName, writer: Producer) -> int | None:
    return importing.standing_of(home, stream, writer).boundary_us


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(importing, "safe_through_us", safe_through_us)
