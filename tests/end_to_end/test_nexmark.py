"""Nexmark's queries give the rows that DuckDB finds; `python -m bench nexmark` has more events."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from bench.nexmark.answers import FOLDER, QUERIES, RESULT, compare, network_of
from bench.nexmark.events import PER_S, START_US, generate_events
from medusa_core.grid import parse_duration_us
from medusa_core.knowledge import Limits
from tests.replaying import Replayer
from tests.sweeps import long_but

EVENTS = 30_000
"""Three seconds: windows of two seconds end in several steps."""

IN_TEST = 1
ORDER = ("q8", *(query for query in QUERIES if query != "q8"))
"""`make test` runs a join of windows, `make test-long` all queries."""


@pytest.mark.parametrize("query", long_but(IN_TEST, ORDER))
def test_a_query_gives_the_rows_that_duckdb_finds(replayer: Replayer, query: str) -> None:
    files = generate_events(EVENTS).write(replayer.folder / "events")
    network, export = network_of(query), replayer.folder / "export"
    inputs = {source.name: [files[source.name]] for source in network.sources}
    width_s = parse_duration_us(network.bucket) // 1_000_000
    with replayer.home() as home:
        limits = Limits(records_per_step_max=10_000)
        replayer.run(home, network, inputs, width_s=width_s, limits=limits, export=export)
    compared = compare(query, files, export / f"{RESULT}.csv")
    assert compared.rows
    assert compared.is_equal, compared


def test_each_query_has_an_answer_to_judge_it_by() -> None:
    assert {file.stem for file in (FOLDER / "judge").glob("*.sql")} == set(QUERIES)


def test_a_wrong_row_and_a_lacking_row_are_counted(tmp_path: Path) -> None:
    files = generate_events(5_000).write(tmp_path / "events")
    bids = pq.read_table(files["bid"]).select(["auction", "price"])
    answer = bids.slice(0, 2)
    pa.csv.write_csv(answer, tmp_path / "result.csv")
    wanted = [row for row in bids.to_pylist() if row["auction"] % 123 == 0]
    given = [row for row in answer.to_pylist() if row in wanted]
    compared = compare("q2", files, tmp_path / "result.csv")
    assert (compared.rows, compared.unexpected) == (2, 2 - len(given))
    assert compared.lacking == len(wanted) - len(given) > 0
    assert not compared.is_equal


def test_events_are_the_same_for_a_seed_and_in_the_proportions_of_the_benchmark() -> None:
    events, again = generate_events(5_000), generate_events(5_000)
    assert events == again
    assert events != generate_events(5_000, seed=2)
    assert (len(events.person), len(events.auction), len(events.bid)) == (100, 300, 4_600)
    last_us = max(
        table["ts_us"][-1].as_py() for table in (events.person, events.auction, events.bid)
    )
    assert last_us == START_US + 4_999 * 1_000_000 // PER_S


def test_bids_and_auctions_refer_to_what_has_come_before() -> None:
    events = generate_events(20_000)
    opened = dict(
        zip(events.auction["id"].to_pylist(), events.auction["ts_us"].to_pylist(), strict=True)
    )
    born = dict(
        zip(events.person["id"].to_pylist(), events.person["ts_us"].to_pylist(), strict=True)
    )
    for bid in events.bid.slice(200).to_pylist():
        assert opened[bid["auction"]] <= bid["ts_us"]
        assert born[bid["bidder"]] <= bid["ts_us"]
    for auction in events.auction.to_pylist():
        assert born[auction["seller"]] <= auction["ts_us"]
