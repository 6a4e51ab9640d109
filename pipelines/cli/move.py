"""`medusa move`: hand a fragment over to a partner, take it back, list what has moved."""

from __future__ import annotations

import argparse
import json

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_home, add_json

HELP = "hand a fragment over to a partner under a contract, end a move, or list the moves"
HEADING = ("move", "fragment", "payer", "provider", "contract", "state", "since", "because")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa move`."""
    parser.add_argument(
        "fragment", metavar="FRAGMENT", nargs="?", help="which one; without: list the moves"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--to", metavar="PARTNER", help="the partner that is to compute it")
    what.add_argument("--back", action="store_true", help="its payer is to compute it again")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Begin or end a move, which a running participant carries out; or list the moves."""
    from medusa_core.errors import Refused
    from pipelines.operations.fragment_moves import MoveRequest, begin_move, end_move

    if options.fragment is None:
        if options.to is not None or options.back:
            raise Refused("name the fragment: medusa move FRAGMENT --to PARTNER")
        return _list(options, settings)
    if options.back:
        print(end_move(settings, options.participant, options.fragment).sentence)
    elif options.to is not None:
        request = MoveRequest(
            participant=options.participant, fragment=options.fragment, to=options.to
        )
        print(begin_move(settings, request).sentence)
    else:
        raise Refused("say where the fragment goes: --to PARTNER, or --back")
    return 0


def _list(options: argparse.Namespace, settings: Settings) -> int:
    from dataclasses import asdict

    from pipelines.operations.fragment_moves import list_moves

    found = list_moves(settings, options.participant)
    if options.json:
        moves = [{**asdict(one), "state": one.state.value} for one in found.moves]
        for one in moves:
            del one["id"]
        print(json.dumps({"participant": found.participant, "moves": moves}, indent=1))
        return 0
    if not found.moves:
        print(f"{found.participant} has no moves: medusa move FRAGMENT --to PARTNER")
        return 0
    here = found.participant
    rows = [
        (
            str(one.number), one.fragment, here if one.is_given else one.partner,
            one.partner if one.is_given else here, one.contract, one.state.value,
            iso(one.changed_at_ms * 1_000), one.reason,
        )
        for one in found.moves
    ]  # fmt: skip
    print(table(HEADING, rows))
    return 0
