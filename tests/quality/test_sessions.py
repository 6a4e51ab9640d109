"""Sessions over a recorded file, against loops over the same records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING

import duckdb
import pytest

from medusa_core.network import Aggregate, Filter, Network, Output, Session, Source
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
GAP, LENGTH = 5 * S, 20 * S
CLICKS = {"ts_us": "bigint", "user": "string", "price": "double", "size": "int"}
Click = tuple[int, str | None, float | None, int | None]
Row = tuple[object, ...]

NETWORK = Network(
    name="shop",
    sources=(Source(name="clicks", columns=CLICKS, time="ts_us"),),
    boxes=(
        Session(name="visits", input="clicks", by=("user",), gap="5s", length_max="20s",
                columns={"n": "count(*)", "total": "sum(size)", "newest": "last(size)",
                         "prices": "count(distinct price)"}),
        Session(name="busy", input="clicks", gap="2s", length_max="1m",
                columns={"n": "count(*)", "users": "count(distinct user)"}),
        Session(name="alike", input="clicks", by=("price", "user"), gap="5s", length_max="20s",
                columns={"n": "count(*)", "middle": "round(median(size), 1)"}),
        Session(name="shared", input="clicks", by=("user",), gap="5s", length_max="20s",
                columns={"each": "sum(100 div size) div (count(*) - 3)"}),
        Filter(name="long_visit", input="visits", cases={"yes": "n >= 3"}),
        Aggregate(name="visitors", input="visits", size="30s", columns={"n": "count(user)"}),
    ),
    outputs=(
        Output(name="visits_of_users", input="visits"),
        Output(name="busy_times", input="busy"),
        Output(name="clicks_alike", input="alike"),
        Output(name="shares", input="shared"),
        Output(name="long_visits", input="long_visit"),
        Output(name="visitors_of_windows", input="visitors"),
    ),
)  # fmt: skip
OUTPUTS = tuple(output.name for output in NETWORK.outputs)
FEW = ("visits_of_users", "clicks_alike")
"""The outputs that `make test` computes."""
COMPUTED = OUTPUTS if IS_LONG else FEW


def clicks() -> list[Click]:
    """Clicks around 1970 with NULLs, both zeros, ties and equal records, distances of exactly a
    gap, a user whose clicks never stop, and a break of minutes."""
    random = Random(11)
    found: list[Click] = []
    for _ in range(150):
        at_s = random.choice((random.randrange(-90, 0), random.randrange(200, 260)))
        found.append((
            at_s * S + random.choice((0, 0, 0, 1, -1, 999_999)),
            random.choice(["a", "b", "c d", None]),
            random.choice([None, -0.0, 0.0, 1.5]),
            random.choice([None, 0, 1, 2, 3]),
        ))  # fmt: skip
    found += [(at * S, "flood", 0.5, 1) for at in range(-77, 40, 4)]
    found += [(at * S, "slow", 0.5, 1) for at in range(-70, 0, 5)]
    return found + random.sample(found, 20)


def write_file(folder: Path) -> dict[str, list[Path]]:
    """The clicks as a file."""
    folder.mkdir(parents=True)
    lines = [",".join("" if v is None else str(v) for v in click) for click in clicks()]
    path = folder / "clicks.csv"
    path.write_text("\n".join(["ts_us,user,price,size", *lines]) + "\n")
    return {"clicks": [path]}


def in_order(row: Row) -> list[tuple[bool, object]]:
    """NULL first, as columns are compared where nothing else decides."""
    return [(value is not None, value if value is not None else 0) for value in row]


def sessions(
    records: list[Click], keys: tuple[int, ...], gap: int = GAP, length: int = LENGTH
) -> Iterator[tuple[Row, list[Click]]]:
    """Bounds and key of each session, and its clicks in canonical order."""
    by_key: dict[Row, list[Click]] = {}
    for click in sorted(records, key=in_order):
        by_key.setdefault(tuple(click[at] for at in keys), []).append(click)
    for key, own in by_key.items():
        pieces: list[list[Click]] = []
        before = cut = own[0][0] - gap
        for click in own:
            multiple = click[0] // length * length
            if click[0] - before >= gap:
                cut = click[0] + length
                pieces.append([])
            elif before < cut <= click[0] or multiple > max(before, cut):
                pieces.append([])
            pieces[-1].append(click)
            before = click[0]
        for piece in pieces:
            yield (piece[0][0], piece[-1][0] + gap, *key), piece


def sizes(piece: list[Click]) -> list[int]:
    return [size for *_, size in piece if size is not None]


def visits() -> list[Row]:
    return [
        (*bounds, len(piece), sum(sizes(piece)) if sizes(piece) else None, piece[-1][3],
         len({price for _, _, price, _ in piece if price is not None}))
        for bounds, piece in sessions(clicks(), (1,))
    ]  # fmt: skip


def busy() -> list[Row]:
    return [
        (*bounds, len(piece), len({user for _, user, *_ in piece if user is not None}))
        for bounds, piece in sessions(clicks(), (), 2 * S, 60 * S)
    ]


def alike() -> list[Row]:
    return [
        (*bounds, len(piece), median(sizes(piece)) if sizes(piece) else None)
        for bounds, piece in sessions(clicks(), (2, 1))
    ]


def shares() -> list[Row]:
    """A click of size 0 is in no session, and a session of three clicks fails as a whole, unless
    it has no size at all: NULL divided by 0 is NULL."""
    good = [click for click in clicks() if click[3] != 0]
    found: list[Row] = []
    for bounds, piece in sessions(good, (1,)):
        if not sizes(piece):
            found.append((*bounds, None))
        elif len(piece) != 3:
            total = sum(100 // size for size in sizes(piece))
            found.append((*bounds, int(total / (len(piece) - 3))))
    return found


def visitors() -> list[Row]:
    found: dict[int, int] = {}
    for (_, end, user), _ in sessions(clicks(), (1,)):
        start = (end - 1) // (30 * S) * 30 * S
        found[start] = found.get(start, 0) + (user is not None)
    return list(found.items())


@pytest.fixture(scope="module")
def inputs(folder: Path) -> dict[str, list[Path]]:
    return write_file(folder / "sessions_input")


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    folder: Path,
    inputs: dict[str, list[Path]],
    interpreted: None,
) -> Iterator[Checked]:
    replayer = Replayer(postgres_server, spark, folder / "sessions")
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
        "visits_of_users": visits(),
        "busy_times": busy(),
        "clicks_alike": alike(),
        "shares": shares(),
        "long_visits": [row for row in visits() if row[3] >= 3],
        "visitors_of_windows": visitors(),
    }
    for output in COMPUTED:
        path = tmp_path / f"{output}.csv"
        export_stream(home.catalog, home.storage, output, path)  # type: ignore[arg-type]
        bounds = ["window_start", *(["window_end"] if output != "visitors_of_windows" else [])]
        times = ", ".join(f"epoch_us({name}) AS {name}" for name in bounds)
        given = f"SELECT * REPLACE ({times}) FROM read_csv('{path}')"
        found = duckdb.sql(given).fetchall()
        assert sorted(map(in_order, found)) == sorted(map(in_order, expected[output])), output


@pytest.mark.long
def test_certificates_of_sessions_are_made_by_the_other_engine_where_it_can(
    replayed: Checked,
) -> None:
    for made in converged(replayed, OUTPUTS, FEW):
        assert made.figures["final_rows"] == made.figures["recomputed_rows"] > 0
        by_spark = {name for name, engine in made.engines.items() if engine != DUCKDB}
        assert by_spark == ({"alike"} if made.stream == "clicks_alike" else set())


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
            (">= 5000000L", "> 5000000L"),
            ("_stime < _first_us + 20000000L", "_stime <= _first_us + 20000000L"),
            ("PARTITION BY `user` ORDER BY", "ORDER BY"),
        ],
    ),
)
def test_a_fault_in_the_compiled_session_is_found_by_its_certificate(
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
def test_i1_i2_sessions_are_the_same_however_steps_are_cut(
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
