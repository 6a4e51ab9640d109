"""What the database says no with, as Medusa's errors: the one place that knows SQLSTATEs.

A message of our own functions is one sentence already and passes as it is; the database's own are
put into one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
from sqlalchemy.exc import DBAPIError

from medusa_core.errors import (
    Conflict,
    Diverged,
    Expired,
    MedusaError,
    OutcomeUnknown,
    Refused,
    Unavailable,
)

_OURS: dict[str, type[MedusaError]] = {
    "MD001": Refused,
    "MD002": Conflict,
    "MD006": Diverged,
    "MD007": Expired,
    "MDS01": Refused,
    "MDS02": Refused,
    "MDS07": Refused,
    "MDS08": Conflict,
    "MDLOG": Refused,
}
_OF_POSTGRES: dict[str, tuple[type[MedusaError], str]] = {
    "23P01": (Conflict, "live segments of one line never overlap (S3): read again"),
    "2BP01": (Refused, "other objects depend on what is replaced: drop them first"),
    "25006": (Refused, "this transaction reads a snapshot and cannot write: begin another"),
    "25P02": (Refused, "this transaction has failed: end it first"),
    "40001": (Conflict, "another transaction was first: read again"),
    "40P01": (Conflict, "two transactions waited for each other: try again"),
    "42501": (Refused, "this login has no right to do that: use the role that has"),
    "53100": (Unavailable, "the catalog's disk is full: free some space"),
    "55P03": (Unavailable, "another transaction has not let go of what is needed: try later"),
    "53300": (Unavailable, "the catalog has no connection left: try later"),
}
_CLASSES: dict[str, tuple[type[MedusaError], str]] = {
    "22": (Refused, "the catalog cannot hold that value: correct it"),
    "23": (Refused, "the catalog's constraints forbid it: correct it"),
    "28": (Unavailable, "the catalog does not accept this login: check its URL"),
    "3D": (Unavailable, "there is no such database: create the home first"),
    "57": (Unavailable, "the catalog is stopping or was told to: try later"),
}


def error_of(error: psycopg2.Error, *, committing: bool = False) -> MedusaError | None:
    """The error to raise for one of the driver's, or None for what would be a bug of ours.

    `committing`: if the connection broke, the commit may have been made all the same.
    """
    state = error.pgcode
    if state is None or state[:2] in ("08", "57") or state == "25P03":
        if isinstance(error, psycopg2.ProgrammingError) and "dsn" in str(error):
            return Refused(f"the catalog's URL cannot be used ({_sentence(error)}): correct it")
        if not isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
            return None
        if committing:
            return OutcomeUnknown(
                "the connection to the catalog broke during a commit: send the same commit again"
            )
        return Unavailable(f"the catalog cannot be reached: {_sentence(error)}")
    return _error_of_state(state, _sentence(error))


def error_of_answer(state: str, message: str) -> MedusaError | None:
    """The like for one of several requests that were answered together, as its answer tells it."""
    return _error_of_state(state, " ".join(message.split()))


def _error_of_state(state: str, sentence: str) -> MedusaError | None:
    if state in _OURS:
        return _OURS[state](sentence)
    kind, what = _OF_POSTGRES.get(state) or _CLASSES.get(state[:2]) or (None, "")
    return kind(f"{what} ({sentence})") if kind else None


@contextmanager
def errors_of_catalog(*, committing: bool = False) -> Iterator[None]:
    """Raise Medusa's errors instead of the driver's."""
    try:
        yield
    except DBAPIError as error:
        cause = error.orig
        ours = error_of(cause, committing=committing) if isinstance(cause, psycopg2.Error) else None
        if ours is None:
            raise
        raise ours from None
    except psycopg2.Error as error:
        ours = error_of(error, committing=committing)
        if ours is None:
            raise
        raise ours from None


def _sentence(error: psycopg2.Error) -> str:
    diagnosis = error.diag
    text = diagnosis.message_primary or str(error).strip() or type(error).__name__
    if error.pgcode == "2BP01" and diagnosis.message_detail:
        text = diagnosis.message_detail  # it names what depends on it
    return " ".join(text.split())
