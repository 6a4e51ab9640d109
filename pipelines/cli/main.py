"""The command line: parse the arguments, run one command, turn an error into an exit code.

A command is a module of this folder: `HELP`, `add_arguments` and `run`. Its module imports nothing
heavy before it runs: `medusa --help` loads neither Spark nor Arrow. An invocation that names a
command imports the module of that command alone. Exit codes are those of medusa_core.errors
(`base/exit_codes.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from pipelines.base.exit_codes import end_of
from pipelines.base.garbage_collection import collect_less_often
from pipelines.base.settings import Settings
from pipelines.cli.closed_output import discard_output
from pipelines.cli.interrupts import interruptible
from pipelines.cli.usage import Command, CommandModules, UsageParser, add_commands

COMMANDS: Mapping[str, Command] = CommandModules(
    "pipelines.cli",
    "demo", "check", "replay", "branch", "view", "generate", "streams", "read", "changes",
    "cursor", "quarantine", "status", "run", "serve", "job", "supervise", "tick", "apply",
    "simulate", "fault", "deliver", "trim", "recall", "revise", "explain", "drops", "quality",
    "contract", "advise", "market", "round", "move", "calibrate", "settle", "statement", "ledger",
    "dispute",
    "partner", "recipient", "migrate", "init", "completion", "up", "down", "doctor",
)  # fmt: skip
"""All commands, in the order of `medusa --help`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    collect_less_often()
    ending = end_of(lambda: _run(arguments))
    if ending.sentence is not None:
        print(f"medusa: {ending.sentence}", file=sys.stderr)
    return ending.exit_code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        with interruptible():
            words = sys.argv[1:] if arguments is None else list(arguments)
            options = parser(words[0] if words else None).parse_args(words)
            settings = Settings.from_environment()
            return COMMANDS[options.command].run(options, settings)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): not an error, and nothing more to say.
        discard_output()
        return 0


def parser(only: str | None = None) -> UsageParser:
    """All commands and their options; if a command is named, only that command."""
    top = UsageParser(
        prog="medusa",
        description="Federated, fault-tolerant stream processing: an answer in time, and the right "
        "answer in the end.",
        epilog="MEDUSA_DIR (default .medusa) holds catalog, storage, logs and reports; "
        "MEDUSA_CATALOG_URL names another Postgres.",
    )
    if only is not None and only in COMMANDS:
        add_commands(top, {only: COMMANDS[only]}, dest="command")
        return top
    from importlib.metadata import version

    top.add_argument("--version", action="version", version=f"medusa {version('medusa')}")
    add_commands(top, COMMANDS, dest="command")
    return top


if __name__ == "__main__":
    sys.exit(main())
