"""What DuckDB does not take: boxes computed by one fresh Spark batch over all their records.

The boxes become a small network of their own, whose sources are the ports that lead into them. A
box whose values are exact only when a later box has rounded them goes together with those that
follow. Here the compiler is the one that steps use; what is checked is that steps, panes,
corrections and promotions come to the same as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.fragments import fragments_of
from medusa_core.network import Box, Network, Output, Port, Source, Union, inputs_of, ports_of
from pipelines.language.check import CheckedNetwork, check_network
from pipelines.storage.arrow_schema import STIME, record_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.quality.recompute import Recomputation


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Boxes that are computed together: as a network, and where its ends lie in the whole one."""

    checked: CheckedNetwork
    boxes: tuple[str, ...]
    entries: Mapping[str, Port]
    exits: Mapping[str, Port]


def region_of(run: Recomputation, box: Box) -> Region:
    """The box with what it cannot be told apart from: neighbours over ports that are not exact."""
    network = run.network
    wanted = {box.name}
    while True:
        more = set(wanted)
        for arc in network.box_arcs:
            if arc.start.owner in network.order and run.inexact(arc.start):
                if arc.end in wanted:
                    more.add(arc.start.owner)
                if arc.start.owner in wanted:
                    more.add(arc.end)
        if more == wanted:
            break
        wanted = more
    boxes = [network.box(name) for name in network.order if name in wanted]
    entries: dict[str, Port] = {}
    inside: list[Box] = []
    for one in boxes:
        renamed = [
            _entered(network, reference, one, wanted, entries) for reference in inputs_of(one)
        ]
        if isinstance(one, Union):
            inside.append(replace(one, inputs=tuple(renamed), fragment="main"))
        else:
            inside.append(replace(one, input=renamed[0], fragment="main"))
    exits = {
        f"out_{at}": port
        for at, port in enumerate(
            port for one in boxes for port in (Port(one.name, p) for p in ports_of(one))
            if not run.inexact(port)
        )
    }  # fmt: skip
    small = Network(
        name=network.name,
        sources=tuple(_source(run, name, port) for name, port in entries.items()),
        boxes=tuple(inside),
        outputs=tuple(Output(name=name, input=str(port)) for name, port in exits.items()),
    )
    return Region(
        checked=check_network(small),
        boxes=tuple(one.name for one in boxes),
        entries=entries,
        exits=exits,
    )


def _entered(
    network: Network, reference: str, box: Box, wanted: set[str], entries: dict[str, Port]
) -> str:
    """What a box inside reads: another one inside, or a source in place of what is outside."""
    port = network.port(reference, f"box {box.name}")
    if port.owner in wanted:
        return reference
    for name, known in entries.items():
        if known == port:
            return name
    names = {*(p.name for p in (*network.sources, *network.boxes))}
    number = len(entries)
    while (name := f"given_{number}") in names or name in entries:
        number += 1
    entries[name] = port
    return name


def _source(run: Recomputation, name: str, port: Port) -> Source:
    columns = run.checked.columns[port]
    return Source(name=name, columns={c.name: c.type for c in columns}, time=columns[0].name)


def spark_batch(
    session: Callable[[], SparkSession],
) -> Callable[[CheckedNetwork, Mapping[str, pa.Table]], Mapping[str, pa.Table]]:
    """Runs small networks in a session, which is opened when the first one comes."""

    def run(checked: CheckedNetwork, given: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        return _run(session(), checked, given)

    return run


def _run(
    session: SparkSession, checked: CheckedNetwork, given: Mapping[str, pa.Table]
) -> Mapping[str, pa.Table]:
    from pipelines.spark.compiler import compile_fragment, input_view
    from pipelines.spark.failures import spark_errors
    from pipelines.spark.job import EVENT_TIME

    (fragment,) = fragments_of(checked.network)
    compiled = compile_fragment(fragment, checked)
    with spark_errors(f"a batch of {checked.network.name}"), ExitStack() as stack:
        for source, rows in given.items():
            frame = session.createDataFrame(rows)
            frame.createOrReplaceTempView(input_view(fragment.inputs[Port(source)]))
        for statement in compiled.statements:
            made: DataFrame = session.sql(statement.sql)
            if statement.function is not None:
                given_time = made.withColumnRenamed(STIME, EVENT_TIME)
                columns = (*(c.name for c in statement.columns), EVENT_TIME)
                made = statement.function(given_time).select(*columns)
                made = made.withColumnRenamed(EVENT_TIME, STIME)
            made.createOrReplaceTempView(statement.view)
            stack.callback(made.persist().unpersist)
        tagged = session.sql(compiled.sql).toArrow()
    return {shape.stream: _rows_of(shape, tagged) for shape in compiled.outputs}


def _rows_of(shape: Any, tagged: pa.Table) -> pa.Table:
    from pipelines.spark.compiler import TAG

    mine = tagged.filter(pc.equal(tagged[TAG], shape.tag)).select([*shape.slots, STIME])
    schema = record_schema(shape.columns)
    return pa.table(mine.columns, names=schema.names).cast(schema)
