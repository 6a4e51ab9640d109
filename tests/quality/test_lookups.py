"""A network with Lookups, replayed from two recorded files, against a query over the same files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from medusa_core.network import Aggregate, Filter, Lookup, Network, Output, Source
from pipelines.quality.recompute import DUCKDB
from pipelines.spark import compiler
from pipelines.storage.csv_export import export_stream
from tests.quality.homes import Checked, checked_home, converged
from tests.replaying import Replayer, digests, parquet_files
from tests.sweeps import IS_LONG, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

ORDERS = {"ts_us": "bigint", "currency": "string", "amount": "int"}
RATES = {"at_us": "bigint", "code": "string", "rate": "int", "bank": "string"}
KINDS = ("left", "inner")
OUTPUTS = ("left_rows", "inner_rows", "counts")
FEW = ("left_rows",)
"""The outputs that `make test` computes."""
COMPUTED = OUTPUTS if IS_LONG else FEW


def a_network() -> Network:
    """Orders with the newest rate of their currency of the last 12 s; windows behind."""
    lookups = tuple(
        Lookup(name=f"{how}_rates", input="cheap", table="rates", on=("currency = code",),
               max_age="12s", how=how)
        for how in KINDS
    )  # fmt: skip
    return Network(
        name="bank",
        sources=(
            Source(name="orders", columns=ORDERS, time="ts_us"),
            Source(name="rates", columns=RATES, time="at_us"),
        ),
        boxes=(
            Filter(name="cheap", input="orders", cases={"yes": "amount < 90"}),
            *lookups,
            Aggregate(name="counted", input="left_rates", size="20s", advance="10s",
                      group_by=("currency",), columns={"n": "count(rate)", "top": "max(rate)"}),
        ),
        outputs=(*(Output(name=f"{how}_rows", input=f"{how}_rates") for how in KINDS),
                 Output(name="counts", input="counted")),
    )  # fmt: skip


FOUND = """
    SELECT o.*, r.at_us, r.rate, r.bank FROM numbered AS o, rates AS r
    WHERE o.currency = r.code AND r.at_us BETWEEN o.ts_us - 12000000 AND o.ts_us
    QUALIFY row_number() OVER (
        PARTITION BY o.number ORDER BY r.at_us DESC, r.rate DESC, r.bank DESC NULLS LAST
    ) = 1
