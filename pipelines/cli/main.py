"""The command line: parse the arguments, run one command, turn an error into an exit code.

A command is a module of this folder: `HELP`, `add_arguments` and `run`. Its module imports nothing
heavy before it runs: `medusa --help` loads neither Spark nor Arrow. Exit codes are those of
medusa_core.errors; a fault of ours is 70, one sentence, and a log file that holds the trace.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence

from medusa_core.errors import MedusaError
from pipelines.base.settings import Settings
from pipelines.cli import (
    apply,
    changes,
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
    quality,
    quarantine,
    read,
    recall,
    replay,
    run,
    simulate,
    status,
    streams,
    supervise,
    tick,
    trim,
    up,
)
from pipelines.cli import round as market_round
from pipelines.cli.interrupts import interruptible
from pipelines.cli.usage import Command, UsageParser, add_commands

BUG, INTERRUPTED = 70, 130

COMMANDS: Mapping[str, Command] = {
    "demo": demo,
    "replay": replay,
    "generate": generate,
    "streams": streams,
    "read": read,
    "changes": changes,
    "cursor": cursor,
    "quarantine": quarantine,
    "status": status,
    "run": run,
    "job": job,
    "supervise": supervise,
    "tick": tick,
    "apply": apply,
    "simulate": simulate,
    "fault": fault,
    "deliver": deliver,
    "trim": trim,
    "recall": recall,
    "explain": explain,
    "quality": quality,
    "contract": contract,
    "round": market_round,
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
    # Libraries that log an interrupted call would print its trace; we say it in a sentence.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        with interruptible():
            options = parser().parse_args(arguments)
            settings = Settings.from_environment(os.environ)
            return COMMANDS[options.command].run(options, settings)
    except MedusaError as error:
        print(f"medusa: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("medusa: interrupted; what was committed stays", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): not an error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        print(f"medusa: {_bug(error)}", file=sys.stderr)
        return BUG


def _bug(error: Exception) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="medusa-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        traceback.print_exception(error, file=log)
    return f"a fault of Medusa's own ({type(error).__name__}); the trace is in {log.name}"


def parser() -> UsageParser:
    """All commands and their options."""
    top = UsageParser(
        prog="medusa",
        description="Federated, fault-tolerant stream processing: an answer in time, and the right "
        "answer in the end.",
        epilog="MEDUSA_DIR (default .medusa) holds catalog, storage, logs and reports; "
        "MEDUSA_CATALOG_URL names another Postgres.",
    )
    add_commands(top, COMMANDS, dest="command")
    return top


if __name__ == "__main__":
    sys.exit(main())
