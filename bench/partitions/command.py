"""`python -m bench partitions`: balance under skew and slowed workers, moves, and a killed worker.

With `--costs` also the CPU per record of the steps of a network without partitions and with them.
Exit code 1 where
a bucket is lost or computed twice, or results differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.partitions.costs import PartitionCosts, measure_costs
from bench.partitions.modelled import Cluster, Outcome, Rates, skewed
from pipelines.base.settings import Settings

CORES, EXPONENT = 3.4, 0.9


def constant(cores: float = CORES) -> Rates:
    """The same skew all the time."""
    loads = skewed(cores, EXPONENT)
    return lambda at_s: loads


def shifting(at_s: float) -> Mapping[int, float]:
    """Other keys are frequent every five minutes."""
    return skewed(CORES, EXPONENT, first_key=round(at_s // 300) * 137)


def outcomes() -> dict[str, Outcome]:
    """Each case, without moves and with them."""
    slowed = {300.0: ("w1", 1 / 3)}
    killed = {305.0: "w2"}
    found: dict[str, Outcome] = {}
    for moves in (False, True):
        how = "moves" if moves else "static"
        found[f"skewed keys, {how}"] = Cluster(constant(), moves=moves).run()
        found[f"skew that shifts, {how}"] = Cluster(shifting, moves=moves).run()
        found[f"a slowed worker, {how}"] = Cluster(
            constant(1.8), moves=moves, slowed=slowed
        ).run()  # fmt: skip
    found["a killed worker"] = Cluster(constant(1.8), killed=killed).run()
    return found


def main(arguments: Sequence[str]) -> int:
    """Run all, print the tables, write the document."""
    parser = argparse.ArgumentParser(prog="bench partitions", description=__doc__)
    parser.add_argument("--costs", action="store_true", help="measure CPU per record, too")
    parser.add_argument("--records", type=int, default=200_000, help="of a bucket")
    parser.add_argument("--json", type=Path, help="where the document goes")
    options = parser.parse_args(arguments)
    modelled = outcomes()
    for line in lines_of(modelled):
        print(line)
    costs: list[PartitionCosts] = []
    if options.costs:
        folder = Settings.from_environment(os.environ).directory
        costs = measure_costs(folder, options.records, lambda text: print(text, file=sys.stderr))
        for line in cost_lines_of(costs):
            print(line)
    if options.json is not None:
        document = {
            "modelled": {name: asdict(outcome) for name, outcome in modelled.items()},
            "costs": [asdict(one) for one in costs],
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    is_exact = all(o.computed_twice == 0 for o in modelled.values())
    return 0 if is_exact and len({one.rows for one in costs}) <= 1 else 1


def lines_of(found: Mapping[str, Outcome]) -> Iterator[str]:
    """The table of the model."""
    yield (
        "case                        computed  mean delay  longest  max/mean load  moves  "
        "in the last 5 min  pause mean / max"
    )
    for name, o in found.items():
        pauses = o.pauses_s or (0.0,)
        yield (
            f"{name:<27} {o.computed:>4}/{o.buckets:<4} {o.delay_s_mean:>8.1f} s "
            f"{o.delay_s_max:>6.1f} s {o.imbalance:>14.2f} {o.moves:>6} {o.moves_late:>18} "
            f"{sum(pauses) / len(pauses):>11.1f} / {max(pauses):.1f} s"
        )


def cost_lines_of(costs: Sequence[PartitionCosts]) -> Iterator[str]:
    """CPU per record, and what it comes to on machines of their own."""
    yield ""
    yield "partitions  cut  CPU/record of partitions  of one worker  records/s of 1, 2, 4 workers"
    for one in costs:
        yield (
            f"{one.n or 'none':>10}  {'yes' if one.cut else 'no':<3} {one.shared_us:>21.2f} us "
            f"{one.fixed_us:>11.2f} us  "
            + ", ".join(f"{one.throughput(workers):,.0f}" for workers in (1, 2, 4))
        )
