"""A compiled fragment as one query of DuckDB, for kernels.

The form that is translated is that of `pipelines.spark.compiler`, in which nothing raises: what may
overflow has its `try_` form, and what failed has a tag of its own. What has no translation
(`kernel_expressions.py`) is NotInKernel, with the reason: then Spark SQL computes the fragment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from medusa_core.columns import Column
from medusa_core.names import StreamName
from pipelines.spark.compiled_fragment import TAG, CompiledFragment, input_view
from pipelines.spark.kernel_expressions import (
    NULL,
    Columns,
    NotInKernel,
    Scope,
    Value,
    duckdb_type,
    quoted,
)
from pipelines.storage.arrow_schema import STIME


@dataclass(frozen=True, slots=True)
class KernelSql:
    """A query over one relation for each view in `inputs`, which gives the tagged relation.

    `columns` are those of the tagged relation, with their types.
    """

    sql: str
    inputs: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]


def kernel_sql(
    compiled: CompiledFragment, inputs: Mapping[StreamName, Sequence[Column]]
) -> KernelSql:
    """The fragment's statements as one query. Raises NotInKernel."""
    if compiled.aggregates:
        raise NotInKernel("it calls an aggregate function of the user")
    relations: dict[str, Columns] = {}
    named: dict[str, tuple[str, Sequence[Column]]] = {
        **{input_view(stream): (stream, columns) for stream, columns in inputs.items()},
        **{view: (view, columns) for view, columns in compiled.left_views.items()},
    }
    for view, (name, columns) in named.items():
        for column in columns:
            if duckdb_type(column.type) is None:
                raise NotInKernel(f"column {column.name} of {name} is of type {column.type}")
        relations[view.lower()] = {c.name.lower(): c.type for c in columns} | {STIME: "bigint"}
    views: list[str] = []
    for statement in compiled.statements:
        if statement.function is not None:
            raise NotInKernel("it calls a Function")
        sql, columns_of = _Query(dict(relations)).query(_parsed(statement.sql))
        relations[statement.view.lower()] = _typed(columns_of)
        views.append(f"{quoted(statement.view)} AS MATERIALIZED ({sql})")
    sql, tagged = _Query(dict(relations)).query(_parsed(compiled.sql))
    if views:
        sql = f"WITH {', '.join(views)} SELECT * FROM ({sql})"
    return KernelSql(sql, tuple(named), tuple(_typed(tagged).items()))


def _parsed(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, dialect="spark")


