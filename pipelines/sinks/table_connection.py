"""A connection to a target's database, with its errors as Medusa's.

Nothing here repeats a password: not the parameters, and of the driver's messages only the
server's first sentence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions
from psycopg2.sql import SQL, Composable, Composed

from medusa_core.errors import Conflict, MedusaError, Refused, Unavailable
from pipelines.base.redaction import SafeText

CONNECT_S_MAX = 10
_SQL = Path(__file__).parent / "sql"
_WAITED_FOR = ("08", "28", "3D", "53", "57", "58")
_AGAIN = ("40", "55")


def statement(name: str, **parts: Composable) -> Composed:
    """A statement of `sql/`, its names quoted."""
    return SQL(_text(name)).format(**parts)


@cache
def _text(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text(encoding="utf-8")


class TargetConnection:
    """A connection on which one transaction is made after the other."""

    def __init__(self, address: Mapping[str, str], where: str) -> None:
        self._where = where
        self._safe = SafeText([address.get("password")])
        settings = {
            "connect_timeout": str(CONNECT_S_MAX),
            "application_name": "medusa",
            "client_encoding": "UTF8",
            # A server that is cut off in the middle is noticed.
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "keepalives_count": "3",
            "tcp_user_timeout": "30000",
        }
        with self.errors():
            self._connection = psycopg2.connect(**{**settings, **address})

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor in a transaction that is committed at the end of the block, else undone."""
        with self.errors():
            try:
                with self._connection.cursor() as cursor:
                    cursor.execute(_text("transaction_settings"))
                    yield cursor
                self._connection.commit()
            except BaseException:
                if not self._connection.closed:
                    self._connection.rollback()
                raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise Medusa's errors instead of the driver's."""
        try:
            yield
        except psycopg2.Error as error:
            raise self._error_of(error) from None

    def cancel(self) -> None:
        """Ask the server, from another thread, to give up what it does."""
        if not self._connection.closed:
            # A server that is away gives up by itself.
            with contextlib.suppress(psycopg2.Error):
                self._connection.cancel()

    def close(self) -> None:
        """Let go."""
        self._connection.close()

    def _error_of(self, error: psycopg2.Error) -> MedusaError:
        state, text = error.pgcode or "", self._safe(_sentence(error))
        if not state and isinstance(error, psycopg2.ProgrammingError):
            return Refused(f"{self._where} has a url with an invalid option: {text}")
        if not state or state[:2] in _WAITED_FOR:
            return Unavailable(f"{self._where} cannot be reached now: {text}")
        if state[:2] in _AGAIN:
            return Conflict(f"{self._where} is in use by another transaction: {text}")
        if state == "42501":
            return Refused(f"{self._where} cannot be written by this login ({text}): give it the "
                           "right to")  # fmt: skip
        return Refused(f"{self._where} does not take the rows ({text}): correct the table, or give "
                       "the sink another")  # fmt: skip


def _sentence(error: psycopg2.Error) -> str:
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    return " ".join(text.split())
