"""The recorded connections of a server, 4,753 of which are late by more than a minute.

Exported in order of their end, they have the time of their beginning. With late records as
revisions, the answers are those of the whole recording, byte for byte: those were computed
elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from medusa_core.names import StreamName
from pipelines.base.settings import Settings
from pipelines.homes.home import open_home
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.storage.csv_export import export_stream
from tests.federation.building import federation_of
from tests.revisions.late_home import HERE, ending_of, run_to_the_end, write_contracts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

ZEEK = Settings.from_environment(os.environ).test_data / "netmon-zeek-server"
CONNECTIONS = StreamName("connections")
LATE, MINUTE_US = 4_753, 60_000_000
ANSWERS = {
    "busy_sources": "connections_gt_100.csv",
    "scanning_sources": "ports_gt_10.csv",
    "scanning_prefixes": "prefix24_ports_gt_10.csv",
}
NETWORK = """
from dataclasses import replace

from pipelines.language.shipped.netmon import network as netmon

connections = replace(netmon.sources[0], disorder="60s", late="revise", late_every="1h")
network = replace(netmon, sources=(connections,), bucket="60s")
"""


def late_times(file: Path) -> list[int]:
    """The event times of the late records, by the plain rule."""
    times = pq.read_table(file)["ts_us"].to_numpy()
    newest = np.maximum.accumulate(np.concatenate((times[:1], times)))[:-1]
    late: list[int] = times[times < newest - MINUTE_US].tolist()
    return late


@pytest.mark.long
@pytest.mark.skipif(not ZEEK.is_dir(), reason=f"test data is not in {ZEEK}")
def test_late_connections_are_admitted_and_the_answers_are_those_of_the_whole_recording(
    spark: SparkSession, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    file = ZEEK / "connections.parquet"
    late = late_times(file)
    assert len(late) == LATE
    contracts = write_contracts(tmp_path / "contracts", NETWORK, CONNECTIONS, file)
    with federation_of(postgres_server, tmp_path / "homes") as settings:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        run_to_the_end(settings, spark)
        found = ending_of(settings, contracts / "late.py", CONNECTIONS)
        with open_home(settings, HERE) as home:
            entries = home.catalog.quarantine_entries(CONNECTIONS)
            for output, answer in ANSWERS.items():
                path = tmp_path / f"{output}.csv"
                export_stream(home.catalog, home.storage, StreamName(output), path)
                assert path.read_bytes() == (ZEEK / "expected" / answer).read_bytes(), output
    assert (found.results, found.waiting) == (["by revision"] * LATE, 0)
    assert len({entry.record.position for entry in entries}) == LATE
    windows = {at_us // MINUTE_US * 60 for at_us in late}
    because = f"4,753 late records of {len(windows):,} buckets: the source has ended"
    assert found.admissions == [(HERE, because, len(windows))]
    for output in ANSWERS:
        assert len(found.corrected[output]) == len(windows), output
        assert set(found.corrected[output]) == windows, output
