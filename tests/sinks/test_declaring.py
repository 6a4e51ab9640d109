"""Sinks as declared: strictly read, brought in by contracts, changed and begun where it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US
from medusa_core.names import StreamName
from pipelines.contracts.apply_changes import decide_changes
from pipelines.contracts.comparison_rows import Mark
from pipelines.contracts.federation import read_federation
from pipelines.sinks.addresses import resolve_address
from pipelines.sinks.sink_declaration import FolderSink, TableSink, parse_sink
from tests.contracts.writing import FILES, TICKS, brought_in, nothing, write_contracts
from tests.sinks.building import (
    COPIES,
    READINGS,
    WIDTH_US,
    Database,
    SinkHome,
    a_row,
    names,
    parquet_rows,
    record_of,
)

LAKE = {"kind": "parquet", "path": "/data/lake"}
REPORTS = {"kind": "postgres", "url": "${MEDUSA_SINK_URL}", "table": "public.rows"}
SINKS = """\
sinks:
  - {kind: parquet, path: lake}
  - {kind: csv, path: /data/sheet, formulas: guard, every: 1h}
  - name: desk
    kind: postgres
    url: postgresql://medusa:${MEDUSA_SINK_PASSWORD}@db.example:5432/reports?sslmode=require
    table: reports.ticks
    key: [n]
