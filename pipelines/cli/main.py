"""The command line: parse the arguments, run one command, turn an error into an exit code.

A command is a module of this folder: `HELP`, `add_arguments` and `run`. Its module imports nothing
heavy before it runs: `medusa --help` loads neither Spark nor Arrow. Exit codes are those of
medusa_core.errors (`base/exit_codes.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from pipelines.base.exit_codes import end_of
from pipelines.base.garbage_collection import collect_less_often
from pipelines.base.settings import Settings
from pipelines.cli import (
    apply,
    branch,
    changes,
    check,
    completion,
    contract,
    cursor,
    deliver,
    demo,
    doctor,
    down,
    explain,
    fault,
    generate,
    init,
    job,
    migrate,
    partner,
    quality,
    quarantine,
    read,
    recall,
    recipient,
    replay,
    revise,
    run,
    serve,
    simulate,
    status,
    streams,
    supervise,
    tick,
    trim,
    up,
    view,
)
from pipelines.cli import round as market_round
from pipelines.cli.closed_output import discard_output
from pipelines.cli.interrupts import interruptible
from pipelines.cli.usage import Command, UsageParser, add_commands

COMMANDS: Mapping[str, Command] = {
    "demo": demo,
    "check": check,
    "replay": replay,
    "branch": branch,
    "view": view,
    "generate": generate,
    "streams": streams,
    "read": read,
    "changes": changes,
    "cursor": cursor,
    "quarantine": quarantine,
    "status": status,
    "run": run,
    "serve": serve,
    "job": job,
    "supervise": supervise,
    "tick": tick,
    "apply": apply,
    "simulate": simulate,
    "fault": fault,
    "deliver": deliver,
    "trim": trim,
    "recall": recall,
    "revise": revise,
    "explain": explain,
    "quality": quality,
    "contract": contract,
    "round": market_round,
    "partner": partner,
    "recipient": recipient,
    "migrate": migrate,
    "init": init,
    "completion": completion,
    "up": up,
    "down": down,
    "doctor": doctor,
}
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
            options = parser().parse_args(arguments)
            settings = Settings.from_environment()
            return COMMANDS[options.command].run(options, settings)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): not an error, and nothing more to say.
        discard_output()
        return 0


def parser() -> UsageParser:
    """All commands and their options."""
    top = UsageParser(
        prog="medusa",
        description="Federated, fault-tolerant stream processing: an answer in time, and the right "
        "answer in the end.",
        epilog="MEDUSA_DIR (default .medusa) holds catalog, storage, logs and reports; "
        "MEDUSA_CATALOG_URL names another Postgres.",
    )
    top.add_argument("--version", action="version", version=f"medusa {version('medusa')}")
    add_commands(top, COMMANDS, dest="command")
    return top


if __name__ == "__main__":
    sys.exit(main())
