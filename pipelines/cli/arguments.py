"""Arguments that several commands share: their types, and the options of the same meaning."""

from __future__ import annotations

import argparse
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from pipelines.base.time_text import parse_time_us

WHOSE_HOME = "whose home (default: the only one)"


def positive(text: str) -> int:
    """A whole number above zero; underscores may group its digits."""
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = 0
    if not 0 < number < 2**62:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return number


def port(text: str) -> int:
    """A port of TCP."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    if not 0 < number < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 1 to 65535")
    return number


def seconds(text: str) -> float:
    """A number of seconds above zero, at most a day."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, at most a day")
    return number


def amount(text: str) -> float:
    """A number of 0 or more, such as a price."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return number


def add_home(parser: argparse.ArgumentParser, text: str = WHOSE_HOME) -> None:
    """Add `--participant`, which chooses among the homes of the folder."""
    parser.add_argument("--participant", metavar="P", help=text)


def add_statement(parser: argparse.ArgumentParser) -> None:
    """The statement that is disputed, and whose home it is in."""
    parser.add_argument("contract", metavar="CONTRACT", help="whose statement is disputed")
    parser.add_argument("period", metavar="PERIOD", type=positive, help="the period, such as 3")
    add_home(parser)


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add `--json`, which prints the result as one document."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_hold(parser: argparse.ArgumentParser) -> None:
    """Add `--hold`, the time for which a cursor protects its changes from trims."""
    hold = "for how long a cursor keeps what it needs from being trimmed (default: 7d)"
    parser.add_argument("--hold", metavar="DURATION", default="7d", help=hold)


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that drive a participant: `run` and `tick`."""
    lease = "how long a lease lasts (default: 10); it is renewed in time"
    parser.add_argument("--lease", type=seconds, default=10.0, metavar="SECONDS", help=lease)
    parser.add_argument("--records-per-step-max", type=positive, default=None, metavar="N")
    capacity = "seconds of steps per second above which records are dropped by QoS (default: 1)"
    parser.add_argument("--capacity", type=amount, default=1.0, metavar="LOAD", help=capacity)
    parser.add_argument(
        "--explain", action="store_true", help="print what would be decided, change nothing"
    )
    add_home(parser, "who (default: the only one)")


def add_contracts(parser: argparse.ArgumentParser) -> None:
    """Add `--contracts`, the folder that holds them."""
    folder = "the contracts folder (default: contracts)"
    parser.add_argument(
        "--contracts", type=Path, default=Path("contracts"), metavar="DIR", help=folder
    )


def event_times(from_: str | None, to: str | None) -> Range:
    """The event times of `--from` and `--to`; Refused for an invalid time or an empty range."""
    from_us = BEGINNING_US if from_ is None else parse_time_us("--from", from_)
    to_us = FOREVER_US if to is None else parse_time_us("--to", to)
    if from_us >= to_us:
        raise Refused(f"--from {from_} is not before --to {to}: --to is exclusive")
    return Range(from_us, to_us)
