"""What a participant has dropped and not corrected yet, as `medusa status` shows it."""

from __future__ import annotations

from dataclasses import replace

from bench.drops.modelled import Costs
from bench.drops.scene import CALM_S, Method, home_of
from medusa_core.drops.utility import AfterDrop
from medusa_core.names import StreamName
from medusa_core.segments import Stability
from pipelines.cli.status_text import DROPS, drop_row, fixed
from pipelines.watching.drop_facts import drop_facts
from pipelines.watching.home_status import held_streams


def test_what_was_dropped_is_counted_with_the_utility_that_is_lost_until_it_is_corrected() -> None:
    home = home_of(2.0, Method.QOS, Costs(), overload_s=40)
    assert drop_facts(home.catalog, held_streams(home.catalog)) == []
    home.run((CALM_S + 40) * 1_000)
    facts = {fact["stream"]: fact for fact in drop_facts(home.catalog, held_streams(home.catalog))}
    trends = facts["trends"]
    dropped = {a.bucket_us for a in home.answers if a.stream == "trends" and a.is_dropped}
    assert trends["buckets"] == len(dropped) > 0
    assert trends["from_us"] == min(dropped)
    assert 0 < trends["share"] <= 1
    assert trends["utility_lost"] == round(1 - home.qos["trends"].loss.at(trends["share"]), 4)
    shown = fixed(DROPS, [drop_row(trends)])
    assert f"{trends['share']:.0%}" in shown
    home.run(10**9, is_done=home.is_all_final)
    assert drop_facts(home.catalog, held_streams(home.catalog)) == []


def test_with_gap_what_is_dropped_stays_a_gap_and_everything_is_final_at_once() -> None:
    home = home_of(2.0, Method.QOS, Costs(), overload_s=40)
    for stream, qos in home.qos.items():
        home.catalog.declare_qos(StreamName(stream), replace(qos, after=AfterDrop.GAP))
    home.run((CALM_S + 40) * 1_000)
    assert home.is_all_final()
    gaps = [s for s in home.catalog.segments(StreamName("trends")) if s.stability is Stability.GAP]
    assert sum(s.range.to_us - s.range.from_us for s in gaps) >= 2_000_000
    assert all(s.drop_rate == 1 for s in gaps)
    assert drop_facts(home.catalog, held_streams(home.catalog)) == []
