"""`python -m bench drops`: an overload of 1.2, 1.5, 2 and 4 times the capacity, and what it costs.

The participant, its catalog and its decisions are the product's; the engine is a model in virtual
time, so that the figures are the same on every machine. Exit code 1 where a final bucket, or a
bucket that was kept, differs from what all records give, or one is computed more than twice.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.drops.scene import Method, Outcome, run

TIMES = (1.2, 1.5, 2.0, 4.0)


def main(arguments: Sequence[str]) -> int:
    """Run all, print the table, write the document."""
    parser = argparse.ArgumentParser(prog="bench drops", description=__doc__)
    parser.add_argument("--times", type=float, nargs="+", default=TIMES, metavar="LOAD")
    parser.add_argument("--json", type=Path, help="where the document goes")
    options = parser.parse_args(arguments)
    outcomes = [run(times, method) for times in options.times for method in Method]
    for line in lines_of(outcomes):
        print(line)
    if options.json is not None:
        document = [{**asdict(o), "method": o.method.value} for o in outcomes]
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(map(is_exact, outcomes)) else 1


def is_exact(outcome: Outcome) -> bool:
    """Whether everything is final in the end, right, and computed at most twice."""
    is_corrected = outcome.corrected_s is not None
    return is_corrected and not outcome.differing and outcome.computed_max <= 2


def lines_of(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The table."""
    yield "load  drops     utility  trends    sums  dropped  longest delay  all final after  wrong"
    for o in outcomes:
        dropped = " ".join(f"{share:.0%}" for share in o.dropped.values())
        final = "never" if o.corrected_s is None else f"{o.corrected_s:.0f} s"
        yield (
            f"{o.times:>4g}  {o.method.value:<8} {o.total:>8.2f} "
            f"{o.utility['trends']:>7.2f} {o.utility['sums']:>7.2f}  {dropped:>7} "
            f"{o.delay_s_max:>12.0f} s {final:>16} {o.differing:>6}"
        )
