"""Commands of a parser, and wrong usage: one sentence with the nearest word, and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn, Protocol

from medusa_core.errors import Refused
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings

SHOWN_LENGTH_MAX = 200


class Command(Protocol):
    """A command: a module that declares its arguments and runs with them.

    `HELP` is its line in the help of all commands. `run` returns the exit code.
    """

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None:
        """Declare positional arguments and options."""

    def run(self, options: argparse.Namespace, settings: Settings, /) -> int:
        """Do what the arguments say, print the result, return the exit code."""


class CommandModules(Mapping[str, Command]):
    """Commands that are modules of a package, each imported when its command is looked up.

    An invocation needs one command: to import all of them takes longer than most commands run.
    """

    def __init__(self, package: str, *names: str) -> None:
        self._modules = {name: f"{package}.{name}" for name in names}

    def __getitem__(self, name: str) -> Command:
        module: Any = import_module(self._modules[name])
        command: Command = module
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


def add_commands(
    parser: argparse.ArgumentParser, commands: Mapping[str, Command], *, dest: str
) -> None:
    """Add a parser for each command, in this order; the options keep its name as `dest`."""
    parsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest=dest)
    for name, command in commands.items():
        command.add_arguments(parsers.add_parser(name, help=command.HELP, description=command.HELP))


class UsageParser(argparse.ArgumentParser):
    """argparse with refusals like all of ours; so are the parsers of its commands."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": _HelpFormatter, **named})

    def error(self, message: str) -> NoReturn:
        """Say it in one sentence, and end."""
        print(f"medusa: {Refused(f'{message} (see {self.prog} --help)')}", file=sys.stderr)
        raise SystemExit(Refused.exit_code)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse, but an unknown option is reported before what is missing because of it."""
        words = sys.argv[1:] if args is None else list(args)
        commands = self.commands()
        for word in words:
            if word == "--" or (commands and not word.startswith("-")):
                break
            if word.startswith("--") and " " not in word:
                self._check_option(word.partition("=")[0])
        return super().parse_known_args(words, namespace)

    def commands(self) -> dict[str, argparse.ArgumentParser]:
        """The parsers of this one's commands, by name; none if it has no commands."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def options(self) -> dict[str, argparse.Action]:
        """Every option in each of its spellings."""
        return dict(self._option_string_actions)

    def positionals(self) -> list[argparse.Action]:
        """What is given without the name of an option, in order."""
        return self._get_positional_actions()

    def _check_option(self, word: str) -> None:
        options = self.options()
        known = [o for o in options if o.startswith("--") and options[o].help != argparse.SUPPRESS]
        # argparse takes any beginning that only one option has, and tells of several.
        if not any(option.startswith(word) for option in options):
            hint = did_you_mean(word, known, f"there is {', '.join(known)}")
            self.error(f"there is no option {_shown(word)}: {hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else list(action.choices)
        if choices is None or value in choices:
            return
        hint = did_you_mean(value, choices, f"write one of {', '.join(map(str, choices))}")
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"there is no command {_shown(value)}: {hint}")
        name = "/".join(action.option_strings) or action.metavar or action.dest
        self.error(f"{name} cannot be {_shown(value)}: {hint}")


class _HelpFormatter(argparse.HelpFormatter):
    """Commands and their sentences stand in one line each, also those with a long name."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            # argparse forgets that commands are indented below their heading.
            longest = max(map(len, action.choices), default=0)
            indented = self._current_indent + self._indent_increment + longest
            self._action_max_length = max(self._action_max_length, indented)


def _shown(word: object) -> str:
    text = repr(word)
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}…"