"""
QUERIES = {
    "inner_rows": f"SELECT * EXCLUDE (number) FROM ({FOUND})",
    "left_rows": f"""
        SELECT o.* EXCLUDE (number), f.at_us, f.rate, f.bank
        FROM numbered AS o LEFT JOIN ({FOUND}) AS f USING (number)
    """,
    "counts": f"""
        SELECT starts.at, o.currency, count(f.rate), max(f.rate)
        FROM numbered AS o LEFT JOIN ({FOUND}) AS f USING (number),
             range(-60, 90) AS numbers(n), LATERAL (SELECT n * 10000000 AS at) AS starts
        WHERE o.ts_us >= starts.at AND o.ts_us < starts.at + 20000000
        GROUP BY starts.at, o.currency
    """,
}


def write_files(folder: Path) -> dict[str, list[Path]]:
    """Orders and rates around 1970 with NULL keys, equal records, ties, and a gap of minutes."""
    folder.mkdir(parents=True)
    random = Random(12)

    def a_time() -> int:
        at_s = random.choice((random.randrange(-120, 0), random.randrange(200, 300)))
        return at_s * 1_000_000 + random.choice((0, 0, 1, -1, 999_999))

    def lines(header: str, rows: int, more: str) -> str:
        found = [
            f"{a_time()},{random.choice(['a', 'b', 'c d', ''])},{random.randrange(100)}"
            f"{random.choice([',north', ',']) if more else ''}"
            for _ in range(rows)
        ]
        ties = [f"{line.rsplit(',', 2)[0]},7,south" for line in found[::4]] if more else []
        return "\n".join([header, *found, *ties, *random.sample(found, 10)]) + "\n"

    (folder / "orders.csv").write_text(lines("ts_us,currency,amount", 150, ""))
    (folder / "rates.csv").write_text(lines("at_us,code,rate,bank", 120, "bank"))
    return {name: [folder / f"{name}.csv"] for name in ("orders", "rates")}


@pytest.fixture(scope="module")
def inputs(folder: Path) -> dict[str, list[Path]]:
    return write_files(folder / "lookups_input")


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    folder: Path,
    inputs: dict[str, list[Path]],
    interpreted: None,
) -> Iterator[Checked]:
    replayer = Replayer(postgres_server, spark, folder / "lookups")
    with checked_home(
        replayer, a_network(), inputs, width_s=10, records_per_step_max=120, few=FEW
    ) as checked:
        yield checked


@pytest.mark.sweep
def test_a_replay_of_two_files_gives_what_a_query_over_them_gives_row_by_row(
    replayed: Checked, inputs: dict[str, list[Path]], tmp_path: Path
) -> None:
    home, files = replayed.home, {name: path for name, (path,) in inputs.items()}
    with duckdb.connect() as database:
        database.execute(f"""
            CREATE TABLE rates AS SELECT * FROM read_csv('{files["rates"]}');
            CREATE TABLE numbered AS
                SELECT *, row_number() OVER () AS number FROM read_csv('{files["orders"]}')
                WHERE amount < 90
        """)
        for output in COMPUTED:
            query = QUERIES[output]
            path = tmp_path / f"{output}.csv"
            export_stream(home.catalog, home.storage, output, path)  # type: ignore[arg-type]
            times = "" if output != "counts" else "REPLACE (epoch_us(window_start) AS window_start)"
            found = database.execute(f"SELECT * {times} FROM read_csv('{path}') ORDER BY ALL")
            rows = found.fetchall()
            assert rows
            assert rows == database.execute(f"SELECT * FROM ({query}) ORDER BY ALL").fetchall()


@pytest.mark.sweep
def test_certificates_of_lookups_are_made_by_duckdb(replayed: Checked) -> None:
    for made in converged(replayed, OUTPUTS, FEW):
        assert set(made.engines.values()) == {DUCKDB}
        assert made.figures["final_rows"] == made.figures["recomputed_rows"] > 0


@pytest.mark.long
def test_binary_values_behind_another_key_are_compared_by_the_certificate_too(
    replayer: Replayer,
) -> None:
    random = Random(3)
    columns = {"at_us": "bigint", "n": "decimal(10,2)", "tag": "binary"}
    lookup = Lookup(name="met", input="orders", table="rates", on=("n", "tag"), max_age="30s",
                    how="inner", columns={"at_us": "table.at_us", "tag": "input.tag"})  # fmt: skip
    network = Network(
        name="tags",
        sources=tuple(
            Source(name=name, columns=columns, time="at_us") for name in ("orders", "rates")
        ),
        boxes=(lookup,),
        outputs=(Output(name="found", input="met"),),
    )

    def records() -> pa.Table:
        rows = [
            {
                "at_us": random.randrange(-90, 90) * 1_000_000,
                "n": random.choice((None, Decimal("0.00"), Decimal("-5.25"))),
                "tag": random.choice((None, b"\x00\xff", b"\xff", b"a")),
            }
            for _ in range(150)
        ]
        schema = pa.schema(
            [("at_us", pa.int64()), ("n", pa.decimal128(10, 2)), ("tag", pa.binary())]
        )
        return pa.Table.from_pylist(rows, schema=schema)

    inputs = {
        name: parquet_files(replayer.folder / name, records()) for name in ("orders", "rates")
    }
    with checked_home(replayer, network, inputs, width_s=10) as checked:
        (made,) = converged(checked, ("found",), ("found",))
        assert made.figures["recomputed_rows"] > 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    long_but(
        0,
        [
            ("- 12000000L", "- 11999999L"),
            ("max(record)", "min(record)"),
            ("ORDER BY _stime, side", "ORDER BY _stime, -side"),
            ("WHERE `code` IS NOT NULL", "WHERE true"),
        ],
    ),
)
def test_a_fault_in_the_compiled_lookup_is_found_by_its_certificate(
    replayer: Replayer,
    inputs: dict[str, list[Path]],
    monkeypatch: pytest.MonkeyPatch,
    right: str,
    wrong: str,
) -> None:
    compile_fragment = compiler._Compiler.compile

    def compile_wrongly(self: compiler._Compiler) -> compiler.CompiledFragment:
        made = compile_fragment(self)
        statements = tuple(
            replace(one, sql=one.sql.replace(right, wrong)) for one in made.statements
        )
        assert any(right in sql for sql in (made.sql, *(s.sql for s in made.statements)))
        return replace(made, sql=made.sql.replace(right, wrong), statements=statements)

    monkeypatch.setattr(compiler._Compiler, "compile", compile_wrongly)
    with checked_home(replayer, a_network(), inputs, width_s=10) as checked:
        assert not checked.run().passed


@pytest.mark.parametrize("records_per_step_max", long_but(0, [25, 1, 250_000]))
def test_i1_i2_the_rows_of_lookups_are_the_same_however_steps_are_cut(
    replayer: Replayer,
    replayed: Checked,
    inputs: dict[str, list[Path]],
    records_per_step_max: int,
) -> None:
    whole = digests(replayed.home, a_network())
    with checked_home(
        replayer, a_network(), inputs, width_s=10, records_per_step_max=records_per_step_max
    ) as other:
        assert digests(other.home, a_network()) == whole
