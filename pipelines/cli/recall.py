"""`medusa recall`: take back what is final of a stream, from a bucket on, with all that it led to.

What would go is printed first; without --yes a terminal is asked, and nothing else may go on.
"""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.names import Participant, check_name
from medusa_core.recalls import (
    BECAUSE_CHARACTERS_MAX,
    WHO_CHARACTERS_MAX,
    LineRecall,
    Recalled,
    RecallWanted,
    check_text,
)
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import counted, iso, parse_time_us
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.catalog.records import LineStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for, as written."""

    stream: str
    begins: str
    because: str | None = None
    follow: str | None = None
    explain: bool = False
    yes: bool = False
    as_json: bool = False


def run_recall(settings: Settings, participant: str | None, asked: Asked) -> int:
    """Recall in a home, or tell what would be recalled."""
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.participant.recalling import check_begin, line_to_recall, total_rows, with_needs

    from_us = parse_time_us("--from", asked.begins)
    follow = None if asked.follow is None else Participant(check_name("partner", asked.follow))
    if asked.because is None and follow is None:
        raise Refused("say why it is taken back, for those who read it: --because TEXT")
    if asked.because is not None:
        check_text("--because", asked.because, BECAUSE_CHARACTERS_MAX)
    here = chosen_participant(settings, participant)
    with ExitStack() as stack:
        home = stack.enter_context(open_home(settings, here, as_owner=True))
        catalog = home.catalog
        line = line_to_recall(catalog, asked.stream, follow)
        check_begin(line, from_us, is_followed=follow is not None)
        told = None if follow is None else _told_by_partner(settings, here, stack, line, from_us)
        wanted = RecallWanted(
            stream=line.stream.name,
            producer=line.producer,
            from_us=from_us,
            because=asked.because or _because_of(line, told),
            who=_who(),
            follows=None if told is None else told.generation,
        )
        wanted = with_needs(catalog, wanted)
        plan = catalog.recall(wanted, explain=True)
        if asked.explain:
            _show(home.participant, wanted, plan, told, asked, done=False)
            return 0
        if not asked.yes:
            if not sys.stdin.isatty():
                raise Refused(
                    f"recalling {line.stream.name} takes back {counted(total_rows(plan), 'row')} "
                    "that were final: look with --explain, then give --yes"
                )
            print(_plan_text(plan))
            if not _is_agreed():
                print("nothing was changed")
                return 0
        done = catalog.recall(wanted)
        _show(home.participant, wanted, done, told, asked, done=True)
    return 0


def _told_by_partner(
    settings: Settings, here: Participant, stack: ExitStack, line: LineStatus, from_us: int
) -> LineRecall:
    """The recall that the partner tells of; Refused if it reaches further back than is agreed."""
    from pipelines.exchange.in_process import LocalExchange
    from pipelines.participant.home_session import take_seat
    from pipelines.participant.recalling import recall_of
    from pipelines.platform.drills.fault_injected_links import DrilledWays

    seat = stack.enter_context(take_seat(settings, here))
    exchange = LocalExchange(here, seat.partners, DrilledWays(settings.directory, here))
    stack.callback(exchange.close)
    told = recall_of(exchange, line)
    if told.from_us < from_us:
        partner = line.producer.participant
        raise Refused(
            f"partner {partner} recalled {line.stream.name} from {iso(told.from_us)} on "
            f"(generation {told.generation}: {told.because}): give --from {iso(told.from_us)}"
        )
    return told


def _is_agreed() -> bool:
    try:
        return input("take this back? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _because_of(line: LineStatus, told: LineRecall | None) -> str:
    assert told is not None, "a recall of one's own says why"
    return f"{line.producer.participant}: {told.because}"[:BECAUSE_CHARACTERS_MAX]


def _who() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = ""
    shown = "".join(c for c in name if c.isprintable())[:WHO_CHARACTERS_MAX].strip()
    return shown or "operator"


# ------------------------------------------------------------ telling


def _show(
    participant: Participant,
    wanted: RecallWanted,
    recalled: Sequence[Recalled],
    told: LineRecall | None,
    asked: Asked,
    *,
    done: bool,
) -> None:
    from pipelines.participant.recalling import total_rows

    if asked.as_json:
        document: Mapping[str, Any] = {
            "participant": participant,
            "explained": not done,
            "because": wanted.because,
            "who": wanted.who,
            "follows": wanted.follows,
            "lines": [_document(one) for one in recalled],
        }
        print(json.dumps(document, indent=1, allow_nan=False))
        return
    print(_plan_text(recalled))
    print()
    if any(r.from_us > wanted.from_us for r in recalled):
        print("what lies before these buckets stays: it is trimmed here, or what it was made of is")
    if not done:
        print("nothing was changed")
    elif told is not None:
        print("agreed: it is taken back when the partner's news comes")
    else:
        print(f"taken back: {counted(total_rows(recalled), 'row')}; computed again from here on")


def _plan_text(recalled: Sequence[Recalled]) -> str:
    names = ("stream", "producer", "from", "generation", "segments", "rows")
    rows = [
        (r.stream, str(r.producer), iso(r.from_us), str(r.generation), r.segments, r.rows)
        for r in recalled
    ]
    return table(names, rows)


def _document(one: Recalled) -> Mapping[str, Any]:
    return {
        "stream": one.stream,
        "producer": str(one.producer),
        "generation": one.generation,
        "from_us": one.from_us,
        "from": iso(one.from_us),
        "version": one.version,
        "segments": one.segments,
        "rows": one.rows,
    }


HELP = "take back what is final of a stream, with all that it led to"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa recall`."""
    parser.add_argument("stream", metavar="STREAM", help="which")
    begins = "from which bucket on: ISO 8601 or Unix seconds"
    parser.add_argument("--from", dest="from_", metavar="TIME", required=True, help=begins)
    why = "why, in a sentence; it is kept, and told to those who read the stream"
    parser.add_argument("--because", metavar="TEXT", help=why)
    partner = "agree to what this partner recalled of it, and go on reading behind"
    parser.add_argument("--follow", metavar="P", help=partner)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--explain", action="store_true", help="print what would go, change nothing"
    )
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Recall final rows of a stream."""
    asked = Asked(
        stream=options.stream,
        begins=options.from_,
        because=options.because,
        follow=options.follow,
        explain=options.explain,
        yes=options.yes,
        as_json=options.json,
    )
    return run_recall(settings, options.participant, asked)
