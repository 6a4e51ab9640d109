"""A network with Joins, replayed from two recorded files, against a query over the same files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest

from medusa_core.network import Aggregate, Filter, Join, Map, Network, Output, Source, Union
from pipelines.quality.recompute import DUCKDB
from pipelines.spark import compiler
from pipelines.storage.csv_export import export_stream
from tests.quality.homes import Checked, checked_home, converged
from tests.replaying import Replayer, digests
from tests.sweeps import IS_LONG, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

ORDERS = {"ts_us": "bigint", "item": "string", "price": "int"}
SALES = {"sold_us": "bigint", "thing": "string", "price": "int", "shop": "string"}
KINDS = ("inner", "left", "semi", "anti")
OUTPUTS = (*(f"{how}_rows" for how in KINDS), "counts")
FEW = ("left_rows", "semi_rows")
"""The outputs that `make test` computes."""
COMPUTED = OUTPUTS if IS_LONG else FEW
LO_US, HI_US = -4_000_000, 12_000_000
Inputs = dict[str, list[Path]]


def a_network(kinds: Sequence[str] = KINDS) -> Network:
    """Orders with the sales of the same item, from 4 s before to 12 s after; windows behind."""
    joins = tuple(
        Join(name=f"{how}_sales", left="cheap", right="sales", on=("item = thing",),
             within=("-4s", "12s"), how=how)
        for how in kinds
    )  # fmt: skip
    is_whole = kinds == KINDS
    windows = (
        Map(name="missed", input="anti_sales", columns={"item": "item", "price": "price"}),
        Map(name="made", input="inner_sales", columns={"item": "item", "price": "price"}),
        Union(name="both", inputs=("missed", "made")),
        Aggregate(name="counted", input="both", size="20s", advance="10s", group_by=("item",),
                  columns={"n": "count(*)", "total": "sum(price)"}),
    )  # fmt: skip
    return Network(
        name="shops",
        sources=(
            Source(name="orders", columns=ORDERS, time="ts_us"),
            Source(name="sales", columns=SALES, time="sold_us"),
        ),
        boxes=(Filter(name="cheap", input="orders", cases={"yes": "price < 90"}), *joins,
               *(windows if is_whole else ())),
        outputs=(*(Output(name=f"{how}_rows", input=f"{how}_sales") for how in kinds),
                 *((Output(name="counts", input="counted"),) if is_whole else ())),
    )  # fmt: skip


QUERIES = {
    "inner": "SELECT o.*, s.sold_us, s.shop FROM orders o JOIN sales s ON {pair}",
    "left": "SELECT o.*, s.sold_us, s.shop FROM orders o LEFT JOIN sales s ON {pair}",
    "semi": "SELECT o.* FROM orders o SEMI JOIN sales s ON {pair}",
    "anti": "SELECT o.* FROM orders o ANTI JOIN sales s ON {pair}",
}
PAIR = f"o.item = s.thing AND s.sold_us BETWEEN o.ts_us + {LO_US} AND o.ts_us + {HI_US}"
COUNTS = f"""
    WITH timed AS (
        SELECT o.item, o.price, greatest(o.ts_us, s.sold_us) AS at FROM orders o, sales s
        WHERE {PAIR}
        UNION ALL
        SELECT o.item, o.price, o.ts_us + {HI_US} FROM orders o ANTI JOIN sales s ON {PAIR}
    )
    SELECT starts.at, item, count(*), sum(price)
    FROM timed, range(-60, 90) AS numbers(n), LATERAL (SELECT n * 10000000 AS at) AS starts
    WHERE timed.at >= starts.at AND timed.at < starts.at + 20000000 GROUP BY starts.at, item
