"""Medusa's errors as Airflow's: retried if they may pass by themselves, and logged as sentences."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from medusa_core.errors import Conflict, MedusaError, OutcomeUnknown, Unavailable


class PassingFailure(AirflowException):
    """A failure that may pass by itself: the task is retried."""


class FinalFailure(AirflowFailException):
    """A failure that lasts until somebody acts: the task is not retried."""


def airflow_error(error: MedusaError) -> AirflowException:
    """The same sentence; retried for Conflict, Unavailable and OutcomeUnknown, else failed."""
    if isinstance(error, Conflict | Unavailable | OutcomeUnknown):
        return PassingFailure(str(error))
    return FinalFailure(str(error))


def log_failures_as_sentences() -> None:
    """Make this process log these failures without the frames of Airflow's own code.

    Airflow logs each failed task with a traceback. Of an error that Medusa expects, it says nothing
    that the sentence does not. Where Airflow has other processors, the traceback stays.
    """
    import structlog

    processors = structlog.get_config()["processors"]
    if isinstance(processors, list) and _sentence_alone not in processors:
        processors.insert(0, _sentence_alone)


def _sentence_alone(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A processor of structlog."""
    error = sys.exc_info()[1] if event.get("exc_info") is True else event.get("exc_info")
    if isinstance(error, PassingFailure | FinalFailure):
        del event["exc_info"]
        event["event"] = str(error)
    return event
