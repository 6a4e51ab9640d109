"""`medusa completion SHELL`: a script that asks this program what may come next on the line.

The scripts know nothing of Medusa but how to ask (`medusa completion --words =WORD…`), so they do
not age. Each word has a `=` before it, so that none is taken for an option. The answer is one
candidate a line; a line `:files` says that files may come too.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.cli.completion_names import Names
from pipelines.cli.completion_words import suggest
from pipelines.cli.usage import UsageParser

HELP = "print the completion script of a shell"
SHELLS = ("bash", "zsh", "fish")
FILES = ":files"
_SCRIPTS = Path(__file__).with_name("templates") / "completion"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa completion`."""
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.add_argument("--words", nargs="*", help=argparse.SUPPRESS)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the script of a shell, or the candidates for a word."""
    from pipelines.cli.main import parser

    return run_completion(parser(), settings, shell=options.shell, words=options.words)


def run_completion(
    parser: UsageParser, settings: Settings, *, shell: str | None, words: Sequence[str] | None
) -> int:
    """Print the script of a shell, or what may stand in the place of the last of the words."""
    if words is None:
        if shell is None:
            raise Refused("name the shell: medusa completion bash, zsh or fish")
        print((_SCRIPTS / f"medusa.{shell}").read_text(encoding="utf-8"), end="")
        return 0
    typed = [word.removeprefix("=") for word in words] or [""]
    suggested = suggest(parser, typed, Names(settings.directory, Path("contracts")))
    lines = [*suggested.words, *([FILES] if suggested.files else [])]
    print("".join(f"{line}\n" for line in lines), end="")
    return 0