"""


def write_files(folder: Path) -> Inputs:
    """Orders and sales around 1970 with NULL keys, equal records, ties, and a gap of minutes."""
    folder.mkdir(parents=True)
    random = Random(11)

    def a_time() -> int:
        at_s = random.choice((random.randrange(-120, 0), random.randrange(200, 300)))
        return at_s * 1_000_000 + random.choice((0, 0, 1, -1, 999_999))

    def lines(header: str, rows: int, more: str) -> str:
        found = [
            f"{a_time()},{random.choice(['a', 'b', 'c d', ''])},{random.randrange(100)}"
            f"{random.choice([',north', ',']) if more else ''}"
            for _ in range(rows)
        ]
        return "\n".join([header, *found, *random.sample(found, 10)]) + "\n"

    (folder / "orders.csv").write_text(lines("ts_us,item,price", 150, ""))
    (folder / "sales.csv").write_text(lines("sold_us,thing,price,shop", 120, "shop"))
    return {name: [folder / f"{name}.csv"] for name in ("orders", "sales")}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return write_files(tmp_path_factory.mktemp("joins") / "input")


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    inputs: Inputs,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Checked]:
    """A home in which all was replayed, in steps of 120 records."""
    replayer = Replayer(postgres_server, spark, tmp_path_factory.mktemp("replayed"))
    with checked_home(
        replayer, a_network(), inputs, width_s=10, records_per_step_max=120, few=FEW
    ) as checked:
        yield checked


@pytest.fixture
def database(inputs: Inputs) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, (path,) in inputs.items():
            where = "WHERE price < 90" if name == "orders" else ""
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{path}') {where}")
        yield connection


@pytest.mark.sweep
def test_a_replay_of_two_files_gives_what_a_query_over_them_gives_row_by_row(
    replayed: Checked, database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    home = replayed.home
    queries = {f"{how}_rows": QUERIES[how].format(pair=PAIR) for how in KINDS}
    for output in COMPUTED:
        query = queries.get(output, COUNTS)
        path = tmp_path / f"{output}.csv"
        export_stream(home.catalog, home.storage, output, path)  # type: ignore[arg-type]
        times = "" if output != "counts" else "REPLACE (epoch_us(window_start) AS window_start)"
        found = database.execute(f"SELECT * {times} FROM read_csv('{path}') ORDER BY ALL")
        rows = found.fetchall()
        assert rows
        assert rows == database.execute(f"SELECT * FROM ({query}) ORDER BY ALL").fetchall(), output


@pytest.mark.sweep
def test_certificates_of_joins_are_made_by_duckdb(replayed: Checked) -> None:
    for made in converged(replayed, OUTPUTS, FEW[:1]):
        assert set(made.engines.values()) == {DUCKDB}
        assert made.figures["final_rows"] == made.figures["recomputed_rows"] > 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    long_but(
        0,
        [
            ("l.`item` = r.`thing`", "l.`item` <=> r.`thing`"),
            ("BETWEEN -4000000L", "BETWEEN -4000001L + 2"),
            ("greatest(", "least("),
        ],
    ),
)
def test_a_fault_in_the_compiled_join_is_found_by_its_certificate(
    replayer: Replayer,
    inputs: Inputs,
    monkeypatch: pytest.MonkeyPatch,
    right: str,
    wrong: str,
) -> None:
    compile_fragment = compiler._Compiler.compile

    def compile_wrongly(self: compiler._Compiler) -> compiler.CompiledFragment:
        made = compile_fragment(self)
        assert right in made.sql
        return replace(made, sql=made.sql.replace(right, wrong))

    monkeypatch.setattr(compiler._Compiler, "compile", compile_wrongly)
    with checked_home(replayer, a_network(), inputs, width_s=10) as checked:
        assert not checked.run().passed


@pytest.mark.parametrize("records_per_step_max", long_but(0, [250_000, 25, 1]))
def test_i1_i2_the_rows_of_joins_are_the_same_however_steps_and_fragments_are_cut(
    replayer: Replayer, replayed: Checked, inputs: Inputs, records_per_step_max: int
) -> None:
    whole = digests(replayed.home, a_network())
    with checked_home(
        replayer, a_network(), inputs, width_s=10, records_per_step_max=records_per_step_max
    ) as other:
        assert digests(other.home, a_network()) == whole