@dataclass
class _Query:
    """Translates queries; `relations` are those that they may read, by name."""

    relations: dict[str, Columns]

    def query(self, node: exp.Expr, types: Sequence[str] = ()) -> tuple[str, Columns]:
        """A query and the columns that it gives; `types` are those of each NULL without one."""
        with_ = node.args.get("with_")
        clauses = []
        if with_ is not None:
            for cte in with_.expressions:
                sql, columns = self.query(cte.this)
                clauses.append(f"{quoted(cte.alias)} AS ({sql})")
                self.relations[cte.alias.lower()] = _typed(columns)
        match node:
            case exp.Union():
                if node.args.get("distinct"):
                    raise NotInKernel("it has a UNION that removes duplicates")
                sql, columns = self.union(node)
            case exp.Select():
                sql, columns = self.select(node, types)
            case exp.Subquery():
                sql, columns = self.query(node.this, types)
            case _:
                raise NotInKernel(f"it has {node.key.upper()}")
        return (f"WITH {', '.join(clauses)} {sql}" if clauses else sql), columns

    def union(self, node: exp.Union) -> tuple[str, Columns]:
        """UNION ALL of queries with equal types; the names are those of the first."""
        nodes = list(_parts(node))
        parts = [_Query(self.relations).query(part) for part in nodes]
        if len({len(columns) for _, columns in parts}) > 1:
            raise NotInKernel("it unites relations of different numbers of columns")
        types = [_only(of) for of in zip(*(columns.values() for _, columns in parts), strict=True)]
        if any(NULL in columns.values() for _, columns in parts):
            parts = [_Query(self.relations).query(part, types) for part in nodes]
        columns = dict(zip(parts[0][1], types, strict=True))
        return " UNION ALL ".join(f"({sql})" for sql, _ in parts), columns

    def select(self, node: exp.Select, types: Sequence[str] = ()) -> tuple[str, Columns]:
        """One SELECT over one relation, or over two that are joined."""
        for part in ("laterals", "qualify", "limit", "order"):
            if node.args.get(part):
                raise NotInKernel(f"it has {part.upper()}")
        source = node.args["from_"].this
        relation, columns = self.source(source)
        scope = Scope(
            columns,
            {w.name.lower(): w for w in node.args.get("windows") or ()},
            {source.alias_or_name.lower(): columns} if source.alias_or_name else {},
        )
        for join in node.args.get("joins") or ():
            relation += self.join(scope, join)
        tags = _tags(node)
        if tags is not None:
            return self.tagged(scope, relation, tags)
        given: dict[str, str] = {}
        selected: list[str] = []
        for item in node.expressions:
            if item.is_star:
                of = scope.columns if isinstance(item, exp.Star) else scope.all_of(item)
                prefix = "" if isinstance(item, exp.Star) else f"{quoted(item.table)}."
                _check_unique(of, given)
                given |= of
                selected += [f"{prefix}{quoted(name)}" for name in of]
                continue
            if isinstance(item, exp.Alias) and isinstance(item.this, exp.Explode):
                value = scope.exploded(item.this)
            else:
                value = scope.value(item.this if isinstance(item, exp.Alias) else item)
            if value.type == NULL and len(given) < len(types):
                value = Value(f"CAST(NULL AS {duckdb_type(types[len(given)])})", types[len(given)])
            is_named = isinstance(item, exp.Alias | exp.Column)
            name = item.alias_or_name.lower() if is_named else f"_{len(given)}"
            _check_unique([name], given)
            given[name] = value.type
            selected.append(f"{value.sql} AS {quoted(name)}")
        distinct = node.args.get("distinct")
        if distinct is not None and (distinct.args.get("on") or "double" in given.values()):
            raise NotInKernel("it has a DISTINCT of doubles")
        kind = "SELECT DISTINCT" if distinct is not None else "SELECT"
        sql = f"{kind} {', '.join(selected)} FROM {relation}"
        where = node.args.get("where")
        if where is not None:
            sql += f" WHERE {scope.condition(where.this)}"
        group = node.args.get("group")
        if group is not None:
            sql += f" GROUP BY {', '.join(scope.key(key) for key in group.expressions)}"
        having = node.args.get("having")
        if having is not None:
            sql += f" HAVING {scope.condition(having.this)}"
        return sql, given

    def join(self, scope: Scope, node: exp.Join) -> str:
        """What is joined, whose columns are in the scope from now on."""
        words = " ".join(w for w in (node.side, node.kind) if w).upper()
        kind = _JOINS.get(words)
        on = node.args.get("on")
        has_condition = on is not None or kind == "CROSS JOIN"
        if kind is None or not has_condition or not node.this.alias_or_name:
            raise NotInKernel(f"it has {node.sql(dialect='spark')[:80]}")
        relation, columns = self.source(node.this)
        scope.joined(node.this.alias_or_name.lower(), columns)
        if on is None:
            return f" CROSS JOIN {relation}"
        for pair in on.find_all(exp.EQ, exp.NullSafeEQ):
            scope.key(pair.this)
            scope.key(pair.expression)
        return f" {kind} {relation} ON {scope.condition(on)}"

    def tagged(self, scope: Scope, relation: str, tags: Sequence[exp.Expr]) -> tuple[str, Columns]:
        """A row for each tag that is not NULL."""
        values = ", ".join(scope.value(tag).as_("int") for tag in tags)
        names = ", ".join(quoted(name) for name in scope.columns)
        sql = f"SELECT {names}, unnest([{values}]) AS {quoted(TAG)} FROM {relation}"
        given = {**scope.columns, TAG: "int"}
        return f"SELECT * FROM ({sql}) WHERE {quoted(TAG)} IS NOT NULL", given

    def source(self, node: exp.Expr) -> tuple[str, Columns]:
        """What a SELECT reads."""
        named = f" AS {quoted(node.alias)}" if node.alias else ""
        if isinstance(node, exp.Subquery):
            sql, columns = _Query(self.relations).query(node.this)
            return f"({sql}){named}", _typed(columns)
        if isinstance(node, exp.Table) and node.name.lower() in self.relations:
            return f"{quoted(node.name)}{named}", self.relations[node.name.lower()]
        raise NotInKernel(f"it reads {node.sql(dialect='spark')[:80]}")


_JOINS = {
    "": "JOIN",
    "INNER": "JOIN",
    "CROSS": "CROSS JOIN",
    "LEFT": "LEFT JOIN",
    "LEFT OUTER": "LEFT JOIN",
    "LEFT SEMI": "SEMI JOIN",
    "LEFT ANTI": "ANTI JOIN",
}


def _only(types: Sequence[str]) -> str:
    """The type of a column in all parts of a UNION ALL."""
    known = {type_ for type_ in types if type_ != NULL}
    if len(known) > 1:
        raise NotInKernel("it unites relations whose columns have different types")
    return known.pop() if known else NULL


def _check_unique(names: Iterable[str], given: Columns) -> None:
    for name in names:
        if name in given:
            raise NotInKernel(f"it has two columns named {name}")


def _typed(columns: Columns) -> Columns:
    if NULL in columns.values():
        raise NotInKernel("it has a NULL without a type")
    return columns


def _parts(node: exp.Expr) -> Iterable[exp.Expr]:
    """The queries that a tree of UNION ALL has, in order."""
    if isinstance(node, exp.Union):
        yield from _parts(node.this)
        yield from _parts(node.expression)
    else:
        yield node


def _tags(node: exp.Select) -> Sequence[exp.Expr] | None:
    """The tags of `explode(array_compact(array(IF(…, tag, NULL), …)))`, if the SELECT has that."""
    for item in node.expressions:
        if isinstance(item, exp.Alias) and isinstance(item.this, exp.Explode):
            compact = item.this.this
            if isinstance(compact, exp.ArrayCompact) and isinstance(compact.this, exp.Array):
                return list(compact.this.expressions)
    return None
