"""The field qos of a stream's contract: what it declares, who is given it, what is refused."""

from __future__ import annotations

import pytest

from medusa_core.drops.utility import AfterDrop
from medusa_core.errors import Refused
from pipelines.contracts.apply_changes import decide_changes
from tests.contracts.test_replicas import ALL, Read, read, stream
from tests.contracts.writing import TICKS

__all__ = ["read"]

DELAY = "delay: [[0, 1], [10s, 1], [1m, 0.2]]"
LOSS = "loss: [[0, 1], [0.5, 0.9], [1, 0]]"
CASES = {
    "no loss": (f"qos: {{{DELAY}}}\n", "loss"),
    "a rising graph": (
        f"qos: {{{DELAY}, loss: [[0, 1], [0.5, 0.4], [1, 0.5]]}}\n",
        "qos.loss is not a graph of utility: the utility rises from [0.5, 0.4] to [1, 0.5]",
    ),
    "no end": (f"qos: {{{DELAY}, loss: [[0, 1], [0.5, 0.4]]}}\n", "end with [1, U]"),
    "no point": (f"qos: {{{DELAY}, loss: [[0, 1], [1]]}}\n", "is not a point"),
    "no number": (f"qos: {{{DELAY}, loss: [[0, 1], [all, 0]]}}\n", "must be a number"),
    "no duration": (f"qos: {{delay: [[0, 1], [soon, 0]], {LOSS}}}\n", "soon"),
    "a delay graph that falls at once": (
        f"qos: {{delay: [[0, 1], [10s, 0]], {LOSS}}}\n", "falls from 0 on"
    ),
    "another word": (f"qos: {{{DELAY}, {LOSS}, after: never}}\n", "write correct or gap"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), CASES.values(), ids=CASES)
def test_what_is_no_qos_is_refused_with_its_place(text: str, says: str, read: Read) -> None:
    with pytest.raises(Refused) as refused:
        read(stream("result", text))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_source_has_no_qos_of_its_own(read: Read) -> None:
    with pytest.raises(Refused, match="declare it of what is computed from it"):
        read({"streams/ticks.yaml": f"{TICKS}qos: {{{DELAY}, {LOSS}}}\n"})


def test_a_qos_goes_to_the_homes_that_compute_the_stream_and_to_no_other(read: Read) -> None:
    federation = read(stream("result", f"qos: {{{DELAY}, {LOSS}, after: gap}}\n"))
    (home,) = [home for home in decide_changes(federation, ALL, None) if home.qos]
    assert home.participant == "delta"
    (qos,) = home.qos.values()
    assert qos is not None
    assert qos.after is AfterDrop.GAP
    assert (qos.good_ms, qos.loss.at(0.5)) == (10_000, 0.9)
    lines = [change for change in home.changes if change.what == "qos"]
    assert [c.detail for c in lines] == ["an overload of 10 s drops records, and leaves a gap"]
