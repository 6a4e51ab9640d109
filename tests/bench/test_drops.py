"""The runs of `bench drops`: drops are worth more than nothing, and all is corrected afterwards."""

from __future__ import annotations

from bench.drops.command import is_exact, lines_of
from bench.drops.scene import Method, run


def test_in_an_overload_drops_by_qos_are_worth_more_than_none_and_everything_is_corrected() -> None:
    by_qos, nothing = (run(1.5, method, 30) for method in (Method.QOS, Method.NOTHING))
    assert is_exact(by_qos)
    assert is_exact(nothing)
    assert by_qos.total > nothing.total
    assert by_qos.delay_s_max < nothing.delay_s_max
    assert nothing.dropped == {"trends": 0, "sums": 0}
    assert by_qos.dropped["trends"] >= by_qos.dropped["sums"]
    assert len(list(lines_of((by_qos, nothing)))) == 3
