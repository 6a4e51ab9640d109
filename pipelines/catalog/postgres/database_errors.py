"""The errors of a database as Medusa's errors: the one module that knows SQLSTATEs.

The rule is by class, not by list. An error that our own functions raise (`MD…`) keeps its
meaning. An error about the values of a request (class 22, 23, 25, and 42501) is Refused. Every
other error, also one without a SQLSTATE, says that the database cannot do it now: Unavailable. If
the session was lost during a commit, its outcome is unknown: OutcomeUnknown.

A message of our own functions is one sentence already and is kept; the database's own are put
into one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg2
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from medusa_core.errors import (
    Conflict,
    Diverged,
    Expired,
    MedusaError,
    OutcomeUnknown,
    Refused,
    Unavailable,
)

CATALOG = "the catalog"
_OURS: dict[str, type[MedusaError]] = {
    "MD001": Refused,
    "MD002": Conflict,
    "MD006": Diverged,
    "MD007": Expired,
    "MDS01": Refused,
    "MDS02": Refused,
    "MDS07": Refused,
    "MDS08": Conflict,
    "MDS13": Refused,
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
    "53300": (Unavailable, "the catalog has no connection left: try later"),
    "55P03": (Unavailable, "another transaction holds a lock that is needed: try later"),
    "57014": (Unavailable, "the catalog does not answer in time: try later"),
}
_CLASSES: dict[str, tuple[type[MedusaError], str]] = {
    "22": (Refused, "the catalog cannot hold that value: correct it"),
    "23": (Refused, "the catalog's constraints forbid it: correct it"),
    "28": (Unavailable, "the catalog does not accept this login: check its URL"),
    "3D": (Unavailable, "there is no such database: create the home first"),
    "3F": (Unavailable, "the catalog is not complete: run medusa migrate for its participant"),
    "42": (Unavailable, "the catalog is not complete: run medusa migrate for its participant"),
    "53": (Unavailable, "the catalog has no memory or other resources left: raise its limits"),
    "57": (Unavailable, "the catalog is stopping: try later"),
}
_UNKNOWN = "the catalog cannot do this now, error {state}: look into its server's log"
_SESSION_ENDS = ("FATAL", "PANIC")


def error_of(
    error: psycopg2.Error, *, committing: bool = False, of: str = CATALOG, is_quoted: bool = True
) -> MedusaError | None:
    """The error to raise for one of the driver's; None for a mistake of ours that it found itself.

    `committing`: if the session was lost, the commit may have been made all the same. `of` names
    the database. `is_quoted`: the sentence ends with the database's own words, which name hosts,
    logins and tables.
    """
    state, sentence = error.pgcode, _sentence(error)
    if state is None and isinstance(error, psycopg2.ProgrammingError | psycopg2.NotSupportedError):
        # Nothing was sent: the URL is wrong, or else our call is.
        if "dsn" not in str(error):
            return None
        return Refused(f"the URL of {of} cannot be used ({sentence}): correct it")
    if _is_lost(error):
        if committing:
            return OutcomeUnknown(
                f"the connection to {of} broke during a commit: send the same commit again"
            )
        if state is None or state[:2] == "08":
            return Unavailable(f"{of} cannot be reached" + (f": {sentence}" if is_quoted else ""))
    return error_of_answer(state or "none", sentence, of=of, is_quoted=is_quoted)


def error_of_answer(
    state: str, message: str, *, of: str = CATALOG, is_quoted: bool = True
) -> MedusaError:
    """The error for a SQLSTATE and message, as an answer to several requests carries them."""
    sentence = " ".join(message.split())
    if state in _OURS:
        return _OURS[state](sentence)
    kind, what = _OF_POSTGRES.get(state) or _CLASSES.get(state[:2]) or (Unavailable, _UNKNOWN)
    what = what.format(state=state).replace(CATALOG, of)
    return kind(f"{what} ({sentence})" if is_quoted else what)


def _is_lost(error: psycopg2.Error) -> bool:
    """Whether the session has ended with this error, so that no answer follows."""
    state = error.pgcode
    if state is None or state[:2] in ("08", "57") or state == "25P03":
        return True
    return error.diag.severity_nonlocalized in _SESSION_ENDS


def errors_of_catalog(
    *, committing: bool = False, is_quoted: bool = True
) -> AbstractContextManager[None]:
    """Raise Medusa's errors instead of those of this home's database."""

    def ours_of(error: psycopg2.Error) -> MedusaError | None:
        return error_of(error, committing=committing, is_quoted=is_quoted)

    return _translated(ours_of, CATALOG)


@contextmanager
def _translated(ours_of: Callable[[psycopg2.Error], MedusaError | None], of: str) -> Iterator[None]:
    try:
        yield
    except (DBAPIError, psycopg2.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        ours = ours_of(cause) if isinstance(cause, psycopg2.Error) else None
        if ours is None:
            raise
        raise ours from None
    except NoConnectionFree:
        raise Unavailable(
            f"all connections of this program to {of} are in use: try later"
        ) from None
    except RecursionError:
        # The driver decodes JSON while it reads the answer.
        raise Unavailable(
            f"{of} answers with a document that is nested too deeply: look at what it holds"
        ) from None


def _sentence(error: psycopg2.Error) -> str:
    diagnosis = error.diag
    text = diagnosis.message_primary or str(error).strip() or type(error).__name__
    if error.pgcode == "2BP01" and diagnosis.message_detail:
        text = diagnosis.message_detail  # it names what depends on it
    return " ".join(text.split())
