"""Medusa's errors as Airflow's: only what may go better by itself is tried again."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from medusa_core.errors import Conflict, MedusaError, OutcomeUnknown, Unavailable


def airflow_error(error: MedusaError) -> AirflowException:
    """The same sentence; retried for Conflict, Unavailable and OutcomeUnknown, else failed."""
    if isinstance(error, Conflict | Unavailable | OutcomeUnknown):
        return AirflowException(str(error))
    return AirflowFailException(str(error))
