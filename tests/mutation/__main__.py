"""`python -m tests.mutation`: draw mutants, run them, tell which survived."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.running import LEFT, ROOMS, all_mutants, drawn, listed_survivors, run_mutants

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str]) -> int:
    """0: every mutant was noticed or is listed; 1: one survived that is not."""
    options = _options(arguments)
    mutants = [m for room in options.room or ROOMS for m in all_mutants(ROOT, room)]
    fitting = [
        mutant
        for mutant in mutants
        if (not options.kind or mutant.kind in options.kind)
        and (not options.only or any(part in mutant.id for part in options.only))
    ]
    chosen = drawn(fitting, options.seed, options.sample)
    if options.list:
        for mutant in chosen:
            print(mutant.shown())
        print(f"{len(chosen)} of {len(mutants)} mutants")
        return 0
    listed = {} if options.listed else listed_survivors()
    chosen = [m for m in chosen if m.id not in listed]
    results = run_mutants(
        ROOT,
        chosen,
        seconds_max=options.minutes * 60,
        simulates=options.simulate,
        told=sys.stdout,
    )
    left = [result for result in results if result.verdict in LEFT]
    counts = {v: sum(r.verdict == v for r in results) for v in sorted({r.verdict for r in results})}
    print(f"{len(results)} of {len(chosen)} mutants run: {counts or 'none'}")
    return 1 if left else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.mutation", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which sample is drawn")
    parser.add_argument("--sample", type=int, default=100, help="how many mutants (0: all)")
    parser.add_argument("--room", action="append", choices=ROOMS, help="of these alone")
    parser.add_argument("--kind", action="append", help="of these kinds alone, as guard or lock")
    parser.add_argument("--only", action="append", help="those with this in their id")
    parser.add_argument("--minutes", type=float, default=60, help="stop after so long, per room")
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="let the simulator look at what no test of the core noticed",
    )
    parser.add_argument("--listed", action="store_true", help="run listed survivors too")
    parser.add_argument("--list", action="store_true", help="show mutants, run nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
