"""`medusa partner list`: the partners of a home, also the invited and the removed ones."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.operations.partner_management import PartnerList

HELP = "the partners of a home, also the invited and the removed ones"
SECOND_US = 1_000_000
HEADING = ("partner", "state", "address", "key", "key since", "last token", "invited until")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa partner list`."""
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print them."""
    from pipelines.operations.partner_management import document, list_partners

    found = list_partners(settings, options.participant)
    if options.json:
        print(json.dumps(document(found), indent=1))
    else:
        print(render(found))
    return 0


def render(found: PartnerList) -> str:
    """One line for each partner; a key by its first digits."""
    if not found.partners:
        return f"{found.participant} has no partners: medusa partner invite"
    rows = (
        (
            one.participant,
            one.state,
            one.url or "-",
            (one.public_key or "-")[:12],
            _time(one.key_since),
            _time(one.heard_at),
            _time(one.invited_until),
        )
        for one in found.partners
    )
    return table(HEADING, rows)


def _time(moment: datetime | None) -> str:
    if moment is None:
        return "-"
    return iso(int(moment.timestamp()) * SECOND_US)
