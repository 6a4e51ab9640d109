"""The page on the simulator has the figures of the code: the bound, its allowances and faults."""

from __future__ import annotations

import re

from pipelines.simulation.faults import bound_laws, liveness
from pipelines.simulation.faults.simulated_participants import LEASE_MS, POLL_MS
from tests.docs.pages import page

PAGE = " ".join(page("simulator").split())
NUMBERS = {4: "Four", 10: "ten"}


def test_the_page_has_what_a_result_is_allowed_beyond_its_bound() -> None:
    found = re.search(
        r"committed within X, (\d+) s for other work, and (\d+) ms for each other step .*?"
        r"\(not for (\d+) s after",
        PAGE,
    )
    assert found
    assert [int(number) for number in found.groups()] == [
        bound_laws.GRACE_MS // 1_000,
        bound_laws.STEP_MS,
        bound_laws.DISTURBED_MS // 1_000,
    ]


def test_the_page_has_the_ticks_of_liveness() -> None:
    assert f"N = depth + ceil(owed / chunk) / share + {liveness.MORE_TICKS} ticks" in PAGE
    assert f"with the share of corrections at {liveness.SHARE_PERCENT} %" in PAGE
    assert POLL_MS == 1_000
    assert "a tick is a second of the simulation" in PAGE
    assert f"{NUMBERS[LEASE_MS // POLL_MS]} more ticks are allowed for the remaining lease" in PAGE
    assert f"{NUMBERS[liveness.MORE_TICKS]} further ticks" in PAGE
