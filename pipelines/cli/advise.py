"""`medusa advise NETWORK`: what methods of availability cost and give, and which one to choose."""

from __future__ import annotations

import argparse
import json

from medusa_core.grid import parse_duration_us
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home, add_json, amount

HELP = "show what keeping each fragment of a network available costs and gives; recommend a method"
PRICES = {
    "core": "an hour of one core",
    "sent": "a GiB that is sent to another machine",
    "hour": "a GiB that is kept for an hour",
}
RECOVERIES = ("gap", "rollback", "precise")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa advise`."""
    parser.add_argument("network", metavar="NETWORK", help="a network that the participant runs")
    bound = "the promise: outputs are complete again within this time, such as 30s"
    parser.add_argument("--bound", metavar="DURATION", help=bound)
    parser.add_argument("--recovery", choices=RECOVERIES, help="the promise: what a failure may do")
    takeover = "from a failure until another process computes, as you have measured it"
    parser.add_argument("--takeover", metavar="DURATION", help=takeover)
    for name, what in (("--core-hour", "core"), ("--gib-sent", "sent"), ("--gib-hour", "hour")):
        parser.add_argument(name, type=amount, metavar="PRICE", help=f"price of {PRICES[what]}")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the options of each fragment and the recommendation; 1 if no option meets a promise."""
    from medusa_core.market.terms import Recovery
    from pipelines.cli.advice_text import document_of, render
    from pipelines.operations.availability_advice import AdviceRequest, advise

    found = advise(
        settings,
        AdviceRequest(
            network=options.network,
            participant=options.participant,
            bound_ms=_ms(options.bound),
            recovery=None if options.recovery is None else Recovery(options.recovery),
            takeover_ms=_ms(options.takeover),
            core_hour=options.core_hour,
            gib_sent=options.gib_sent,
            gib_hour=options.gib_hour,
        ),
    )
    if options.json:
        print(json.dumps(document_of(found), indent=1, allow_nan=False))
    else:
        print("\n\n".join(render(advice, found) for advice in found.fragments))
    return 0 if all(advice.chosen is not None for advice in found.fragments) else 1


def _ms(text: str | None) -> float | None:
    return None if text is None else parse_duration_us(text) / 1_000
