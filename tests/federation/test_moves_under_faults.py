"""A fragment moves and comes back while processes are killed, frozen and cut off, in every state.

Whatever happens to a move, the payer's rows are those of what has landed, each once, all final, and
each bucket has one owner.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from medusa_core.market.moves import MoveState
from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.federation.moving_offices import a_move, check, participants, wait_for
from tests.federation.test_moves_by_contract import steps_of
from tests.sweeps import each_of_part

STATES = (MoveState.ACCEPTED, MoveState.STARTED, MoveState.RELEASED, MoveState.RETURNING)
FAULTS = (
    "kill the payer", "kill the provider", "freeze the payer", "freeze the provider", "cut",
    "lose what the payer sends", "lose what the provider sends",
)  # fmt: skip
CASES = each_of_part(f"{state.value}: {fault}" for fault in FAULTS for state in STATES)


@pytest.mark.long
def test_a_move_survives_every_fault_in_every_state(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    with participants(postgres_server, tmp_path) as both:
        for case in CASES:
            state, _, fault = case.partition(": ")
            a_move(both, MoveState(state), partial(both.suffer, fault))
        wait_for("alpha computes again", lambda: steps_of(both.payer)[-2:] == ["compute"] * 2)
        check(both)