"""


def parsed(document: dict[str, Any]) -> FolderSink | TableSink:
    return parse_sink(StreamName("busy"), document)


def test_a_folder_and_a_table_are_read_with_their_defaults() -> None:
    lake = parsed(LAKE)
    assert isinstance(lake, FolderSink)
    assert (lake.kind, lake.path, lake.formulas) == ("parquet", Path("/data/lake"), "keep")
    assert (lake.pace.begins, lake.pace.every_us, lake.pace.rows_max) == ("origin", None, 250_000)
    table_sink = parsed({**REPORTS, "table": "rows"})
    assert isinstance(table_sink, TableSink)
    assert (table_sink.schema, table_sink.table, table_sink.key) == (
        "public",
        "rows",
        None,
    )
    assert not table_sink.takes_tentative


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({}, "has kind None"),
        ({"kind": "parquett"}, "did you mean 'parquet'?"),
        ({"kind": "parquet"}, "has path None"),
        ({**LAKE, "path": " "}, "a path"),
        ({**LAKE, "path": "a\0b"}, "a path"),
        ({**LAKE, "formulas": "guard"}, "'formulas' that is not known"),
        ({**LAKE, "kind": "csv", "formulas": "yes"}, "write keep or guard"),
        ({**LAKE, "evry": "1h"}, "did you mean 'every'?"),
        ({**LAKE, "every": "soon"}, "a duration"),
        ({**LAKE, "hold": "40d"}, "from 1ms to 31d"),
        ({**LAKE, "rows_max": 0}, "a whole number from 1"),
        ({**LAKE, "rows_max": True}, "a whole number from 1"),
        ({**LAKE, "from": "yesterday"}, "is no time"),
        ({**LAKE, "from": [1]}, "origin, now, or a time"),
        ({**REPORTS, "url": ""}, "has no url"),
        ({**REPORTS, "url": 7}, "has no url"),
        ({**REPORTS, "url": "mysql://u@h/d"}, "not one of Postgres"),
        ({**REPORTS, "url": "postgresql://u:secretword@h/d"}, "a password in it"),
        ({**REPORTS, "url": "postgresql://u:secretword${MEDUSA_SINK_X}@h/d"}, "a password in it"),
        ({**REPORTS, "url": "postgresql://u@h/d?password=secretword"}, "a password in it"),
        ({**REPORTS, "url": "postgresql://u@h/d?passfile=/etc/secretword"}, "a password in it"),
        ({**REPORTS, "url": "postgresql://u:${a b}secretword@h/d"}, "names no variable"),
        ({**REPORTS, "url": "$MEDUSA_SINK_URL"}, "names no variable"),
        ({**REPORTS, "url": "${KAFKA_PASSWORD}"}, "export it as MEDUSA_SINK_KAFKA_PASSWORD"),
        ({**REPORTS, "url": "postgresql://u:${HOME}@listener/d"}, "the variable HOME, but a sink"),
        ({**REPORTS, "table": None}, "a name of letters"),
        ({**REPORTS, "table": "a.b.c"}, "a name of letters"),
        ({**REPORTS, "table": 'rows"; DROP TABLE x; --'}, "a name of letters"),
        ({**REPORTS, "table": "."}, "a name of letters"),
        ({**REPORTS, "table": "x" * 64}, "a name of letters"),
        ({**REPORTS, "table": "pg_catalog.pg_class"}, "neither Medusa nor Postgres keeps"),
        ({**REPORTS, "table": "medusa.segment"}, "neither Medusa nor Postgres keeps"),
        ({**REPORTS, "table": "public.medusa_sink"}, "neither Medusa nor Postgres keeps"),
        ({**REPORTS, "key": []}, "a list of columns"),
        ({**REPORTS, "key": "id"}, "a list of columns"),
        ({**REPORTS, "key": ["id", "id"]}, "each once"),
        ({**REPORTS, "key": ["id; DROP"]}, "is not a name"),
        ({**REPORTS, "key": [["id"]]}, "the name of a column"),
        ({**REPORTS, "stability": "stable"}, "write final or all"),
        ({**REPORTS, "nul": "keep"}, "write refuse or replace"),
        ({**REPORTS, "on_revision": "ignore"}, "write apply or stop"),
        ({**LAKE, "on_revision": "apply"}, "write stop"),
        ({**REPORTS, "path": "/x"}, "'path' that is not known"),
    ],
)
def test_what_is_no_sink_is_refused_in_a_sentence(document: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused) as refused:
        parsed(document)
    assert told in str(refused.value)
    assert "busy" in str(refused.value) or "key column" in str(refused.value)
    assert "secretword" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_variable_that_is_not_for_sinks_is_not_sent_either_where_a_home_names_it() -> None:
    with pytest.raises(Refused, match="names the variable KAFKA_PASSWORD, but a sink"):
        resolve_address("busy", "${KAFKA_PASSWORD}", {"KAFKA_PASSWORD": "postgresql://listener/d"})


# ------------------------------------------------------------ contracts


def with_sinks(folder: Path, sinks: str = SINKS, **more: str) -> Path:
    return write_contracts(folder, {**FILES, "streams/ticks.yaml": TICKS + sinks, **more})


def test_contracts_bring_sinks_into_the_home_that_writes_the_stream(tmp_path: Path) -> None:
    contracts = with_sinks(tmp_path)
    federation = read_federation(contracts, tmp_path)
    alpha, beta = decide_changes(federation, nothing("alpha", "beta"), None)
    assert sorted(alpha.sinks) == [("ticks", "csv"), ("ticks", "desk"), ("ticks", "parquet")]
    assert not beta.sinks
    document = alpha.sinks[StreamName("ticks"), "parquet"]
    assert document == f'{{"kind":"parquet","path":"{tmp_path}/lake"}}'
    shown = [(c.mark, c.name, c.detail) for c in alpha.changes if c.what == "sink"]
    assert shown[1] == (Mark.NEW, "ticks/desk", "postgres into table reports.ticks")
    assert "TARGET" not in str(shown)


def test_an_unchanged_sink_remains_and_one_that_is_left_out_is_withdrawn(
    tmp_path: Path,
) -> None:
    federation = read_federation(with_sinks(tmp_path), tmp_path)
    homes = nothing("alpha", "beta")
    first = decide_changes(federation, homes, None)
    snapshots = {home.participant: brought_in(homes[home.participant], home) for home in first}
    assert all(home.is_same for home in decide_changes(federation, snapshots, None))
    fewer = SINKS.partition("  - name: desk")[0].replace("path: lake", "path: pond")
    federation = read_federation(with_sinks(tmp_path, fewer), tmp_path)
    alpha, _ = decide_changes(federation, snapshots, None)
    shown = {c.name: (c.mark, c.detail) for c in alpha.changes if c.what == "sink"}
    assert shown["ticks/desk"] == (Mark.CHANGED, "withdrawn")
    assert shown["ticks/csv"][0] is Mark.SAME
    assert shown["ticks/parquet"][0] is Mark.CHANGED
    assert set(alpha.sinks) == {("ticks", "desk"), ("ticks", "parquet")}
    assert alpha.sinks[StreamName("ticks"), "desk"] is None


def test_a_home_that_reads_the_stream_may_deliver_it(tmp_path: Path) -> None:
    lake = "sinks: [{kind: parquet, path: lake, participant: beta}]\n"
    contracts = with_sinks(tmp_path, "", **{"streams/large.yaml": f"stream: large\n{lake}"})
    alpha, beta = decide_changes(
        read_federation(contracts, tmp_path), nothing("alpha", "beta"), None
    )
    assert (len(alpha.sinks), list(beta.sinks)) == (0, [("large", "parquet")])


@pytest.mark.parametrize(
    ("sinks", "told"),
    [
        ("sinks: {kind: parquet}", "write a list"),
        ("sinks: [parquet]", "must be a mapping"),
        ("sinks: [{kind: parquet, path: ../out}]", "leads out of"),
        ("sinks: [{kind: parquet, path: ~/out}]", "write the absolute path"),
        ("sinks: [{kind: parquet, path: a, name: A b}]", "is no name"),
        ("sinks: [{kind: parquet, path: a}, {kind: parquet, path: b}]", "a name of its own"),
        ("sinks: [{kind: parquet, path: a}, {kind: csv, path: a/b}]", "a target of its own"),
        ("sinks: [{kind: parquet, path: a, every: 15s}]", "write a multiple of that"),
        ("sinks: [{kind: parquet, path: a, participant: beta}]", "does not hold ticks"),
        (
            "sinks: [{kind: postgres, url: '${MEDUSA_SINK_U}', table: t, key: [m]}]",
            "which is no column",
        ),
        (
            "sinks: [{kind: postgres, url: '${MEDUSA_SINK_U}', table: t, stability: all}]",
            "has no key",
        ),
    ],
)
def test_a_sink_that_cannot_be_is_refused_with_its_place(
    tmp_path: Path, sinks: str, told: str
) -> None:
    # What beta reads is `large`; `ticks` never leaves alpha.
    contracts = with_sinks(tmp_path, sinks + "\n")
    with pytest.raises(Refused) as refused:
        read_federation(contracts, tmp_path)
    assert told in str(refused.value)
    assert "ticks.yaml" in str(refused.value)


def test_two_streams_are_not_delivered_into_one_table(tmp_path: Path) -> None:
    table_sink = "sinks: [{kind: postgres, url: '${MEDUSA_SINK_U}', table: t}]\n"
    contracts = with_sinks(
        tmp_path, table_sink, **{"streams/large.yaml": f"stream: large\n{table_sink}"}
    )
    with pytest.raises(Refused, match="give each sink a target of its own"):
        read_federation(contracts, tmp_path)


# ------------------------------------------------------------ where it begins, what changes


@pytest.mark.long
def test_a_sink_added_later_begins_at_the_origin_or_now(home: SinkHome, tmp_path: Path) -> None:
    home.write(READINGS, 0, 3, [a_row(i, i) for i in range(3)])
    home.declare(READINGS, "all", kind="parquet", path=str(tmp_path / "all"))
    home.declare(READINGS, "new", kind="parquet", path=str(tmp_path / "new"), begins="now")
    late = "1970-01-01T00:00:15Z"
    home.declare(READINGS, "late", kind="parquet", path=str(tmp_path / "late"), begins=late)
    home.write(READINGS, 3, 4, [a_row(3, 3)])
    home.deliver()
    ids = {n: [r["id"] for r in parquet_rows(tmp_path / n)] for n in ("all", "new", "late")}
    assert ids == {"all": [0, 1, 2, 3], "new": [3], "late": [1, 2, 3]}
    assert (home.sink("all").from_us, home.sink("new").from_us) == (BEGINNING_US, 3 * WIDTH_US)
    assert record_of(tmp_path / "new")["lost_us"] == 0


@pytest.mark.long
def test_the_same_declaration_does_not_start_over(home: SinkHome, tmp_path: Path) -> None:
    for bucket in range(3):
        home.write(READINGS, bucket, bucket + 1, [a_row(bucket, bucket)])
        home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"), begins="now")
        home.deliver()
    assert [row["id"] for row in parquet_rows(tmp_path / "lake")] == [1, 2]


def test_a_beginning_that_is_trimmed_is_refused(home: SinkHome, tmp_path: Path) -> None:
    home.write(READINGS, 0, 4, [a_row(i, i) for i in range(4)])
    assert home.trim(READINGS, 2).trimmed_us == 2 * WIDTH_US
    with pytest.raises(Refused, match="what is before 1970-01-01T00:00:20Z is trimmed"):
        home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"))
    assert home.home.catalog.sinks() == ()
    begins = "1970-01-01T00:00:20Z"
    home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"), begins=begins)
    home.deliver()
    assert [row["id"] for row in parquet_rows(tmp_path / "lake")] == [2, 3]


@pytest.mark.long
def test_what_was_trimmed_before_it_was_delivered_is_told_and_never_passed_over_in_silence(
    home: SinkHome, tmp_path: Path
) -> None:
    where: dict[str, Any] = {"kind": "parquet", "path": str(tmp_path / "lake")}
    home.declare(READINGS, **where)
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver()
    home.write(READINGS, 1, 4, [a_row(i, i) for i in range(1, 4)])
    assert home.trim(READINGS, 3).trimmed_us == WIDTH_US, "it holds what it has yet to deliver"
    home.home.catalog.release_hold(READINGS, "sink:lake", "delivery")  # as if its time were over
    assert home.trim(READINGS, 3).trimmed_us == 3 * WIDTH_US
    assert isinstance(problem := home.problem(), Refused)
    assert "is trimmed: write from: 1970-01-01T00:00:30Z" in str(problem)
    home.declare(READINGS, **where, begins="1970-01-01T00:00:30Z")
    home.deliver()
    assert [row["id"] for row in parquet_rows(tmp_path / "lake")] == [0, 3]
    assert home.sink().lost_us == 2 * WIDTH_US


@pytest.mark.long
def test_another_target_gets_all_of_it_and_the_old_one_goes_on_when_it_is_back(
    home: SinkHome, tmp_path: Path
) -> None:
    for position, name in enumerate(("one", "two", "one")):
        home.write(READINGS, position, position + 1, [a_row(position, position)])
        home.declare(READINGS, kind="parquet", path=str(tmp_path / name))
        home.deliver()
    assert [row["id"] for row in parquet_rows(tmp_path / "one")] == [0, 1, 2]
    assert [row["id"] for row in parquet_rows(tmp_path / "two")] == [0, 1]


def test_a_folder_that_was_moved_goes_on_where_it_is(home: SinkHome, tmp_path: Path) -> None:
    home.declare(READINGS, kind="parquet", path=str(tmp_path / "here"))
    home.write(READINGS, 0, 2, [a_row(0, 0), a_row(1, 1)])
    home.deliver()
    (tmp_path / "here").rename(tmp_path / "there")
    home.declare(READINGS, kind="parquet", path=str(tmp_path / "there"))
    home.write(READINGS, 2, 3, [a_row(2, 2)])
    home.deliver()
    assert len(names(tmp_path / "there")) == 2
    assert parquet_rows(tmp_path / "there") == home.rows(READINGS)


@pytest.mark.long
def test_other_limits_change_nothing_of_what_was_delivered(home: SinkHome, tmp_path: Path) -> None:
    for bucket, every in enumerate(("10s", "20s", None)):
        home.write(READINGS, bucket, bucket + 1, [a_row(bucket, bucket)])
        more = {} if every is None else {"every": every}
        home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"), begins="origin", **more)
        home.deliver()
        assert home.home.catalog.holds(READINGS)[0].from_us == home.sink().through_us
    assert parquet_rows(tmp_path / "lake") == home.rows(READINGS)


@pytest.mark.long
def test_a_sink_that_was_withdrawn_and_declared_again_goes_on(
    home: SinkHome, database: Database
) -> None:
    for bucket in range(3):
        home.declare_table(COPIES)
        home.write(COPIES, bucket, bucket + 1, [a_row(bucket, bucket)])
        home.deliver()
        home.home.catalog.withdraw_sink(COPIES, "desk")
    assert database.rows() == home.rows(COPIES)


def test_a_stream_that_is_not_here_is_told_with_the_nearest(home: SinkHome) -> None:
    with pytest.raises(Refused, match="did you mean 'readings'"):
        home.declare(StreamName("reading"), kind="parquet", path="/x")
