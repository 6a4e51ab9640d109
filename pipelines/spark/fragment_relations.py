"""The relations of a fragment in SQL, by name: which read which, and which are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.spark.compiled_fragment import Statement


@dataclass
class Relations:
    """Relations in an order in which each reads only earlier ones.

    Those that are `kept` are statements of their own, in order; `filtered` has of a relation that
    only filters another one that other and the predicate.
    """

    sql: dict[str, str] = field(default_factory=dict)
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    filtered: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, name: str, sql: str, *reads: str) -> None:
        """A relation, and those that it reads."""
        self.sql[name], self.reads[name] = sql, reads

    def with_clause(self, *names: str) -> str:
        """The WITH clause that these relations need."""
        needed: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in needed or name in self.kept:
                return
            for read in self.reads[name]:
                visit(read)
            needed[name] = None

        for name in names:
            visit(name)
        parts = [f"{name} AS ({self.sql[name]})" for name in needed]
        return f"WITH {', '.join(parts)} " if parts else ""

    def keep(self, name: str) -> None:
        """Make the relation a statement of its own, computed once."""
        self.statements.append(Statement(name, f"{self.with_clause(name)}SELECT * FROM {name}"))
        self.kept.add(name)

    def unfiltered(self, relation: str) -> tuple[str, list[str]]:
        """What lies before the last filters of a relation, and these."""
        predicates: list[str] = []
        while relation in self.filtered and relation not in self.kept:
            relation, predicate = self.filtered[relation]
            predicates.append(predicate)
        return relation, predicates


def rows_where(relation: str, predicate: str) -> str:
    """The rows of a relation that fulfil a predicate, as what follows FROM.

    The alias is needed: Spark reads `x WHERE (y)` as the relation x under the alias WHERE, whose
    one column is named y.
    """
    return f"{relation} AS {relation} WHERE {predicate}"


def all_of(predicates: Sequence[str]) -> str:
    """The conjunction of predicates; TRUE if there is none."""
    return " AND ".join(f"({p})" for p in predicates) or "TRUE"
