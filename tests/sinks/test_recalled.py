"""A sink whose target holds what was recalled or revised stops, unless rows replace each other."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from medusa_core.recalls import RecallRequest
from medusa_core.segments import Producer
from pipelines.homes.home import open_home
from pipelines.participant.recalling import with_needs
from tests.catalog.building import ALPHA
from tests.sinks.building import COPIES, READINGS, WIDTH_US, Database, SinkHome, a_row


def recall(home: SinkHome, stream: StreamName, bucket: int) -> None:
    expected = RecallRequest(
        stream=stream,
        producer=Producer(ALPHA),
        from_us=bucket * WIDTH_US,
        because="the price was in pounds",
        who="ada",
    )
    with open_home(home.settings, ALPHA, as_owner=True) as owned:
        owned.catalog.recall(with_needs(owned.catalog, expected))


def test_a_folder_that_holds_what_was_recalled_gets_nothing_more(
    home: SinkHome, tmp_path: Path
) -> None:
    home.declare(COPIES, kind="parquet", path=str(tmp_path / "lake"))
    home.write(COPIES, 0, 3, [a_row(1, 0), a_row(2, 2)])
    home.deliver()
    recall(home, COPIES, 1)
    home.write(COPIES, 1, 4, [a_row(3, 3)])
    problem = home.problem()
    assert isinstance(problem, Refused)
    assert "the price was in pounds" in str(problem)
    assert "empty it" in str(problem)


@pytest.mark.long
def test_a_target_that_had_not_come_so_far_goes_on(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.deliver()
    home.write(COPIES, 1, 3, [a_row(2, 2)])
    recall(home, COPIES, 1)
    home.write(COPIES, 1, 3, [a_row(5, 1)])
    home.deliver()
    assert sorted(row["id"] for row in database.rows()) == [1, 5]


@pytest.mark.long
def test_rows_that_replace_each_other_are_delivered_again(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(READINGS)
    home.write(READINGS, 0, 3, [a_row(1, 0), a_row(2, 1, name="wrong"), a_row(3, 2)])
    home.deliver()
    recall(home, READINGS, 1)
    home.write(READINGS, 1, 4, [a_row(2, 1, name="right"), a_row(3, 2), a_row(4, 3)])
    home.deliver()
    home.deliver()
    names = {row["id"]: row["name"] for row in database.rows()}
    assert names == {1: "n1", 2: "right", 3: "n3", 4: "n4"}
    assert home.line(READINGS).generation == 2


@pytest.mark.long
def test_what_cannot_be_read_again_names_the_bucket_from_which_it_could(home: SinkHome) -> None:
    home.write(READINGS, 0, 4, [a_row(n, n) for n in range(4)])
    home.write(COPIES, 0, 4, [a_row(n, n) for n in range(4)])
    home.trim(READINGS, 2)
    with pytest.raises(Refused, match="1970-01-01T00:00:20Z on, or later"):
        recall(home, COPIES, 1)
    recall(home, COPIES, 2)
    assert home.line(COPIES).boundary_us == 2 * WIDTH_US


def test_a_folder_that_holds_what_was_revised_gets_nothing_more(
    home: SinkHome, tmp_path: Path
) -> None:
    home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"))
    home.write(READINGS, 0, 3, [a_row(1, 0), a_row(2, 2)])
    home.deliver()
    home.revise(READINGS, 1, 2, [a_row(5, 1)])
    problem = home.problem()
    assert isinstance(problem, Refused)
    assert "holds what was revised of readings from 1970-01-01T00:00:10Z on" in str(problem)
    assert "the price was in pounds" in str(problem)


def test_a_sink_that_had_not_come_to_what_is_revised_goes_on(
    home: SinkHome, tmp_path: Path
) -> None:
    home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"))
    home.write(READINGS, 0, 1, [a_row(1, 0)])
    home.deliver()
    home.write(READINGS, 1, 3, [a_row(2, 2)])
    home.revise(READINGS, 1, 2, [a_row(5, 1)])
    home.deliver()
    files = sorted((tmp_path / "lake").glob("**/*.parquet"))
    assert sorted(n for file in files for n in pq.read_table(file)["id"].to_pylist()) == [1, 2, 5]


@pytest.mark.long
def test_revised_rows_replace_those_of_their_key_and_a_removed_one_stays(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(READINGS)
    home.write(READINGS, 0, 3, [a_row(1, 0), a_row(2, 1, name="wrong"), a_row(3, 1), a_row(4, 2)])
    home.deliver()
    home.revise(READINGS, 1, 2, [a_row(2, 1, name="right")])
    home.deliver()
    home.deliver()
    names = {row["id"]: row["name"] for row in database.rows()}
    assert names == {1: "n1", 2: "right", 3: "n3", 4: "n4"}


@pytest.mark.long
def test_a_table_that_is_to_stop_at_revisions_gets_nothing_more(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(READINGS, on_revision="stop")
    home.write(READINGS, 0, 3, [a_row(1, 0), a_row(2, 1, name="wrong"), a_row(3, 2)])
    home.deliver()
    home.revise(READINGS, 1, 2, [a_row(2, 1, name="right")])
    assert "holds what was revised" in str(home.problem())
    assert [row["name"] for row in database.rows()] == ["n1", "wrong", "n3"]
    home.declare_table(READINGS, on_revision="apply")
    home.deliver()
    assert {row["name"] for row in database.rows()} == {"n1", "right", "n3"}


def test_a_table_without_a_key_cannot_apply_revisions(home: SinkHome) -> None:
    with pytest.raises(Refused, match=r"write key: .* or on_revision: stop"):
        home.declare_table(COPIES, on_revision="apply")
