"""A network with calendar windows, replayed from a file, against DuckDB's own time zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from medusa_core.calendar_windows import PERIODS
from medusa_core.network import Aggregate, Network, Output, Source
from pipelines.language.zone_database import with_zone_offsets
from pipelines.quality.recompute import DUCKDB
from pipelines.spark import compiler
from tests.quality.homes import Checked, checked_home, converged
from tests.replaying import Replayer, digests
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

ZONE = ZoneInfo("Europe/Berlin")
CHANGES = (datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


FEW = ("per_day_rows", "months_rows")
"""The outputs that `make test` computes."""


def a_network() -> Network:
    """Periods, days by key, and weeks in a zone that skips midnight."""
    boxes = tuple(
        Aggregate(name=f"per_{every}", input="records", every=every, zone="Europe/Berlin",
                  group_by=("k",), columns={"n": "count(*)", "total": "sum(v)"})
        for every in PERIODS
    )  # fmt: skip
    newest = Aggregate(name="newest", input="records", every="week", zone="Asia/Beirut",
                       columns={"last_v": "max_by(v, k)"})  # fmt: skip
    months = Aggregate(name="months", input="per_day", every="month", zone="Europe/Berlin",
                       columns={"days": "count(*)", "most": "max(n)"})  # fmt: skip
    boxes = (*boxes, newest, months)
    return with_zone_offsets(
        Network(
            name="calendar",
            sources=(Source(name="records", columns={"at_us": "bigint", "k": "string", "v": "int"},
                            time="at_us"),),
            boxes=boxes,
            outputs=tuple(Output(name=f"{b.name}_rows", input=b.name) for b in boxes),
        )
    )  # fmt: skip


def records() -> list[tuple[int, str, int]]:
    """Records around both changes of the clocks, at bounds of days, and around 1970."""
    random = Random(7)
    found = []
    for middle in (*CHANGES, datetime(1969, 12, 31, 23, tzinfo=UTC)):
        start_us = (middle - EPOCH) // timedelta(microseconds=1)
        for hours in range(-30, 31):
            away_us = random.choice((0, 0, -1, 1, 1_799_999_999))
            at_us = start_us + hours * 3_600_000_000 + away_us
            found.append((at_us, random.choice("ab"), random.randrange(50)))
    return found


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    path = tmp_path_factory.mktemp("calendar") / "records.csv"
    lines = [f"{at_us},{k},{v}" for at_us, k, v in records()]
    path.write_text("\n".join(["at_us,k,v", *lines]) + "\n")
    return {"records": [path]}


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    folder: Path,
    inputs: dict[str, list[Path]],
    interpreted: None,
) -> Iterator[Checked]:
    replayer = Replayer(postgres_server, spark, folder / "calendar")
    with checked_home(
        replayer, a_network(), inputs, width_s=1_800, records_per_step_max=100, few=FEW
    ) as checked:
        yield checked


def test_a_replay_gives_the_days_of_the_clocks_row_by_row(
    replayed: Checked, tmp_path: Path
) -> None:
    """The date of each record is that of its clock time; a day starts at its midnight."""
    path = tmp_path / "days.csv"
    from pipelines.storage.csv_export import export_stream

    export_stream(replayed.home.catalog, replayed.home.storage, "per_day_rows", path)  # type: ignore[arg-type]
    header, *rows = path.read_text().splitlines()
    assert header == "window_start,k,n,total"
    expected: Counter[tuple[datetime, str]] = Counter()
    totals: Counter[tuple[datetime, str]] = Counter()
    for at_us, k, v in records():
        clock = (EPOCH + timedelta(microseconds=at_us)).astimezone(ZONE)
        midnight = clock.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        expected[midnight.astimezone(UTC), k] += 1
        totals[midnight.astimezone(UTC), k] += v
    found = {}
    for row in rows:
        start, k, n, total = row.split(",")
        found[datetime.fromisoformat(start).astimezone(UTC), k] = (int(n), int(total))
    assert found == {key: (expected[key], totals[key]) for key in expected}


@pytest.mark.sweep
def test_certificates_of_calendar_windows_are_made_by_the_other_engine(replayed: Checked) -> None:
    outputs = tuple(output.name for output in a_network().outputs)
    for made in converged(replayed, outputs, FEW[1:]):
        assert made.figures["final_rows"] == made.figures["recomputed_rows"] > 0
        assert set(made.engines.values()) == {DUCKDB}


@pytest.mark.long
def test_a_fault_in_the_compiled_windows_is_found_by_their_certificate(
    replayer: Replayer, inputs: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that knows of no summer time."""
    compile_fragment = compiler._Compiler.compile

    def compile_wrongly(self: compiler._Compiler) -> compiler.CompiledFragment:
        made = compile_fragment(self)
        assert ",7200" in made.sql
        return replace(made, sql=made.sql.replace(",7200000000", ",3600000000"))

    monkeypatch.setattr(compiler._Compiler, "compile", compile_wrongly)
    with checked_home(replayer, a_network(), inputs, width_s=1_800) as checked:
        assert not checked.run().passed


@pytest.mark.parametrize("records_per_step_max", long_but(0, [250_000, 40]))
def test_i1_i2_the_rows_are_the_same_however_steps_are_cut(
    replayer: Replayer,
    replayed: Checked,
    inputs: dict[str, list[Path]],
    records_per_step_max: int,
) -> None:
    whole = digests(replayed.home, a_network())
    with checked_home(
        replayer, a_network(), inputs, width_s=1_800, records_per_step_max=records_per_step_max
    ) as other:
        assert digests(other.home, a_network()) == whole
