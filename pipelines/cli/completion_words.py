"""Completions of a command line, from its parser.

The metavar of an argument (STREAM, P, NETWORK, FILE, DIR) says which names it takes, so a new
command is completed as soon as it is declared.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.cli.completion_names import Names
from pipelines.cli.usage import UsageParser


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """Candidates for one word; `files`: the shell's own completion of paths may add to them."""

    words: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the last word stands: in which parser, behind which words, as the value of what."""

    parser: argparse.ArgumentParser
    taking: argparse.Action | None
    positionals: int
    seen: frozenset[str]


def suggest(parser: UsageParser, words: Sequence[str], names: Names) -> Suggested:
    """What may stand in the place of the last word, which may be begun or empty."""
    *before, current = _joined(words)
    place = _place(parser, before)
    if place is None:
        return Suggested()
    if place.taking is not None:
        return _values(place.taking, current, names)
    if current.startswith("-"):
        option, equals, begun = current.partition("=")
        if not equals:
            return Suggested(words=_options(place, current))
        action = place.parser._option_string_actions.get(option)
        if action is None:
            return Suggested()
        found = _values(action, begun, names)
        return Suggested(words=tuple(f"{option}={word}" for word in found.words))
    if isinstance(place.parser, UsageParser) and (commands := place.parser.commands()):
        return Suggested(words=_beginning(commands, current))
    positionals = place.parser._get_positional_actions()
    if not positionals:
        return Suggested(words=_options(place, current))
    last = positionals[-1]
    if place.positionals < len(positionals):
        return _values(positionals[place.positionals], current, names)
    return _values(last, current, names) if last.nargs in ("*", "+") else Suggested()


def _joined(words: Sequence[str]) -> list[str]:
    """bash gives `--name=value` as three words; an option's value is a word of its own here."""
    joined: list[str] = []
    for number, word in enumerate(words):
        is_sign = word == "=" and joined and joined[-1].startswith("--")
        if is_sign and number < len(words) - 1:
            continue
        joined.append("" if is_sign else word)
    return joined


def _place(parser: argparse.ArgumentParser, before: Sequence[str]) -> _Place | None:
    taking: argparse.Action | None = None
    positionals, seen = 0, set[str]()
    for word in before:
        if word.startswith("--"):
            option, equals, _ = word.partition("=")
            seen.add(option)
            action = parser._option_string_actions.get(option)
            takes = action is not None and action.nargs != 0 and not equals
            taking = action if takes else None
        elif taking is not None:
            taking = taking if taking.nargs in ("*", "+") else None
        elif isinstance(parser, UsageParser) and (commands := parser.commands()):
            if word not in commands:
                return None
            parser = commands[word]
        else:
            positionals += 1
    return _Place(parser=parser, taking=taking, positionals=positionals, seen=frozenset(seen))


def _options(place: _Place, begun: str) -> tuple[str, ...]:
    options = {
        option: action
        for option, action in place.parser._option_string_actions.items()
        if option.startswith("--") and action.help != argparse.SUPPRESS
    }
    again = {option for option, a in options.items() if isinstance(a, argparse._AppendAction)}
    return _beginning(options.keys() - (place.seen - again), begun)


def _values(action: argparse.Action, begun: str, names: Names) -> Suggested:
    if action.choices is not None:
        return Suggested(words=_beginning(map(str, action.choices), begun))
    match action.metavar:
        case "P":
            return Suggested(words=_beginning(names.participants(), begun))
        case "STREAM":
            return Suggested(words=_beginning(names.streams(), begun))
        case "NETWORK":
            return Suggested(words=_beginning(names.networks(), begun), files=True)
        case str() as metavar if metavar.endswith(("FILE", "DIR")):
            return Suggested(files=True)
        case _:
            return Suggested()


def _beginning(words: Iterable[str], begun: str) -> tuple[str, ...]:
    return tuple(sorted(word for word in set(words) if word.startswith(begun)))
