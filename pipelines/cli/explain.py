"""`medusa explain`: what a network needs and costs, or where producers of a stream disagree."""

from __future__ import annotations

import argparse

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home, add_json

HELP = "explain what a network needs and costs, or where producers of a stream disagree"
DIVERGED = "diverged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa explain`."""
    network = f"a shipped network or a network file, Python or SQL; or the word {DIVERGED}"
    parser.add_argument("network", metavar="NETWORK", help=network)
    stream = f"with {DIVERGED}: only of this stream"
    parser.add_argument("stream", metavar="STREAM", nargs="?", help=stream)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Explain the network; or print where producers disagree."""
    if options.network == DIVERGED:
        from pipelines.cli.explain_diverged import explain_diverged

        return explain_diverged(settings, options.participant, options.stream, as_json=options.json)
    if options.stream or options.participant:
        given = options.stream or "--participant"
        raise Refused(
            f"{given} is for `medusa explain {DIVERGED}`: write the network alone, as in `medusa "
            f"explain {options.network}`"
        )
    from pipelines.cli.explain_network import explain_network

    return explain_network(options.network, as_json=options.json)
