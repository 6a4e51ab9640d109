"""A replay whose files are objects gives what one on local disk gives, also without its copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from medusa_core.network import Aggregate, Network, Output, Source
from pipelines.homes.home import Home
from pipelines.language.check import check_network
from pipelines.sources.landing import NAMED_ROWS_MIN
from pipelines.storage.segment_rows import read_segments
from tests.replaying import Replayer, parquet_files
from tests.storage.object_server import Fault, ObjectServer, keys_file, object_server

ROWS = NAMED_ROWS_MIN + 4_000
NETWORK = Network(
    name="counted",
    sources=(Source(name="given", columns={"at_us": "bigint", "key": "int"}, time="at_us"),),
    boxes=(
        Aggregate(
            name="per_key", input="given", size="60s", group_by=("key",),
            columns={"n": "count(*)", "last": "max(at_us)"},
        ),
    ),
    outputs=(Output(name="answers", input="per_key"),),
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


def digests(home: Home) -> Mapping[str, object]:
    return {
        stream: {at: d for s in home.catalog.segments(stream) for at, d in s.buckets.items()}  # type: ignore[arg-type]
        for stream in ("given", "answers")
    }


def rows(home: Home) -> list[str]:
    segments = home.catalog.segments("answers")  # type: ignore[arg-type]
    columns = check_network(NETWORK).columns_of_output("answers")
    tables = read_segments(home.storage, segments, columns)
    return sorted(str(row) for table in tables for row in table.to_pylist())


@pytest.mark.usefixtures("interpreted")
def test_a_replay_over_objects_has_the_digests_of_one_on_disk(
    replayer: Replayer, server: ObjectServer, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "at_us": pa.array([1_000_000 + 10_000 * at for at in range(ROWS)], pa.int64()),
            "key": pa.array([at % 7 for at in range(ROWS)], pa.int32()),
        }
    )
    files = parquet_files(replayer.folder / "in", table)
    with replayer.home("disk") as home:
        replayer.run(home, NETWORK, {"given": files})
        expected = digests(home), rows(home)
    with replayer.home("objects") as home:
        prefix = "replayed"
        server.settings(prefix, credentials=str(keys_file(tmp_path / "keys"))).write(home.storage)
        server.faults += [Fault("PUT", "slow-down"), Fault("PUT", "lost"), Fault("PUT", "lost")]
        replayer.run(home, NETWORK, {"given": files})
        assert not server.faults
        named = {
            file.path
            for stream in ("given", "answers")
            for segment in home.catalog.segments(stream)  # type: ignore[arg-type]
            for file in segment.files
        }
        assert named <= set(server.objects(prefix))
        for path in home.storage.rglob("*.parquet"):
            path.unlink()
        server.faults += [Fault("GET", "cut"), Fault("GET", "slow-down")]
        assert (digests(home), rows(home)) == expected
        assert not server.faults
