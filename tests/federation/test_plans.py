"""A changed network takes effect at the bucket that was named, and nowhere before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Segment
from pipelines.base.settings import Settings
from pipelines.contracts.reach import PURPOSE
from pipelines.operations.contract_application import ApplyRequest, apply_contracts, beginning_of
from pipelines.participant.assembly import has_ended
from pipelines.participant.home_session import open_session
from pipelines.storage.arrow_schema import columns_of
from pipelines.storage.segment_rows import read_segments
from tests.federation.building import Running, rounds_until, seated
from tests.federation.processes import installation, kill
from tests.home_pool import home_pool
from tests.replaying import parquet_files
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

ORIGIN_S = 1_700_000_000
NETWORK = """
from medusa_core.network import Aggregate, Network, Output, Source

given = Source(name="given", columns={{"at_us": "bigint", "value": "int"}}, time="at_us")
sums = Aggregate(name="sums", input="given", size="10s", columns={{"most": "max(value) + {more}"}})
network = Network(name="changing", sources=(given,), boxes=(sums,),
                  outputs=(Output(name="most_values", input="sums"),))
"""


LIVE = """
from medusa_core.network import Aggregate, Network, Output, Source

given = Source(name="given", columns={{"ts_us": "bigint", "orig_h": "string"}}, time="ts_us")
counts = Aggregate(name="counts", input="given", size="2s", columns={{"n": "count(*) + {more}"}})
network = Network(name="live", sources=(given,), boxes=(counts,),
                  outputs=(Output(name="counted", input="counts"),))
