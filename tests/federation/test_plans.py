"""A changed network takes effect at the bucket that was named, and nowhere before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.commands.apply import run_apply
from pipelines.exporting import read_segments
from pipelines.running import has_ended
from pipelines.settings import Settings
from pipelines.streams.schemas import columns_of
from tests.federation.building import federation_of, rounds_until, seated
from tests.replaying import parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server import EmbeddedServer

ORIGIN_S = 1_700_000_000
NETWORK = """
from medusa_core.network import Aggregate, Network, Output, Source

given = Source(name="given", columns={{"at_us": "bigint", "value": "int"}}, time="at_us")
sums = Aggregate(name="sums", input="given", size="10s", columns={{"most": "max(value) + {more}"}})
network = Network(name="changing", sources=(given,), boxes=(sums,),
                  outputs=(Output(name="most_values", input="sums"),))
"""


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    folder = tmp_path / "contracts"
    for kind in ("participants", "streams"):
        (folder / kind).mkdir(parents=True)
    times = [(ORIGIN_S + at) * 1_000_000 for at in range(100)]
    table = pa.table({"at_us": times, "value": pa.array([0] * 100, pa.int32())})
    (file,) = parquet_files(tmp_path / "in", table)
    (folder / "participants" / "solo.yaml").write_text(
        "participant: solo\nruns:\n  - network: changing.py\n    bucket: 10s\n"
        "    sources: [given]\n    fragments: [main]\n"
    )
    (folder / "streams" / "given.yaml").write_text(
        f"stream: given\nsource:\n  kind: replay\n  paths: ['{file}']\n  speed: 1000000000\n"
    )
    return folder


@pytest.fixture
def settings(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Settings]:
    with federation_of(postgres_server, tmp_path / "plans") as made:
        yield made


def apply(settings: Settings, contracts: Path, more: int, from_: str | None = None) -> None:
    (contracts / "changing.py").write_text(NETWORK.format(more=more))
    run_apply(
        settings, contracts=contracts, participant=None, from_=from_, explain=False, as_json=True
    )


def test_buckets_before_the_named_one_are_computed_under_the_plan_before(
    settings: Settings, contracts: Path, spark: SparkSession
) -> None:
    apply(settings, contracts, more=1)
    with seated(settings, "solo", lambda: spark) as solo:
        rounds_until([solo], lambda: bool(solo.heard.landed))
    apply(settings, contracts, more=100, from_=str(ORIGIN_S + 50))
    with seated(settings, "solo", lambda: spark) as solo:
        rounds_until([solo], lambda: has_ended(solo.seat))
        home = solo.seat.home
        segments = home.catalog.segments(StreamName("most_values"))
        columns = columns_of("most_values", {"window_start": "timestamp", "most": "int"})
        rows = pa.concat_tables(read_segments(home.storage, segments, columns)).to_pylist()
        begun_s = {int(row["window_start"].timestamp()) - ORIGIN_S: row["most"] for row in rows}
        plans = {segment.plan for segment in segments}
    assert begun_s == {at: 1 if at < 50 else 100 for at in range(0, 100, 10)}
    assert len(plans) == 2
    with pytest.raises(Refused, match="ended"):
        apply(settings, contracts, more=7, from_=str(ORIGIN_S + 60))


def test_after_an_upgrade_of_the_engine_what_is_left_is_computed_under_the_new_plan(
    settings: Settings, contracts: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(settings, contracts, more=1)
    with seated(settings, "solo", lambda: spark) as solo:
        rounds_until([solo], lambda: bool(solo.heard.landed))
    monkeypatch.setattr("pipelines.deploying.compiled_fingerprint", lambda *_: "a later compiler")
    with (
        pytest.raises(Refused, match="apply the contracts again"),
        seated(settings, "solo", lambda: spark),
    ):
        pass
    apply(settings, contracts, more=1, from_=str(ORIGIN_S + 50))
    with seated(settings, "solo", lambda: spark) as solo:
        rounds_until([solo], lambda: has_ended(solo.seat))
        segments = solo.seat.home.catalog.segments(StreamName("most_values"))
        (newest,) = {a.plan for a in solo.seat.home.catalog.assignments()}
        assert {segment.plan for segment in segments} == {newest}
        assert sum(segment.digest.rows for segment in segments) == 10
