"""`medusa contract define`: have the seller of a stream run boxes before it sends the stream."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "have the seller of a stream run boxes before it sends the stream"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract define`."""
    contract = "a content contract with boxes whose payer is the participant"
    parser.add_argument("contract", metavar="CONTRACT", help=contract)
    network = "a file with a network of Filter, Map and Aggregate over the stream"
    parser.add_argument("network", metavar="NETWORK", help=network)
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Send the definition, and print the stream that will be there."""
    from pipelines.operations.boxes_of_buyer import DefineRequest, define

    request = DefineRequest(
        participant=options.participant, contract=options.contract, network=options.network
    )
    done = define(settings, request)
    print(f"definition {done.name} is sent to {done.provider}, which will write {done.stream}")
    return 0