"""
COUNTED = StreamName("counted")


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
        f"stream: given\nretention: 20s\n"
        f"source:\n  kind: replay\n  paths: ['{file}']\n  speed: 1000000000\n"
    )
    return folder


@pytest.fixture
def settings(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Settings]:
    with home_pool(postgres_server, tmp_path / "plans", Participant("solo")) as made:
        yield made


def apply(settings: Settings, contracts: Path, more: int, from_: str | None = None) -> None:
    (contracts / "changing.py").write_text(NETWORK.format(more=more))
    apply_contracts(settings, ApplyRequest(contracts=contracts, begins=beginning_of(from_)))


def test_buckets_before_the_named_one_are_computed_under_the_plan_before(
    settings: Settings, contracts: Path, spark: SparkSession
) -> None:
    apply(settings, contracts, more=1)
    with seated(settings, "solo", lambda: spark) as solo:
        rounds_until([solo], lambda: bool(solo.heard.landed))
    apply(settings, contracts, more=100, from_=str(ORIGIN_S + 50))
    with seated(settings, "solo", lambda: spark) as solo:
        rounds_until([solo], lambda: has_ended(solo.home_session))
        home = solo.home_session.home
        segments = home.catalog.segments(StreamName("most_values"))
        columns = columns_of("most_values", {"window_start": "timestamp", "most": "int"})
        rows = pa.concat_tables(read_segments(home.storage, segments, columns)).to_pylist()
        begun_s = {int(row["window_start"].timestamp()) - ORIGIN_S: row["most"] for row in rows}
        plans = {segment.plan for segment in segments}
        solo.home_session.home.catalog.release_hold(StreamName("given"), "changing", PURPOSE)
        run_until(solo, lambda: kept_from_s(solo, "given") == 80)
        assert kept_from_s(solo, "most_values") == 0, "it has no retention"
    assert begun_s == {at: 1 if at < 50 else 100 for at in range(0, 100, 10)}
    assert len(plans) == 2
    with pytest.raises(Refused, match="ended"):
        apply(settings, contracts, more=7, from_=str(ORIGIN_S + 60))


def run_until(running: Running, is_done: Callable[[], bool]) -> None:
    """Let the loop go on by itself, as a process does, until something holds."""
    give_up_s = time.monotonic() + 180

    def is_over() -> bool:
        assert time.monotonic() < give_up_s, f"waited in vain; it said {running.heard.errors}"
        return is_done()

    running.loop.run(is_done=is_over, wait=lambda limit_ms: None, recover=lambda error: None)


def kept_from_s(running: Running, stream: str) -> int:
    """From when on a stream is kept, in seconds behind its origin."""
    lines = running.home_session.home.catalog.streams()
    kept_us = next(line.kept_from_us for line in lines if line.stream.name == stream)
    assert kept_us is not None
    return kept_us // 1_000_000 - ORIGIN_S


@pytest.mark.long
def test_a_running_participant_takes_up_a_changed_network_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    for kind in ("participants", "streams"):
        (folder / kind).mkdir(parents=True)
    (folder / "participants" / "solo.yaml").write_text(
        "participant: solo\nruns:\n  - network: live.py\n    bucket: 2s\n"
        "    sources: [given]\n    fragments: [main]\n"
    )
    (folder / "streams" / "given.yaml").write_text(
        "stream: given\nsource:\n  kind: generate\n  rate_per_s: 20\n  disorder: 6s\n"
    )
    (folder / "live.py").write_text(LIVE.format(more=0))
    with installation(folder) as installed:

        def counted() -> tuple[Segment, ...]:
            with open_session(installed.settings, Participant("solo")) as session:
                return session.home.catalog.segments(COUNTED)

        process = installed.start("solo")
        try:
            until(counted, "something is counted under the first plan", seconds_max=180)
            (folder / "live.py").write_text(LIVE.format(more=1_000_000))
            apply_contracts(
                installed.settings, ApplyRequest(contracts=folder, begins=beginning_of("now"))
            )
            until(
                lambda: len({segment.plan for segment in counted()}) == 2,
                "something is counted under the second plan",
                seconds_max=180,
            )
            assert process.poll() is None, "it is the same process"
        finally:
            kill(process)
        with open_session(installed.settings, Participant("solo")) as session:
            catalog = session.home.catalog
            segments, (line,) = catalog.segments(COUNTED), [
                a for a in catalog.assignments() if a.fragment == "live/main"
            ]  # fmt: skip
            columns = columns_of(COUNTED, {"window_start": "timestamp", "n": "bigint"})
            tables = read_segments(session.home.storage, segments, columns)
            rows = pa.concat_tables(tables).to_pylist()
    assert line.from_us is not None
    assert {s.plan == line.plan for s in segments if s.range.from_us >= line.from_us} == {True}
    assert {s.plan == line.plan for s in segments if s.range.from_us < line.from_us} == {False}
    assert all(s.range.to_us <= line.from_us for s in segments if s.plan != line.plan)
    begins = [(int(row["window_start"].timestamp()) * 1_000_000, row["n"]) for row in rows]
    assert all((n >= 1_000_000) is (at_us >= line.from_us) for at_us, n in begins)
    assert [s.range.from_us for s in segments[1:]] == [s.range.to_us for s in segments[:-1]]


@pytest.mark.long
def test_after_an_upgrade_of_the_engine_what_is_left_is_computed_under_the_new_plan(
    settings: Settings, contracts: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(settings, contracts, more=1)
    with seated(settings, "solo", lambda: spark) as solo:
        rounds_until([solo], lambda: bool(solo.heard.landed))
    monkeypatch.setattr(
        "pipelines.spark.deployment.compiled_fingerprint", lambda *_: "a later compiler"
    )
    with (
        pytest.raises(Refused, match="apply the contracts again"),
        seated(settings, "solo", lambda: spark),
    ):
        pass
    apply(settings, contracts, more=1, from_=str(ORIGIN_S + 50))
    with seated(settings, "solo", lambda: spark) as solo:
        rounds_until([solo], lambda: has_ended(solo.home_session))
        segments = solo.home_session.home.catalog.segments(StreamName("most_values"))
        (newest,) = {a.plan for a in solo.home_session.home.catalog.assignments()}
        assert {segment.plan for segment in segments} == {newest}
        assert sum(segment.digest.rows for segment in segments) == 10
