"""`medusa recipient list`: the recipients of a home, what they may read and what they used."""

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
    from pipelines.operations.recipient_management import RecipientList

HELP = "the recipients of a home, what they may read and what they used"
SECOND_US = 1_000_000
HEADING = (
    "recipient", "tokens", "valid until", "streams", "requests", "rows", "bytes", "last request",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa recipient list`."""
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print them."""
    from pipelines.operations.recipient_management import document, list_recipients

    found = list_recipients(settings, options.participant)
    print(json.dumps(document(found), indent=1) if options.json else render(found))
    return 0


def render(found: RecipientList) -> str:
    """One line for each recipient."""
    if not found.recipients:
        return f"{found.participant} has no recipients: medusa recipient issue"
    rows = (
        (
            one.recipient,
            str(one.tokens),
            _time(one.expires_at),
            ", ".join(one.streams) or "-",
            str(one.requests),
            str(one.rows),
            str(one.bytes),
            _time(one.last_at),
        )
        for one in found.recipients
    )
    return table(HEADING, rows)


def _time(moment: datetime | None) -> str:
    return "-" if moment is None else iso(int(moment.timestamp()) * SECOND_US)
