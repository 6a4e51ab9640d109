"""`medusa round`: hold a round of a participant's market now, whether its loop runs or not."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.base.text_table import printable
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.operations.market_round import RoundResult

HELP = "a round of the market now: offer load, answer partners' offers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa round`."""
    parser.add_argument(
        "--explain", action="store_true", help="print what would be decided, change nothing"
    )
    add_home(parser, "who (default: the only one)")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Hold a round and print what was decided or, with --explain, would be."""
    from pipelines.operations.market_round import RoundRequest, document, hold_round

    request = RoundRequest(participant=options.participant, explain=options.explain)
    result = hold_round(settings, request)
    if options.json:
        print(json.dumps(document(result), indent=1, allow_nan=False))
        return 0
    print(render(result))
    for problem in result.problems:
        print(f"medusa: {printable(problem)}", file=sys.stderr)
    if result.not_sent:
        print(f"{result.not_sent} not sent yet: the next round sends it again")
    return 0


def render(result: RoundResult) -> str:
    """The decisions for people, a line each."""
    from pipelines.market.rounds.round_report import decision_lines

    would = "would be" if result.is_explained else "is"
    lines = [f"round {result.round} of {result.participant} {would} open"]
    if not result.has_declared_cost:
        lines.append(
            "the cost of load is not declared, so nothing is offered or taken: see docs/load.md"
        )
    decisions = decision_lines(result.decisions) or ["nothing to offer, and nothing to answer"]
    return "\n".join((*lines, *map(printable, decisions)))
