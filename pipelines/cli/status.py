"""`medusa status`: how every home in the folder stands, once or again and again.

Nothing is written and no lease is taken. A home that cannot be reached is shown with the reason; a
repeated look goes on and shows it again when it is back.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.text_table import printable
from pipelines.cli.arguments import add_home, add_json, seconds
from pipelines.cli.up_status import platform_status, platform_text

if TYPE_CHECKING:
    from pipelines.homes.home import Home

CLEARED = "\x1b[H\x1b[2J"
Homes: TypeAlias = "Mapping[Participant, Home | MedusaError]"


def show_status(
    settings: Settings, participant: str | None, *, as_json: bool, every_s: float | None = None
) -> int:
    """Print who is here, how far streams have come, and what would be done next.

    Without a participant all homes of the folder; `every_s`: again after so many seconds, until
    interrupted. Returns 0, or the exit code of what made a home unreachable.
    """
    while True:
        names = _names(settings, participant)
        with _opened(settings, names) as homes:
            code = _show(settings, homes, as_json=as_json, again=every_s is not None)
            # Connections stay open between looks; after an error everything is opened anew.
            while every_s is not None and code == 0 and names == _names(settings, participant):
                clock.sleep_s(every_s)
                code = _show(settings, homes, as_json=as_json, again=True)
        if every_s is None:
            return code
        clock.sleep_s(every_s)


def _names(settings: Settings, wanted: str | None) -> list[Participant]:
    """As `chosen_participants`, or nobody where a platform stands that has no homes yet."""
    from pipelines.homes.home import known_homes

    if wanted is None and not known_homes(settings.directory) and platform_status(settings):
        return []
    return chosen_participants(settings, wanted)


def chosen_participants(settings: Settings, wanted: str | None) -> list[Participant]:
    """The one asked for, or all whose homes are in the folder; Refused if that is nobody."""
    from pipelines.homes.home import chosen_participant, known_homes

    homes = sorted(known_homes(settings.directory)) if wanted is None else []
    return homes or [chosen_participant(settings, wanted)]


@contextmanager
def _opened(settings: Settings, names: Sequence[Participant]) -> Iterator[Homes]:
    from pipelines.homes.home import open_home

    with ExitStack() as stack:
        homes: dict[Participant, Home | MedusaError] = {}
        for name in names:
            try:
                homes[name] = stack.enter_context(open_home(settings, name))
            except MedusaError as error:
                homes[name] = error
        yield homes


def _show(settings: Settings, homes: Homes, *, as_json: bool, again: bool) -> int:
    """Print one look; returns the exit code of the first error."""
    from pipelines.watching.home_status import home_status

    documents: list[dict[str, Any]] = []
    errors: list[MedusaError] = []
    for name, home in homes.items():
        try:
            if isinstance(home, MedusaError):
                raise home
            documents.append(home_status(home))
        except MedusaError as error:
            if len(homes) == 1 and not again:
                raise
            errors.append(error)
            documents.append({"participant": name, "error": str(error)})
    platform = platform_status(settings)
    if as_json:
        whole = {"homes": documents, **({"platform": platform} if platform else {})}
        print(json.dumps(whole, indent=None if again else 1, allow_nan=False), flush=True)
    else:
        texts = [platform_text(platform)] if platform else []
        text = f"\n\n{'=' * 100}\n\n".join([*texts, *map(_text, documents)])
        cleared = CLEARED if again and sys.stdout.isatty() else ""
        print(cleared + text, end="\n\n" if again else "\n", flush=True)
    return errors[0].exit_code if errors else 0


def _text(document: Mapping[str, Any]) -> str:
    from pipelines.cli.status_text import status_text

    if "error" in document:
        return f"home of {document['participant']}: {printable(document['error'])}"
    return status_text(document)


HELP = "how homes stand: leases, streams, what would be done next"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa status`."""
    every = "again and again, every so many seconds (default: 2)"
    parser.add_argument(
        "--watch", nargs="?", type=seconds, const=2.0, metavar="SECONDS", help=every
    )
    add_home(parser, "whose home (default: all in MEDUSA_DIR)")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the status of homes, once or again and again."""
    return show_status(settings, options.participant, as_json=options.json, every_s=options.watch)
