"""From the statements of a SQL file to a network of boxes, with the place of each.

    WHERE                                  a Filter
    SELECT with expressions or names       a Map
    TUMBLE or HOP, with GROUP BY           an Aggregate; HAVING is a Filter behind it
    SESSION, with GROUP BY                 a Session, with the same
    EVERY, with GROUP BY                   an Every, with the same
    SUM(…) OVER, in TUMBLE                 a Running
    UNION ALL                              a Union
    ROW_NUMBER, with a limit outside       a Rank, or a Deduplicate
    RESAMPLE                               a Resample
    JOIN … ON                              a Join or Lookup, one for each

The last box of a stream or view has its name; those before it have the name of their clause
behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from medusa_core.errors import Refused
from medusa_core.network import (
    MAIN,
    Box,
    Network,
    Output,
    Resample,
    Source,
    Union,
    check_source,
)
from medusa_core.suggest import did_you_mean
from pipelines.language.places import Places
from pipelines.language.resampled_columns import SAMPLE_TIME
from pipelines.language.sql.grouped_select import check_time, grouped_select
from pipelines.language.sql.joined_tables import joined
from pipelines.language.sql.plain_select import plain_select
from pipelines.language.sql.ranked_select import check_no_over, ranked_query, ranked_select
from pipelines.language.sql.relations import BoxList, Relation, renamed
from pipelines.language.sql.running_select import has_running, running_select
from pipelines.language.sql.scopes import Scope, scope_of
from pipelines.language.sql.sql_text import SqlText, Token
from pipelines.language.sql.statements import (
    CreateNetwork,
    CreateSource,
    CreateStream,
    JoinedTables,
    NamedTable,
    Query,
    Resampled,
    Select,
    Statement,
    Subquery,
    Table,
    Window,
)


def network_of_statements(
    text: SqlText, statements: Sequence[Statement], name: str
) -> tuple[Network, Places]:
    """The network, and where its parts are written; `name` is used if the file declares none.

    Raises Refused with line and column.
    """
    parts = _Parts(text, frozenset(statement.name.name for statement in statements))
    bucket: Mapping[str, Any] = {}
    for number, statement in enumerate(statements):
        match statement:
            case CreateNetwork():
                if number:
                    raise text.refused(
                        statement.name, "CREATE NETWORK is the first statement of a file, once"
                    )
                name, bucket = statement.name.name, statement.options
            case CreateSource():
                parts.add_source(statement)
            case CreateStream():
                parts.add_stream(statement)
            case _:
                assert_never(statement)
    if not parts.outputs and parts.boxes:
        raise text.refused(
            statements[-1].name, "a file has a stream: write CREATE STREAM in place of CREATE VIEW "
            "for a query that is an output"
        )  # fmt: skip
    try:
        network = Network(
            name=name,
            sources=tuple(parts.sources),
            boxes=tuple(parts.boxes),
            outputs=tuple(parts.outputs),
            **bucket,
        )
    except Refused as error:
        raise Refused(f"{text.file}: {error}") from None
    return network, parts.places


@dataclass
class _Parts:
    """What the statements read so far have made."""

    text: SqlText
    declared: frozenset[str]
    sources: list[Source] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    relations: dict[str, Relation] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)

    def add_source(self, statement: CreateSource) -> None:
        name, options = self._new_name(statement.name), dict(statement.options)
        key = tuple(part.strip() for part in options.pop("key", "").split(",") if part.strip())
        source = Source(name=name, columns=statement.columns, key=key, **options)
        try:
            check_source(source, f"of {self.text.file}")
        except Refused as error:
            raise self.text.refused(statement.name, str(error)) from None
        self.sources.append(source)
        self.places[name, ""] = self.text.place(statement.name)
        self.relations[name] = Relation(
            port=name, columns=tuple(statement.columns), time=options.get("time"), is_source=True
        )

    def add_stream(self, statement: CreateStream) -> None:
        name = self._new_name(statement.name)
        taken = {box.name for box in self.boxes} | self.declared
        made = BoxList(self.text, name, statement.options.get("fragment", MAIN), taken)
        relation = self._query(statement.query, self.relations, made)
        if statement.is_output and relation.is_source:
            relation = renamed(made, relation, relation.columns, statement.query.at)
        if made.boxes:
            relation = replace(relation, port=made.name_last(relation.port))
        self.boxes += made.boxes
        self.places |= made.places
        self.relations[name] = relation
        if statement.is_output:
            self.outputs.append(Output(name=name, input=relation.port))

    def _new_name(self, name: Token) -> str:
        if name.name in self.relations:
            raise self.text.refused(name, f"{name.name} is declared twice: rename one")
        return name.name

    def _query(self, query: Query, known: Mapping[str, Relation], made: BoxList) -> Relation:
        visible = dict(known)
        for name, local in query.local.items():
            visible[name] = self._query(local, visible, made)
        parts = [self._part(part, visible, made) for part in query.parts]
        if len(parts) == 1:
            return parts[0]
        names = parts[0].columns
        for number, part in enumerate(parts):
            if len(part.columns) != len(names):
                raise self.text.refused(
                    query.parts[number].at,
                    f"this part of the UNION ALL has {len(part.columns)} "
                    f"columns and the first has {len(names)}: select as many in each",
                )
        alike = [
            part if part.columns == names else renamed(made, part, names, query.at)
            for part in parts
        ]
        inputs = tuple(part.port for part in alike)
        port = made.add(Union(name=made.name_of("union"), inputs=inputs), query.at)
        windows = {part.window for part in alike}
        window = windows.pop() if len(windows) == 1 else None
        return Relation(port=port, columns=names, window=window)

    def _part(self, part: Select | Query, known: Mapping[str, Relation], made: BoxList) -> Relation:
        if isinstance(part, Query):
            return self._query(part, known, made)
        table = part.table
        if part.empty is not None and not (
            isinstance(table, Window) and table.gap is None and table.n is None and part.group_by
        ):
            raise self.text.refused(
                part.empty.at, "windows that are grouped can have rows without records: write "
                "EMIT EMPTY in a SELECT with FROM TUMBLE(…) or HOP(…) and GROUP BY"
            )  # fmt: skip
        if isinstance(table, Window) and has_running(part):
            return running_select(part, table, self._scope(table, known, made), made)
        check_no_over(self.text, part)
        ranked = ranked_query(self.text, table)
        if ranked is not None:
            assert isinstance(table, Subquery)
            inner, ranking = ranked
            scope = self._scope(inner.table, known, made)
            part, relation = ranked_select(part, inner, ranking, scope, made)
            return plain_select(part, scope_of(table, relation), made)
        scope = self._scope(table, known, made)
        if isinstance(table, Window):
            return grouped_select(part, table, scope, made)
        return plain_select(part, scope, made)

    def _scope(self, table: Table, known: Mapping[str, Relation], made: BoxList) -> Scope:
        """What a FROM gives."""
        if isinstance(table, Resampled):
            return scope_of(table, self._resampled(table, known, made))
        if isinstance(table, JoinedTables):
            left, right = (self._scope(side, known, made) for side in (table.left, table.right))
            return joined(table, left, right, made)
        read = table.table if isinstance(table, Window) else table
        return scope_of(table, self._relation(read, known, made))

    def _resampled(
        self, table: Resampled, known: Mapping[str, Relation], made: BoxList
    ) -> Relation:
        """Rows at equal distances; Refused with line and column."""
        relation = self._relation(table.table, known, made)
        check_time(table.time, relation, made, "rows are resampled by")
        for token in table.by:
            if token.name not in relation.columns:
                listed = f"there are {', '.join(relation.columns)}"
                near = did_you_mean(token.name, relation.columns, listed)
                raise self.text.refused(token, f"{token.text} is not a column: {near}")
        by = tuple(token.name for token in table.by)
        box = Resample(
            name=made.name_of("resample"), input=relation.port, step=table.step,
            max_age=table.max_age, by=by, method=table.method,
        )  # fmt: skip
        port = made.add(box, table.at)
        others = (name for name in relation.columns if name not in (*by, SAMPLE_TIME))
        return Relation(port=port, columns=(SAMPLE_TIME, *by, *others))

    def _relation(
        self, table: NamedTable | Subquery, known: Mapping[str, Relation], made: BoxList
    ) -> Relation:
        if isinstance(table, Subquery):
            return self._query(table.query, known, made)
        return self._named(table, known)

    def _named(self, table: NamedTable, known: Mapping[str, Relation]) -> Relation:
        name = table.name.name
        if name not in known:
            near = did_you_mean(name, known, f"before it stand {', '.join(known) or 'none'}")
            raise self.text.refused(
                table.name, f"there is no source, view or stream {name} above this line: {near}"
            )
        return known[name]
