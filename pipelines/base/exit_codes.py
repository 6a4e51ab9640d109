"""The end of a process: its exit code, and one sentence for an error or an interrupt."""

from __future__ import annotations

import logging
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from medusa_core.errors import MedusaError

BUG, INTERRUPTED = 70, 130


@dataclass(frozen=True, slots=True)
class Ending:
    """An exit code, and the sentence that explains it; None if nothing went wrong."""

    exit_code: int
    sentence: str | None = None


def end_of(action: Callable[[], int]) -> Ending:
    """Run an action that returns an exit code, and turn what it raises into an ending.

    An error of `medusa_core.errors` has an exit code of its own. Any other is a bug: its trace is
    written to a file that the sentence names.
    """
    # Without a handler, libraries print the trace of a call that was interrupted.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        return Ending(action())
    except MedusaError as error:
        if is_of_an_interrupt(error):
            return _INTERRUPT
        return Ending(error.exit_code, str(error))
    except KeyboardInterrupt:
        return _INTERRUPT
    except Exception as error:  # noqa: BLE001 the outermost line of a process
        return Ending(BUG, _bug(error))


_INTERRUPT = Ending(INTERRUPTED, "interrupted; what was committed stays")


def is_of_an_interrupt(error: BaseException | None) -> bool:
    """Whether an error is an interrupt, or was raised while one was handled.

    PySpark, which is interrupted in a job, first reads what became of it: a broken pipe.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _bug(error: Exception) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="medusa-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        traceback.print_exception(error, file=log)
    return f"an internal error of Medusa ({type(error).__name__}); the trace is in {log.name}"
