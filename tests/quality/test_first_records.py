"""Ranks and a Deduplicate over a recorded file, against loops over the same records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest

from medusa_core.network import Aggregate, Deduplicate, Filter, Network, Output, Rank, Source
from pipelines.language.check import check_network, fragments_for
from pipelines.quality.recompute import DUCKDB
from pipelines.spark import compiler
from pipelines.spark.step import StepEngine
from pipelines.storage.csv_export import export_stream
from tests.quality.homes import Checked, checked_home, converged
from tests.replaying import Replayer, digests
from tests.sweeps import IS_LONG, long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

S = 1_000_000
TICKS = {"ts_us": "bigint", "symbol": "string", "price": "double", "size": "int"}
Tick = tuple[int, str | None, float | None, int | None]

NETWORK = Network(
    name="exchange",
    sources=(Source(name="ticks", columns=TICKS, time="ts_us"),),
    boxes=(
        Rank(name="dearest", input="ticks", size="20s", group_by=("symbol",),
             order=("price desc",), k=2),
        Rank(name="smallest", input="ticks", size="30s", advance="10s", order=("size", "symbol"),
             k=3, column="place"),
        Aggregate(name="traded", input="ticks", size="20s", group_by=("symbol",),
                  columns={"n": "count(*)"}),
        Rank(name="busiest", input="traded", size="20s", order=("n desc",), k=1),
        Deduplicate(name="once", input="ticks", by=("symbol", "price"), within="25s"),
        Filter(name="first_place", input="smallest", cases={"yes": "place = 1"}),
    ),
    outputs=(
        Output(name="dearest_ticks", input="dearest"),
        Output(name="smallest_ticks", input="smallest"),
        Output(name="busiest_symbols", input="busiest"),
        Output(name="winners", input="first_place"),
        Output(name="first_ticks", input="once"),
    ),
)  # fmt: skip
OUTPUTS = tuple(output.name for output in NETWORK.outputs)
FEW = ("busiest_symbols", "first_ticks")
"""The outputs that `make test` computes."""
COMPUTED = OUTPUTS if IS_LONG else FEW


def ticks() -> list[Tick]:
    """Ticks around 1970 with NULLs, both zeros, ties, equal records, and a gap of minutes."""
    random = Random(7)
    found: list[Tick] = []
    for _ in range(260):
        at_s = random.choice((random.randrange(-90, 0), random.randrange(200, 260)))
        found.append((
            at_s * S + random.choice((0, 0, 1, -1, 999_999)),
            random.choice(["a", "b", "c d", None]),
            random.choice([None, -0.0, 0.0, 1.5, 2.5, -3.0]),
            random.choice([None, 1, 2, 3]),
        ))  # fmt: skip
    return found + random.sample(found, 20)


def write_file(folder: Path) -> dict[str, list[Path]]:
    """The ticks as a file."""
    folder.mkdir(parents=True)
    lines = [",".join("" if v is None else str(v) for v in tick) for tick in ticks()]
    path = folder / "ticks.csv"
    path.write_text("\n".join(["ts_us,symbol,price,size", *lines]) + "\n")
    return {"ticks": [path]}


def text_order(value: object) -> tuple[bool, object]:
    """NULL first, as columns are compared where nothing else decides."""
    return (value is not None, value if value is not None else 0)


def canonical(tick: Tick) -> list[tuple[bool, object]]:
    return [text_order(value) for value in tick]


def starts(size_s: int, advance_s: int) -> Iterator[tuple[int, list[Tick]]]:
    """Every window with ticks, in canonical order."""
    for start in range(-180 * S, 300 * S, advance_s * S):
        inside = [tick for tick in ticks() if start <= tick[0] < start + size_s * S]
        if inside:
            yield start, sorted(inside, key=canonical)


def dearest() -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for start, inside in starts(20, 20):
        for symbol in {tick[1] for tick in inside}:
            alike = [tick for tick in inside if tick[1] == symbol]
            alike.sort(key=lambda t: (t[2] is None, -(t[2] or 0.0)))
            found += [(start, *tick, at) for at, tick in enumerate(alike[:2], start=1)]
    return found


def smallest() -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for start, inside in starts(30, 10):
        inside.sort(key=lambda t: (t[3] is None, t[3] or 0, t[1] is None, t[1] or ""))
        found += [(start, *tick, at) for at, tick in enumerate(inside[:3], start=1)]
    return found


def busiest() -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for start, inside in starts(20, 20):
        symbols = [tick[1] for tick in inside]
        counted = {symbol: symbols.count(symbol) for symbol in symbols}
        symbol, n = min(counted.items(), key=lambda one: (-one[1], text_order(one[0])))
        found.append((start, symbol, n, 1))
    return found


def once() -> list[tuple[object, ...]]:
    found: dict[tuple[object, ...], Tick] = {}
    for tick in sorted(ticks(), key=canonical):
        found.setdefault((tick[0] // (25 * S), tick[1], tick[2]), tick)
    return list(found.values())


@pytest.fixture(scope="module")
def inputs(folder: Path) -> dict[str, list[Path]]:
    return write_file(folder / "first_records_input")


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    folder: Path,
    inputs: dict[str, list[Path]],
    interpreted: None,
) -> Iterator[Checked]:
    replayer = Replayer(postgres_server, spark, folder / "first_records")
    with checked_home(
        replayer, NETWORK, inputs, width_s=10, records_per_step_max=120, few=FEW
    ) as checked:
        yield checked


@pytest.mark.sweep
def test_a_replay_gives_what_loops_over_the_file_give_row_by_row(
    replayed: Checked, tmp_path: Path
) -> None:
    home = replayed.home
    expected = {
        "dearest_ticks": dearest(),
        "smallest_ticks": smallest(),
        "busiest_symbols": busiest(),
        "winners": [row for row in smallest() if row[-1] == 1],
        "first_ticks": once(),
    }
    for output in COMPUTED:
        path = tmp_path / f"{output}.csv"
        export_stream(home.catalog, home.storage, output, path)  # type: ignore[arg-type]
        start = "REPLACE (epoch_us(window_start) AS window_start)"
        times = "" if output == "first_ticks" else start
        found = duckdb.sql(f"SELECT * {times} FROM read_csv('{path}')").fetchall()
        assert sorted(map(canonical, found)) == sorted(map(canonical, expected[output])), output  # type: ignore[arg-type]


@pytest.mark.long
def test_certificates_of_first_records_are_made_by_duckdb(replayed: Checked) -> None:
    for made in converged(replayed, OUTPUTS, FEW):
        assert set(made.engines.values()) == {DUCKDB}
        assert made.figures["final_rows"] == made.figures["recomputed_rows"] > 0


@pytest.mark.long
def test_their_job_is_planned_once(spark: SparkSession, tmp_path: Path) -> None:
    checked = check_network(NETWORK)
    (fragment,) = fragments_for(checked)
    columns = {s: checked.columns[port] for port, s in fragment.inputs.items()}
    assert StepEngine(spark, tmp_path, checked)._jobs_of(fragment).prepare(columns)


@pytest.mark.parametrize(
    ("right", "wrong"),
    long_but(
        0,
        [
            ("DESC NULLS LAST", "DESC NULLS FIRST"),
            ("_rank <= 2", "_rank <= 1"),
            ("PARTITION BY _window_us, `symbol`", "PARTITION BY _window_us"),
        ],
    ),
)
def test_a_fault_in_the_compiled_rank_is_found_by_its_certificate(
    replayer: Replayer,
    inputs: dict[str, list[Path]],
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
    alone = replace(NETWORK, boxes=NETWORK.boxes[:1], outputs=NETWORK.outputs[:1])
    with checked_home(replayer, alone, inputs, width_s=10) as checked:
        assert not checked.run().passed


@pytest.mark.parametrize("records_per_step_max", long_but(0, [25, 1, 250_000]))
def test_i1_i2_first_records_are_the_same_however_steps_are_cut(
    replayer: Replayer,
    replayed: Checked,
    inputs: dict[str, list[Path]],
    records_per_step_max: int,
) -> None:
    whole = digests(replayed.home, NETWORK)
    with checked_home(
        replayer, NETWORK, inputs, width_s=10, records_per_step_max=records_per_step_max
    ) as other:
        assert digests(other.home, NETWORK) == whole
