"""The shipped networks over real streams: equal, row for row, to answers computed elsewhere.

`make test` runs netmon once in Python and once in SQL, `make test-long` replays the other
networks, in small steps, and so that every pair of (data, format, width, cut into files) is
covered, and `make exact` runs all combinations.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from medusa_core.knowledge import Limits
from pipelines.base.settings import Settings
from pipelines.language import shipped
from pipelines.language.load import load_network
from tests.replaying import Replayer, parquet_files
from tests.sweeps import long_but

DATA = Settings.from_environment(os.environ).test_data
NETMON_ANSWERS = {
    "busy_sources": "connections_gt_100.csv",
    "scanning_sources": "ports_gt_10.csv",
    "scanning_prefixes": "prefix24_ports_gt_10.csv",
}
FOLDERS = ("netmon-honeypot-p0f", "netmon-wrccdc2018", "netmon-zeek-server")
FORMATS = ("csv", "parquet")
WIDTHS_S = (5, 10, 20, 60)
CUTS = ("one file", "three files", "shuffled over four files")

SHIPPED_SQL = Path(shipped.__file__).parent

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"test data is not in {DATA}")


def assert_exact(export: Path, answers: Mapping[str, Path]) -> None:
    for output, expected in answers.items():
        assert (export / f"{output}.csv").read_bytes() == expected.read_bytes(), output


def files_of(folder: Path, format_: str, cut: str, scratch: Path) -> list[Path]:
    """The connections of a folder, cut as told."""
    if cut == "one file":
        suffix = "csv.gz" if format_ == "csv" else "parquet"
        return [folder / f"connections.{suffix}"]
    table = pq.read_table(folder / "connections.parquet")
    if cut.startswith("shuffled"):
        table = table.take(np.random.default_rng(5).permutation(table.num_rows))
    rows = table.num_rows
    cuts = (rows // 7, rows // 2) if cut == "three files" else (1, rows // 3, rows - 2)
    paths = parquet_files(scratch, table, cuts)
    if format_ == "parquet":
        return paths
    return [as_csv(path) for path in paths]


def as_csv(path: Path) -> Path:
    import pyarrow.csv

    target = path.with_suffix(".csv")
    pyarrow.csv.write_csv(pq.read_table(path), target)
    return target


def netmon_is_exact(
    replayer: Replayer, folder: str, format_: str, width_s: int, cut: str, network: str = "netmon"
) -> None:
    data = DATA / folder
    files = files_of(data, format_, cut, replayer.folder / "input")
    export = replayer.folder / "export"
    with replayer.home() as home:
        replayer.run(
            home, load_network(network), {"connections": files}, width_s=width_s, export=export
        )
    expected = {name: data / "expected" / file for name, file in NETMON_ANSWERS.items()}
    assert_exact(export, expected)


def pairwise(*choices: Sequence[object]) -> list[tuple[object, ...]]:
    """Few tuples in which every pair of choices of two parameters occurs (greedy, no chance)."""
    every = list(itertools.product(*choices))
    expected = {
        (i, a, j, b)
        for i, j in itertools.combinations(range(len(choices)), 2)
        for a in choices[i]
        for b in choices[j]
    }

    def covers(chosen: tuple[object, ...]) -> set[tuple[int, object, int, object]]:
        pairs = itertools.combinations(range(len(choices)), 2)
        return {(i, chosen[i], j, chosen[j]) for i, j in pairs} & expected

    cover = []
    while expected:
        best = max(every, key=lambda chosen: len(covers(chosen)))
        expected -= covers(best)
        cover.append(best)
    return cover


QUICK = [
    ("netmon-wrccdc2018", "csv", 10, "shuffled over four files"),
    ("netmon-honeypot-p0f", "parquet", 10, "three files"),
    ("netmon-zeek-server", "csv", 60, "one file"),
]
"""Every recording, format and cut; `make test` runs the first."""
QUICK_IN_TEST = 1

COVER = pairwise(FOLDERS, FORMATS, WIDTHS_S, CUTS)
REPLAYS = QUICK + [one for one in COVER if one not in QUICK]


def test_the_cover_has_at_least_ten_replays() -> None:
    assert len(COVER) >= 10


def test_the_quick_replays_have_every_recording_format_and_cut() -> None:
    folders, formats, _, cuts = zip(*QUICK, strict=True)
    assert (set(folders), set(formats), set(cuts)) == (set(FOLDERS), set(FORMATS), set(CUTS))


@needs_data
@pytest.mark.parametrize(("folder", "format_", "width_s", "cut"), long_but(QUICK_IN_TEST, REPLAYS))
def test_netmon_gives_the_expected_rows_for_every_format_width_and_cut(
    replayer: Replayer, folder: str, format_: str, width_s: int, cut: str
) -> None:
    netmon_is_exact(replayer, folder, format_, width_s, cut)


@needs_data
@pytest.mark.parametrize(
    ("folder", "format_"),
    long_but(0, [("netmon-wrccdc2018", "parquet"), ("netmon-honeypot-p0f", "csv")]),
)
def test_netmon_in_sql_gives_the_expected_rows(
    replayer: Replayer, folder: str, format_: str
) -> None:
    network = str(SHIPPED_SQL / "netmon.sql")
    netmon_is_exact(replayer, folder, format_, 10, "three files", network)


@needs_data
@pytest.mark.exact
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("width_s", WIDTHS_S)
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_netmon_gives_the_expected_rows_in_every_combination(
    replayer: Replayer, folder: str, format_: str, width_s: int, cut: str
) -> None:
    netmon_is_exact(replayer, folder, format_, width_s, cut)


@pytest.mark.long
@needs_data
@pytest.mark.parametrize("records_per_step_max", [20_000, 1_000])
def test_netmon_gives_the_expected_rows_in_steps_of_any_size(
    replayer: Replayer, records_per_step_max: int
) -> None:
    data = DATA / "netmon-wrccdc2018"
    export = replayer.folder / "export"
    with replayer.home() as home:
        replayer.run(
            home,
            load_network("netmon"),
            {"connections": [data / "connections.parquet"]},
            limits=Limits(records_per_step_max=records_per_step_max),
            export=export,
        )
    expected = {name: data / "expected" / file for name, file in NETMON_ANSWERS.items()}
    assert_exact(export, expected)


@needs_data
@pytest.mark.parametrize(
    ("network_name", "suffix", "width_s"),
    [
        ("road_sensors", "csv.gz", 900),
        ("road_sensors", "parquet", 60),
        (str(SHIPPED_SQL / "road_sensors.sql"), "parquet", 300),
    ],
)
@pytest.mark.long
def test_road_sensors_gives_the_expected_rows(
    replayer: Replayer, network_name: str, suffix: str, width_s: int
) -> None:
    data = DATA / "sensors-aarhus-traffic"
    export = replayer.folder / "export"
    network = load_network(network_name)
    source = network.sources[0].name
    with replayer.home() as home:
        replayer.run(
            home, network, {source: [data / f"readings.{suffix}"]}, width_s=width_s, export=export
        )
    assert_exact(
        export,
        {
            "busy_segments": data / "expected" / "busy_15min.csv",
            "slow_segments": data / "expected" / "slow_segments_15min.csv",
        },
    )


@pytest.mark.long
@needs_data
@pytest.mark.parametrize(
    ("network_name", "suffix"),
    [
        ("trade_bars", "parquet"),
        ("trade_bars", "csv.gz"),
        (str(SHIPPED_SQL / "trade_bars.sql"), "parquet"),
    ],
)
def test_trade_bars_gives_the_expected_rows(
    replayer: Replayer, network_name: str, suffix: str
) -> None:
    data = DATA / "ticks-taq"
    export = replayer.folder / "export"
    network = load_network(network_name)
    inputs = {s.name: [data / f"{s.name}.{suffix}"] for s in network.sources}
    with replayer.home() as home:
        replayer.run(home, network, inputs, width_s=60, export=export)
    answers = {"bars": "bars_60s.csv", "quote_counts": "quotes_60s.csv",
               "multi_bars": "multi_bars_60s.csv"}  # fmt: skip
    assert {o.name for o in network.outputs} == set(answers)
    assert_exact(export, {name: data / "expected" / file for name, file in answers.items()})
