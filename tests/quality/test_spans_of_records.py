"""A Running and an Every over a recorded file, against loops over the same records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest

from medusa_core.network import Aggregate, Every, Map, Network, Output, Running, Source
from pipelines.language.check import check_network, fragments_for
from pipelines.quality.recompute import DUCKDB, SPARK
from pipelines.spark import compiler
from pipelines.spark.step import StepEngine
from pipelines.storage.csv_export import export_stream
from tests.quality.homes import Checked, checked_home, converged
from tests.replaying import Replayer, digests
from tests.sweeps import IS_LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

S = 1_000_000
TICKS = {
    "ts_us": "bigint", "symbol": "string", "price": "double", "size": "int", "big": "bigint",
    "cost": "decimal(6,2)",
}  # fmt: skip
Tick = tuple[int, str | None, float | None, int | None, int | None, Decimal | None]
BIG = 2**63 - 1

NETWORK = Network(
    name="exchange",
    sources=(Source(name="ticks", columns=TICKS, time="ts_us"),),
    boxes=(
        Running(name="totals", input="ticks", by=("symbol",), within="25s",
                columns={"n": "count(*)", "sizes": "sum(size)", "costs": "sum(cost)",
                         "highest": "max(price)", "mean": "avg(size)", "first_size": "first(size)",
                         "large": "count(*) filter (where size > 1)",
                         "cheapest": "min_by(size, price)", "known": "last(size) ignore nulls"}),
        Running(name="sums", input="ticks", within="20s", columns={"total": "sum(big)"}),
        Running(name="shares", input="ticks", by=("symbol",), within="30s",
                columns={"share": "sum(100 / size)"}),
        Map(name="rounded", input="shares", columns={"symbol": "symbol",
                                                     "share": "round(share, 3)"}),
        Every(name="threes", input="ticks", by=("symbol",), n=3, within="40s",
              columns={"sizes": "sum(size)", "prices": "count(distinct price)",
                       "kinds": "count(distinct size)", "last_price": "last(price)"}),
        Every(name="fives", input="ticks", n=5, within="40s",
              columns={"total": "sum(big)", "all_sizes": "array_join(collect_list(size), ' ')",
                       "least": "min(100 / size)"}),
        Aggregate(name="newest", input="ticks", size="20s", advance="5s", group_by=("symbol",),
                  columns={"price": "last(price)", "size": "last(size)", "big": "last(big)",
                           "cost": "last(cost)", "ts": "last(ts_us)"}),
        Running(name="of_threes", input="threes", by=("symbol",), within="40s",
                columns={"so_far": "sum(sizes)"}),
    ),
    outputs=(
        Output(name="total_ticks", input="totals"),
        Output(name="sum_ticks", input="sums"),
        Output(name="share_ticks", input="rounded"),
        Output(name="three_ticks", input="threes"),
        Output(name="five_ticks", input="fives"),
        Output(name="three_totals", input="of_threes"),
        Output(name="newest_ticks", input="newest"),
    ),
)  # fmt: skip
OUTPUTS = tuple(output.name for output in NETWORK.outputs)
FEW = ("total_ticks", "five_ticks")
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
            random.choice([None, -0.0, 0.0, 1.5, -3.0]),
            random.choice([None, 0, 1, 2, 3]),
            random.choice([None, 1, BIG, -BIG, 2, -2]),
            random.choice([None, Decimal("1.10"), Decimal("-2.05")]),
        ))  # fmt: skip
    return found + random.sample(found, 20)


def write_file(folder: Path) -> dict[str, list[Path]]:
    """The ticks as a file."""
    folder.mkdir(parents=True)
    lines = [",".join("" if v is None else str(v) for v in tick) for tick in ticks()]
    path = folder / "ticks.csv"
    path.write_text("\n".join([",".join(TICKS), *lines]) + "\n")
    return {"ticks": [path]}


def canonical(row: tuple[object, ...]) -> list[tuple[bool, object]]:
    """NULL first, as columns are compared."""
    return [(value is not None, value if value is not None else 0) for value in row]


def as_read(row: tuple[object, ...]) -> list[object]:
    """Values as a file has them: decimals are doubles there, and -0.0 is 0.0."""
    return [value if value is None or isinstance(value, str) else float(value) + 0.0
            for value in row]  # type: ignore[arg-type]  # fmt: skip


Groups = dict[tuple[object, ...], list[Tick]]


def spans(within_s: int, *keys: int, given: list[Tick] | None = None) -> Groups:
    """The ticks of each span and key, in canonical order."""
    groups: Groups = defaultdict(list)
    for tick in sorted(ticks() if given is None else given, key=canonical):
        groups[tick[0] // (within_s * S), *(tick[key] for key in keys)].append(tick)
    return groups


def there(values: Iterator[object] | list[object]) -> list[object]:
    return [value for value in values if value is not None]


def sum_of(values: list[object]) -> object:
    return sum(there(values)) if there(values) else None  # type: ignore[call-overload]


def fits(total: object) -> bool:
    """Whether 64 bits hold the total."""
    return total is None or -BIG - 1 <= total <= BIG  # type: ignore[operator]


def cheapest(part: list[Tick]) -> object:
    """The size where the price is least, in the first such tick."""
    priced = [tick for tick in part if tick[2] is not None]
    return min(priced, key=lambda tick: tick[2] or 0.0)[3] if priced else None


def totals() -> Iterator[tuple[object, ...]]:
    for group in spans(25, 1).values():
        for number in range(1, len(group) + 1):
            part = group[:number]
            sizes = [tick[3] for tick in part]
            prices = there([tick[2] for tick in part])
            known = there(sizes)  # type: ignore[arg-type]
            mean = sum(known) / len(known) if known else None  # type: ignore[arg-type]
            yield (
                *part[-1], number, sum_of(sizes), sum_of([tick[5] for tick in part]),  # type: ignore[arg-type]
                max(prices) if prices else None, mean, sizes[0],  # type: ignore[type-var]
                sum(1 for size in sizes if size is not None and size > 1),
                cheapest(part), known[-1] if known else None,
            )  # fmt: skip


def sums() -> Iterator[tuple[object, ...]]:
    """Rows whose total leaves 64 bits are in quarantine, and those behind them are not."""
    for group in spans(20).values():
        for number in range(1, len(group) + 1):
            total = sum_of([tick[4] for tick in group[:number]])
            if fits(total):
                yield (*group[number - 1], total)


def usable() -> list[Tick]:
    """The ticks that can be divided by."""
    return [tick for tick in ticks() if tick[3] != 0]


def shares() -> Iterator[tuple[object, ...]]:
    for group in spans(30, 1, given=usable()).values():
        for number in range(1, len(group) + 1):
            known = there([tick[3] for tick in group[:number]])
            share = sum(100 / size for size in known)  # type: ignore[operator]
            yield (group[0][1], round(share, 3) if known else None)


def threes() -> Iterator[tuple[object, ...]]:
    for group in spans(40, 1).values():
        for end in range(3, len(group) + 1, 3):
            part = group[end - 3 : end]
            yield (
                part[0][1], sum_of([tick[3] for tick in part]),
                len(set(there([tick[2] for tick in part]))),
                len(set(there([tick[3] for tick in part]))), part[-1][2],
            )  # fmt: skip


def fives() -> Iterator[tuple[object, ...]]:
    for group in spans(40, given=usable()).values():
        for end in range(5, len(group) + 1, 5):
            part = group[end - 5 : end]
            total, sizes = sum_of([tick[4] for tick in part]), there([tick[3] for tick in part])
            if fits(total):
                least = min(100 / size for size in sizes) if sizes else None  # type: ignore[operator]
                yield (total, " ".join(map(str, sizes)), least)


def newest() -> Iterator[tuple[object, ...]]:
    """Each multiple of 5 s with the last tick of each symbol that is at most 20 s old.

    This is what a box for the newest record at regular times would give.
    """
    for end in range(-100 * S, 300 * S, 5 * S):
        inside = [tick for tick in ticks() if end - 20 * S <= tick[0] < end]
        for symbol in {tick[1] for tick in inside}:
            at, _, *values = max((t for t in inside if t[1] == symbol), key=canonical)
            yield (symbol, *values, at)


EXPECTED = {
    "total_ticks": totals, "sum_ticks": sums, "share_ticks": shares, "three_ticks": threes,
    "five_ticks": fives, "newest_ticks": newest,
}  # fmt: skip


@pytest.fixture(scope="module")
def inputs(folder: Path) -> dict[str, list[Path]]:
    return write_file(folder / "spans_input")


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    folder: Path,
    inputs: dict[str, list[Path]],
    interpreted: None,
) -> Iterator[Checked]:
    replayer = Replayer(postgres_server, spark, folder / "spans")
    with checked_home(
        replayer, NETWORK, inputs, width_s=10, records_per_step_max=100, few=FEW
    ) as checked:
        yield checked


@pytest.mark.sweep
def test_a_replay_gives_what_loops_over_the_file_give_row_by_row(
    replayed: Checked, tmp_path: Path
) -> None:
    for output in EXPECTED.keys() & COMPUTED:
        path = tmp_path / f"{output}.csv"
        export_stream(replayed.home.catalog, replayed.home.storage, output, path)  # type: ignore[arg-type]
        columns = "* EXCLUDE (window_start)" if output == "newest_ticks" else "*"
        found = duckdb.sql(f"SELECT {columns} FROM read_csv('{path}')").fetchall()
        made, rows = (sorted(map(as_read, each), key=str) for each in (found, EXPECTED[output]()))
        assert made == rows, output


@pytest.mark.sweep
def test_certificates_are_made_by_duckdb_and_where_it_cannot_by_a_batch_of_spark(
    replayed: Checked,
) -> None:
    engines: dict[str, str] = {}
    for made in converged(replayed, OUTPUTS, FEW):
        engines |= made.engines
        assert made.figures["final_rows"] == made.figures["recomputed_rows"] > 0
    by_spark = {box for box, engine in engines.items() if engine.startswith(SPARK)}
    assert by_spark == {"shares", "rounded", "fives"} & engines.keys() > set()
    assert {engines[box] for box in engines.keys() - by_spark} == {DUCKDB}


@pytest.mark.sweep
def test_what_a_record_or_a_row_fails_on_is_in_quarantine_once(replayed: Checked) -> None:
    failed = Counter((entry.origin, entry.reason) for entry in replayed.home.catalog.quarantined())
    zeros = len(ticks()) - len(usable())
    assert failed["box fives", "column least of box fives: division by zero"] == zeros > 0
    assert failed["box fives", "column total of box fives: overflow"] > 0
    if IS_LONG:
        lost = len(ticks()) - sum(1 for _ in sums())
        assert failed["box shares", "column share of box shares: division by zero"] == zeros
        assert failed["box sums", "column total of box sums: overflow"] == lost > 0


@pytest.mark.long
def test_their_job_is_planned_once(spark: SparkSession, tmp_path: Path) -> None:
    checked = check_network(NETWORK)
    (fragment,) = fragments_for(checked)
    columns = {s: checked.columns[port] for port, s in fragment.inputs.items()}
    assert StepEngine(spark, tmp_path, checked)._jobs_of(fragment).prepare(columns)


@pytest.mark.long
@pytest.mark.parametrize(
    ("box", "right", "wrong"),
    [
        ("totals", "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
        ("totals", "ROWS UNBOUNDED PRECEDING", "RANGE UNBOUNDED PRECEDING"),
        ("threes", "(first(_partial3) FILTER (WHERE _share = 0)) = 3",
         "(first(_partial3) FILTER (WHERE _share = 0)) >= 2"),
        ("threes", "- 1) div 3", "- 0) div 3"),
    ],
)  # fmt: skip
def test_a_fault_in_the_compiled_box_is_found_by_its_certificate(
    replayer: Replayer, monkeypatch: pytest.MonkeyPatch, inputs: dict[str, list[Path]],
    box: str, right: str, wrong: str,
) -> None:  # fmt: skip
    compile_fragment = compiler._Compiler.compile

    def compile_wrongly(self: compiler._Compiler) -> compiler.CompiledFragment:
        made = compile_fragment(self)
        assert right in made.sql, made.sql
        return replace(made, sql=made.sql.replace(right, wrong))

    monkeypatch.setattr(compiler._Compiler, "compile", compile_wrongly)
    one = NETWORK.box(box)
    alone = replace(NETWORK, boxes=(one,), outputs=(Output(name="result", input=box),))
    with checked_home(replayer, alone, inputs, width_s=10) as checked:
        assert not checked.run().passed


@pytest.mark.long
@pytest.mark.parametrize("records_per_step_max", [25, 250_000])
def test_i1_i2_rows_are_the_same_however_steps_are_cut(
    replayer: Replayer,
    replayed: Checked,
    inputs: dict[str, list[Path]],
    records_per_step_max: int,
) -> None:
    with checked_home(
        replayer, NETWORK, inputs, width_s=10, records_per_step_max=records_per_step_max
    ) as other:
        assert digests(other.home, NETWORK) == digests(replayed.home, NETWORK)
