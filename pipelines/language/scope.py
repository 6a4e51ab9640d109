"""The names that an expression may use, with their owners, and the error for other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.language import coercion
from pipelines.language.compiled_terms import SQL_LENGTH_MAX, Compiled, Term
from pipelines.language.parsing import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What an expression may name, and who it belongs to (for the sentence when it is refused)."""

    where: str
    text: str
    columns: Mapping[str, Column]
    tolerance_only: frozenset[str] = frozenset()

    def refused(self, reason: str) -> Refused:
        """The error that names the owner, the expression and the reason."""
        return Refused(f"{self.where}: {quoted(self.text)} {reason}")


def finished(scope: Scope, term: Term) -> Compiled:
    """A term as the value of a column; refuses types that no column can have."""
    if term.type == coercion.VOID:
        raise scope.refused("is NULL of no type: write cast(NULL AS bigint)")
    if coercion.is_array(term.type):
        raise scope.refused("is an array, which no column can be: use array_join or size")
    if len(term.sql) + len(term.failure.condition if term.failure else "") > SQL_LENGTH_MAX:
        raise scope.refused("is too long when compiled: split it over two boxes")
    return Compiled(
        sql=term.sql, type=term.type, failure=term.failure, tolerance_only=term.tolerance_only
    )


def article(type_: str) -> str:
    """A type with its article, for sentences."""
    if type_ == coercion.VOID:
        return "a bare NULL"
    return f"an {type_}" if type_[0] in "aiou" else f"a {type_}"
