"""Boxes that DuckDB cannot compute, computed by one fresh Spark batch over all their records.

Nothing of the compiler takes part: Spark evaluates the expressions as their author wrote them
(`spark_expressions`). So the compiler's output is checked by Spark itself, and steps, panes,
corrections and promotions are checked to equal one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.errors import Diverged
from medusa_core.network import (
    Aggregate,
    Box,
    Every,
    Filter,
    Function,
    Map,
    Port,
    Running,
    Session,
    ports_of,
)
from pipelines.language.parsing import parse
from pipelines.quality.emitted_groups import WINDOW_END
from pipelines.quality.period_bounds import DAY_US, periods_around
from pipelines.quality.plain_functions import declare_in_spark, evaluated_by, spark_text, user_call
from pipelines.quality.port_columns import Columns
from pipelines.quality.session_bounds import session_bounds
from pipelines.quality.spark_expressions import (
    AS_WRITTEN,
    OverNothing,
    SparkExpressions,
    quoted,
    raises,
)
from pipelines.quality.stored_rows import STIME, row_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FAILS, _CASE, _WINDOW, _END = "_fails", "_case", "_window", "_window_end"
_PLACE, _UP_TO = "_place", "up_to"
_EVENT_TIME = "stime"
"""The name of event time in the frames that functions of users get and give."""


@dataclass(frozen=True, slots=True)
class BoxRows:
    """The rows of each port of a box, and how many records or groups it failed on."""

    ports: Mapping[Port, pa.Table]
    failed: int = 0


SparkBatch: TypeAlias = Callable[[Box, Columns, Columns, pa.Table, pa.Table | None], BoxRows]
"""Computes a box: its input's columns, its output's columns, the rows of the input, and the groups
that it emits without records, if it emits such."""


def spark_batch(session: Callable[[], SparkSession]) -> SparkBatch:
    """Computes boxes in a Spark session derived from one that is opened for the first box."""
    own: list[SparkSession] = []

    def compute(
        box: Box, given: Columns, made: Columns, rows: pa.Table, emitted: pa.Table | None
    ) -> BoxRows:
        from pipelines.spark.failures import spark_errors

        with spark_errors(f"box {box.name} of a certificate"):
            if not own:
                own.append(session().newSession())
                for name, value in AS_WRITTEN.items():
                    own[0].conf.set(name, value)
            # Spark leaves out what follows an empty chunk.
            frame = own[0].createDataFrame(rows.combine_chunks())
            groups = None if emitted is None else own[0].createDataFrame(emitted.combine_chunks())
            return _SparkBox(frame, given, made, groups).compute(box)

    return compute


@dataclass(frozen=True, slots=True)
class _SparkBox:
    """One box over a frame of records."""

    frame: DataFrame
    given: Columns
    made: Columns
    emitted: DataFrame | None = None
    expressions: SparkExpressions = field(init=False)

    def __post_init__(self) -> None:
        expressions = SparkExpressions({c.name: c for c in self.given})
        object.__setattr__(self, "expressions", expressions)

    def compute(self, box: Box) -> BoxRows:
        match box:
            case Filter():
                return self.filter(box)
            case Map():
                return self.map(box)
            case Aggregate() | Session():
                return self.aggregate(box)
            case Running():
                return self.running(box)
            case Every():
                return self.every(box)
            case Function():
                return self.function(box)
        raise AssertionError(f"{box.name} needs no engine but DuckDB")

    def filter(self, box: Filter) -> BoxRows:
        cases = enumerate(self.text(text) for text in box.cases.values())
        whens = " ".join(f"WHEN {text} THEN {at}" for at, text in cases)
        case = f"CASE {whens} ELSE {len(box.cases)} END"
        chosen = self.frame.selectExpr("*", f"IF({raises([case])}, -1, {case}) AS {_CASE}")
        rows = chosen.toArrow()
        ports = {
            Port(box.name, port): self.rows(rows.filter(pc.equal(rows[_CASE], at)))
            for at, port in enumerate(ports_of(box))
        }
        return BoxRows(ports, int(pc.sum(pc.less(rows[_CASE], 0)).as_py() or 0))

    def map(self, box: Map) -> BoxRows:
        texts = {name: self.text(text) for name, text in box.columns.items()}
        fails = f"{raises(texts.values())} AS {_FAILS}"
        return self.result(box, self.frame.selectExpr(*_unless_raised(texts), STIME, fails))

    def aggregate(self, box: Aggregate | Session) -> BoxRows:
        texts, good, failed = self.tried(box)
        if isinstance(box, Session):
            keys, starts = (
                box.by,
                [
                    f"timestamp_micros({at}) AS {name}"
                    for at, name in ((_WINDOW, "window_start"), (_END, "window_end"))
                ],
            )
            windowed = self.in_sessions(box, good)
        else:
            keys, starts = box.group_by, [f"timestamp_micros({_WINDOW}) AS window_start"]
            windowed = self.windowed(box, good)
        windowed.createOrReplaceTempView("windowed")
        group = [quoted(name) for name in keys]
        values = ", ".join((*starts, *group, *_unless_raised(texts)))
        grouped = self.frame.sparkSession.sql(
            f"SELECT {values}, {_END} - 1L AS {STIME}, {raises(texts.values())} AS {_FAILS} "
            f"FROM windowed GROUP BY {', '.join((_WINDOW, _END, *group))}"
        )
        if isinstance(box, Aggregate) and self.emitted is not None:
            grouped = self.with_emitted(box, grouped, self.emitted)
        return self.result(box, grouped, failed)

    def running(self, box: Running) -> BoxRows:
        texts, good, failed = self.tried(box, _UP_TO)
        good.createOrReplaceTempView("records")
        own = ", ".join(quoted(column.name) for column in self.given)
        rows = self.frame.sparkSession.sql(
            f"SELECT {own}, {', '.join(_unless_raised(texts))}, {STIME}, "
            f"{raises(texts.values())} AS {_FAILS} FROM records "
            f"WINDOW {_UP_TO} AS ({self.in_canonical_order(box)} "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        )
        return self.result(box, rows, failed)

    def every(self, box: Every) -> BoxRows:
        texts, good, failed = self.tried(box)
        place = f"row_number() OVER ({self.in_canonical_order(box)})"
        placed = good.selectExpr("*", f"{place} AS {_PLACE}", f"{_span(box)} AS {_WINDOW}")
        placed.createOrReplaceTempView("records")
        keys = [quoted(name) for name in box.by]
        rows = self.frame.sparkSession.sql(
            f"SELECT {', '.join((*keys, *_unless_raised(texts)))}, max({STIME}) AS {STIME}, "
            f"{raises(texts.values())} AS {_FAILS} FROM records "
            f"GROUP BY {', '.join((_WINDOW, *keys, f'ceil({_PLACE} / {box.n})'))} "
            f"HAVING count(*) = {box.n}"
        )
        return self.result(box, rows, failed)

    def tried(
        self, box: Aggregate | Session | Running | Every, window: str | None = None
    ) -> tuple[Mapping[str, str], DataFrame, int]:
        """The aggregates as texts, the records that they can use, and how many fail."""
        expressions = SparkExpressions({c.name: c for c in self.given}, window)
        trees = {name: parse(text, "expression") for name, text in box.columns.items()}
        calls = {name: user_call(box, text) for name, text in box.columns.items()}
        declare_in_spark(self.frame.sparkSession, box)
        texts = {n: spark_text(calls[n], tree, expressions) for n, tree in trees.items()}
        evaluated = [
            text for n, tree in trees.items() for text in evaluated_by(calls[n], tree, expressions)
        ]
        tried = self.frame.selectExpr("*", f"{raises(evaluated or ['0'])} AS {_FAILS}")
        failed = tried.where(_FAILS).count() if evaluated else 0
        return texts, tried.where(f"NOT {_FAILS}").drop(_FAILS), failed

    def in_canonical_order(self, box: Running | Every) -> str:
        """The records of a span and key in canonical order, for OVER."""
        value = {
            c.name: f"({quoted(c.name)} + 0.0D)" if c.type == "double" else quoted(c.name)
            for c in self.given
        }
        keys = ", ".join((_span(box), *(value[name] for name in box.by)))
        order = ", ".join(f"{by} ASC NULLS FIRST" for by in (STIME, *value.values()))
        return f"PARTITION BY {keys} ORDER BY {order}"

    def in_sessions(self, box: Session, rows: DataFrame) -> DataFrame:
        """Records with the first time of their session, and its last time + the gap."""
        records = rows.toArrow()
        bounds = session_bounds(box, records, STIME)
        for name, times in (
            (_WINDOW, [one.from_us for one in bounds]), (_END, [one.to_us for one in bounds]),
        ):  # fmt: skip
            records = records.append_column(name, pa.array(times, pa.int64()))
        return rows.sparkSession.createDataFrame(records.combine_chunks())

    def with_emitted(self, box: Aggregate, grouped: DataFrame, emitted: DataFrame) -> DataFrame:
        """The groups with records, and those that are emitted without."""
        over_nothing = OverNothing({c.name: c for c in self.given})
        texts = {
            name: spark_text(
                user_call(box, text), parse(text, "expression"), over_nothing, of_nothing=True
            )
            for name, text in box.columns.items()
        }
        groups = emitted.selectExpr(
            f"timestamp_micros({STIME}) AS window_start",
            *map(quoted, box.group_by),
            *_unless_raised(texts),
            f"{WINDOW_END} - 1L AS {STIME}",
            f"{raises(texts.values())} AS {_FAILS}",
        )
        is_there = groups["window_start"] == grouped["window_start"]
        for name in box.group_by:
            is_there = is_there & groups[name].eqNullSafe(grouped[name])
        return grouped.unionByName(groups.join(grouped, is_there, "left_anti"))

    def windowed(self, box: Aggregate, rows: DataFrame) -> DataFrame:
        """Records once for each window that holds them, with the window's start and end."""
        if box.every is not None:
            day = f"({STIME} - pmod({STIME}, {DAY_US}L)) div {DAY_US}L AS day"
            days = [row.day for row in rows.selectExpr(day).distinct().collect()]
            bounds = [(one.from_us, one.to_us) for one in periods_around(box, days)]
            table = rows.sparkSession.createDataFrame(bounds, f"{_WINDOW} bigint, {_END} bigint")
            return rows.join(table, rows[STIME].between(table[_WINDOW], table[_END] - 1))
        last = f"({STIME} - pmod({STIME}, {box.advance_us}L))"
        windows = -(-box.size_us // box.advance_us)
        starts = f"transform(sequence(0, {windows - 1}), n -> {last} - n * {box.advance_us}L)"
        windowed = rows.selectExpr("*", f"explode({starts}) AS {_WINDOW}")
        windowed = windowed.selectExpr("*", f"{_WINDOW} + {box.size_us}L AS {_END}")
        return windowed.where(f"{_END} > {STIME}")

    def function(self, box: Function) -> BoxRows:
        made = box.function(self.frame.withColumnRenamed(STIME, _EVENT_TIME))
        frame = made.select(*(c.name for c in self.made), _EVENT_TIME)
        return self.result(box, frame.withColumnRenamed(_EVENT_TIME, STIME))

    def text(self, expression: str) -> str:
        """An expression of the box as text for Spark."""
        return self.expressions.text(parse(expression, "expression"))

    def result(self, box: Box, frame: DataFrame, failed: int = 0) -> BoxRows:
        """The rows of a box with one port: those that did not fail, next to `failed` records."""
        types = dict(frame.dtypes)
        for column in self.made:
            if types[column.name] != column.type:
                raise Diverged(
                    f"column {column.name} of box {box.name} is {types[column.name]} in Spark, but "
                    f"{column.type} by the rules of certificates or by its declaration"
                )
        rows = frame.toArrow()
        if _FAILS in types:
            failed += int(pc.sum(rows[_FAILS]).as_py() or 0)
            rows = rows.filter(pc.invert(rows[_FAILS]))
        return BoxRows({Port(box.name): self.rows(rows)}, failed)

    def rows(self, found: pa.Table) -> pa.Table:
        """Rows in the form of stored rows."""
        schema = row_schema(self.made)
        return found.select(schema.names).cast(schema)


def _span(box: Running | Every) -> str:
    """The beginning of the span that holds a record."""
    return f"({STIME} - pmod({STIME}, {box.within_us}L))"


def _unless_raised(texts: Mapping[str, str]) -> Iterable[str]:
    """The values, each NULL where it raises an error."""
    return (f"IF({raises([text])}, NULL, {text}) AS {quoted(name)}" for name, text in texts.items())
