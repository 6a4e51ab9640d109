"""Tables in Postgres: rows and record in one transaction, appended or by key, where they fit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.segments import Stability
from pipelines.sinks.delivery import Delivering
from tests.sinks.building import (
    COLUMNS,
    COPIES,
    READINGS,
    URL_VARIABLE,
    WIDTH_US,
    Database,
    SinkHome,
    a_row,
    locked_by_another,
)
from tests.sweeps import long_but

TENTATIVE = Stability.TENTATIVE


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of rows with one key the last, in the order of event time."""
    last = {row["id"]: row for row in rows}
    return sorted(last.values(), key=lambda row: (row["at"], row["id"]))


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["at"], row["id"]))


def test_every_value_arrives_as_it_is(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES)
    rows = [
        a_row(1, 0, name=None, ok=None, level=None, share=None, raw=None, day=None, seen=None,
              price=None),
        a_row(2, 0, name="", raw=b"", share=float("inf"), level=-(2**31), price=Decimal("-0.001")),
        a_row(3, 0, name='\\N "q"\r\n,\t\\', raw=bytes(range(256)), share=-1e-300, level=2**31 - 1),
        a_row(6, 0, name="a\n\\.\nb\\"),
        a_row(4, 0, name="\\.", share=5e-324, day=date(1, 1, 1), ok=True),
        a_row(5, 0, name="ß漢😀", day=date(9999, 12, 31),
              seen=datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        a_row(2**62, 0, price=Decimal("999999999.999"), name="NULL", share=0.1),
    ]  # fmt: skip
    home.write(COPIES, 0, 1, rows)
    home.deliver()
    assert database.rows() == in_order(rows)
    types = database.run(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'public.rows'::regclass AND attnum > 0"
    )
    assert dict(types)["price"] == "numeric(12,3)"
    assert [name for name, _ in types] == ["stime", "bucket", *COLUMNS]


@pytest.mark.long
def test_without_a_key_equal_rows_all_count(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 2, [a_row(1, 0), a_row(1, 0), a_row(2, 1)])
    home.deliver()
    home.write(COPIES, 2, 3, [a_row(1, 2)])
    home.deliver()
    home.deliver()
    assert database.rows() == in_order(home.rows(COPIES))
    assert home.sink("desk").rows == 4


def test_with_the_streams_key_the_latest_row_of_a_key_stands(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(READINGS)
    home.write(READINGS, 0, 2, [a_row(1, 0), a_row(2, 0), a_row(1, 0, name="again")])
    home.deliver()
    assert len(database.rows()) == 2
    home.write(READINGS, 2, 4, [a_row(1, 2, name="b"), a_row(3, 3), a_row(1, 3, name="c")])
    home.deliver()
    assert database.rows() == by_id(home.rows(READINGS))
    (key,) = database.run(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conrelid = 'public.rows'::regclass AND contype = 'p'"
    )
    assert key == ("PRIMARY KEY (id)",)


@pytest.mark.long
def test_within_a_bucket_the_last_by_event_time_and_then_by_all_columns_counts(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES, key=["id"])
    rows = [
        a_row(1, 0, at=7, name="late"), a_row(1, 0, at=3, name="zz"), a_row(2, 0, at=5, name="a"),
        a_row(2, 0, at=5, name="Z"), a_row(2, 0, at=5, name=None),
    ]  # fmt: skip
    home.write(COPIES, 0, 1, rows)
    home.deliver()
    assert [(row["id"], row["name"]) for row in database.rows()] == [(2, "a"), (1, "late")]


@pytest.mark.long
def test_a_key_of_several_columns(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES, key=["name", "id"])
    home.write(COPIES, 0, 1, [a_row(1, 0, name="a"), a_row(1, 0, name="b")])
    home.write(COPIES, 1, 2, [a_row(1, 1, name="a")])
    home.deliver()
    assert [row["at"] // WIDTH_US for row in database.rows()] == [0, 1]


def test_null_in_a_key_is_refused_and_nothing_of_the_run_is_there(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES, key=["name"])
    home.write(COPIES, 0, 1, [a_row(1, 0), a_row(2, 0, name=None)])
    assert isinstance(problem := home.problem(), Refused)
    assert "name" in str(problem)
    assert database.rows() == []
    assert home.sink("desk").problem == str(problem)


@pytest.mark.long
def test_nul_in_a_text_is_refused_with_the_column(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1, [a_row(1, 0, name="a\0b")])
    assert isinstance(problem := home.problem(), Refused)
    assert "column 'name'" in str(problem)
    assert database.rows() == []
    home.declare_table(COPIES, nul="replace")
    home.deliver()
    assert [row["name"] for row in database.rows()] == ["a\ufffdb"]


# ------------------------------------------------------------ tentative rows


def test_only_final_rows_are_delivered_unless_all_are_asked_for(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES, key=["id"])
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.write(COPIES, 1, 2, [a_row(2, 1)], stability=TENTATIVE)
    home.deliver()
    assert [row["id"] for row in database.rows()] == [1]


def test_tentative_rows_are_shown_and_corrected(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES, key=["id"], stability="all")
    home.write(COPIES, 0, 1, [a_row(1, 0), a_row(2, 0)])
    home.write(COPIES, 1, 2, [a_row(2, 1, name="guess"), a_row(3, 1)], stability=TENTATIVE)
    home.deliver()
    assert database.rows() == by_id(home.rows(COPIES))
    assert database.marks() == [(1, "stable", 1), (2, "tentative", 2), (3, "tentative", 2)]
    ((through,),) = database.run("SELECT through FROM medusa_sink")
    finals = database.run("SELECT id FROM rows WHERE bucket < %s", through)
    assert finals == [(1,)], "readers can tell which rows are final"
    home.write(COPIES, 1, 2, [a_row(4, 1)])
    home.deliver()
    assert database.rows() == by_id(home.rows(COPIES)), "3 has vanished, 2 is as it was before"
    assert database.marks() == [(1, "stable", 1), (2, "stable", 1), (4, "stable", 3)]
    assert database.run("SELECT count(*) FROM medusa_sink_before") == [(0,)]


@pytest.mark.long
def test_a_row_under_two_tentative_ones_is_restored(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES, key=["id"], stability="all")
    home.write(COPIES, 0, 1, [a_row(1, 0, name="final", share=float("nan"))])
    for bucket in (1, 2, 3):
        home.write(COPIES, bucket, bucket + 1, [a_row(1, bucket)], stability=TENTATIVE)
        home.deliver()
        assert [row["at"] // WIDTH_US for row in database.rows()] == [bucket]
    for bucket, id_ in ((2, 5), (3, 6), (1, 7)):
        home.write(COPIES, bucket, bucket + 1, [a_row(id_, bucket)])
        home.deliver()
        found = [(row["id"], row["name"]) for row in database.rows()]
        assert found == [(r["id"], r["name"]) for r in by_id(home.rows(COPIES))]
    assert (1, "final") in found


@pytest.mark.long
def test_a_table_that_no_longer_takes_tentative_rows_drops_them(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES, key=["id"], stability="all")
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.write(COPIES, 1, 2, [a_row(1, 1), a_row(2, 1)], stability=TENTATIVE)
    home.deliver()
    home.declare_table(COPIES, key=["id"])
    home.deliver()
    assert database.rows() == [a_row(1, 0)]
    home.write(COPIES, 1, 2, [a_row(1, 1)])
    home.deliver()
    assert database.marks() == [(1, "stable", 3)], "what has marks keeps them true"


@pytest.mark.long
def test_a_correction_that_changes_no_row_makes_its_rows_stable(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES, key=["id"], stability="all")
    rows = [a_row(1, 0), a_row(2, 1)]
    home.write(COPIES, 0, 2, rows, stability=TENTATIVE)
    home.deliver()
    assert database.marks() == [(1, "tentative", 1), (2, "tentative", 1)]
    home.write(COPIES, 1, 2, rows[1:])
    home.deliver()
    assert database.marks() == [(1, "tentative", 1), (2, "stable", 2)]
    home.write(COPIES, 0, 1, rows[:1])
    home.deliver()
    assert database.marks() == [(1, "stable", 3), (2, "stable", 2)]
    assert database.rows() == rows


@pytest.mark.long
def test_a_table_without_the_marks_takes_no_tentative_rows(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES, key=["id"])
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.deliver()
    home.declare_table(COPIES, key=["id"], stability="all")
    assert "it has no column _stability (text)" in str(home.problem())


def test_tentative_rows_need_a_key(home: SinkHome) -> None:
    with pytest.raises(Refused, match="no key by which they could be corrected"):
        home.declare_table(COPIES, stability="all")


# ------------------------------------------------------------ tables that are there


@pytest.mark.long
def test_a_table_that_fits_is_used_with_its_own_columns(home: SinkHome, database: Database) -> None:
    database.run(
        "CREATE TABLE rows (loaded timestamptz DEFAULT now(), price numeric, seen timestamptz, "
        "day date, raw bytea, share double precision, level bigint, ok boolean, "
        "name character varying, id bigint, at bigint, bucket timestamptz, stime timestamptz)"
    )
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.deliver()
    (row,) = database.rows()
    assert row.pop("loaded") is not None
    assert row == a_row(1, 0)


@pytest.mark.parametrize(
    ("change", "told"),
    long_but(
        2,
        [
            ("DROP COLUMN share", "it has no column share (double precision)"),
            ("ALTER COLUMN level TYPE smallint", "column level is smallint, not integer"),
            ("ALTER COLUMN seen TYPE timestamp", "column seen is timestamp without time zone"),
            ("ADD COLUMN who text NOT NULL", "column who is not of the stream and has no default"),
            ("ALTER COLUMN name SET NOT NULL", "column name is NOT NULL"),
            ("DROP CONSTRAINT rows_pkey", "it has no unique index on (id)"),
            ("SET UNLOGGED", "no ordinary table that outlives a crash"),
        ],
    ),
)
def test_a_table_that_does_not_fit_is_refused_with_the_difference(
    home: SinkHome, database: Database, change: str, told: str
) -> None:
    home.declare_table(READINGS)
    home.write(READINGS, 0, 1)
    home.deliver()
    database.run(f"ALTER TABLE rows {change}")
    home.write(READINGS, 1, 2, [a_row(1, 1)])
    assert isinstance(problem := home.problem(), Refused)
    assert told in str(problem)
    assert "public.rows" in str(problem)


@pytest.mark.long
def test_a_table_with_rows_of_others_is_refused(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.deliver()
    database.run("DELETE FROM medusa_sink")
    assert isinstance(problem := home.problem(), Refused)
    assert "rows that Medusa did not deliver" in str(problem)
    database.run("TRUNCATE rows")
    home.deliver()
    assert database.rows() == home.rows(COPIES), "an empty table is delivered into from the origin"


@pytest.mark.long
def test_a_table_that_is_gone_is_not_made_again_behind_its_record(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.deliver()
    database.run("DROP TABLE rows")
    assert isinstance(problem := home.problem(), Refused)
    assert "bring it back, or delete its row" in str(problem)
    database.run("DELETE FROM medusa_sink")
    home.deliver()
    assert database.rows() == home.rows(COPIES)


def test_a_view_is_no_target(home: SinkHome, database: Database) -> None:
    database.run("CREATE VIEW rows AS SELECT 1 AS at")
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1)
    assert isinstance(home.problem(), Refused)


@pytest.mark.long
def test_two_sinks_into_one_table_are_refused(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES)
    with pytest.raises(Refused, match="already: give each sink a target"):
        home.declare_table(READINGS)
    other = {"kind": "postgres", "url": "${MEDUSA_SINK_OTHER}", "table": "rows"}
    home.declare(READINGS, "other", **other, key=["id", "name"])
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.write(READINGS, 0, 1, [a_row(2, 0)])
    home.deliver("desk")
    problem = deliver_with(home, "other", {"MEDUSA_SINK_OTHER": home.target_url})
    assert isinstance(problem, Refused)
    assert "give each sink a target of its own" in str(problem)
    assert database.rows() == [a_row(1, 0)]


def deliver_with(home: SinkHome, name: str, environment: Mapping[str, str]) -> Exception | None:
    catalog, sink = home.home.catalog, home.sink(name)
    delivering = Delivering(catalog, home.home.storage, home.settings.directory, sink, environment)
    try:
        delivering.tick()
    except (Refused, Unavailable, Conflict) as error:
        return error
    finally:
        delivering.close()
    return None


@pytest.mark.long
def test_a_schema_and_names_with_capitals_are_made_as_written(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES, table="Lake_1.Rows")
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.deliver()
    assert database.rows("Rows", "Lake_1") == [a_row(1, 0)]
    assert database.run('SELECT target, stream FROM "Lake_1".medusa_sink') == [("Rows", "copies")]


# ------------------------------------------------------------ rights and outages


def test_a_login_without_the_right_to_create_is_refused_with_what_is_needed(
    home: SinkHome, database: Database
) -> None:
    database.run("CREATE SCHEMA shut")
    database.run("REVOKE CREATE ON SCHEMA shut FROM CURRENT_USER")
    home.declare_table(COPIES, table="shut.rows")
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    for _ in range(2):
        told = str(home.problem())
        assert "\n" not in told
        statement = told.partition("`")[2].partition("`")[0]
        assert statement.startswith("CREATE TABLE")
        database.run("GRANT CREATE ON SCHEMA shut TO CURRENT_USER")
        database.run(statement)
        database.run("REVOKE CREATE ON SCHEMA shut FROM CURRENT_USER")
    home.deliver()
    assert database.rows("rows", "shut") == [a_row(1, 0)]


@pytest.mark.long
def test_a_server_that_is_away_is_unavailable_and_says_no_password(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    url, home.target_url = home.target_url, "postgresql://who:s3cret-word@127.0.0.1:9/none"
    assert isinstance(problem := home.problem(), Unavailable)
    assert "s3cret-word" not in str(problem)
    assert "s3cret-word" not in str(home.sink("desk"))
    home.target_url = url
    home.deliver()
    assert database.rows() == home.rows(COPIES)
    assert home.sink("desk").problem is None


def test_a_wrong_password_is_unavailable_and_not_repeated(home: SinkHome) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1)
    home.target_url = home.target_url.replace("sinks_login:", "sinks_login:wr0ng-word")
    assert isinstance(problem := home.problem(), Unavailable)
    assert "wr0ng-word" not in str(problem)


@pytest.mark.parametrize(
    "value", long_but(1, ["", "nonsense s3cret", "mysql://u:s3cret@h/d", "postgresql://h:x/"])
)
def test_a_variable_that_holds_no_url_is_refused_by_its_name(home: SinkHome, value: str) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1)
    home.target_url = value
    assert isinstance(problem := home.problem(), Refused)
    assert "s3cret" not in str(problem)
    assert URL_VARIABLE in str(problem)


@pytest.mark.long
def test_parts_of_a_url_may_be_named(home: SinkHome, database: Database) -> None:
    address = home.target_url.rpartition("@")[2]
    home.declare(
        COPIES,
        "desk",
        kind="postgres",
        table="rows",
        url=f"postgresql://sinks_login:${{MEDUSA_SINK_PW}}@{address}",
    )
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    assert deliver_with(home, "desk", {"MEDUSA_SINK_PW": database.password}) is None
    assert database.rows() == home.rows(COPIES)
    assert database.password not in str(home.sink("desk"))


@pytest.mark.long
def test_a_record_that_another_transaction_locks_is_a_conflict(
    home: SinkHome, database: Database
) -> None:
    home.declare_table(COPIES)
    home.write(COPIES, 0, 1, [a_row(1, 0)])
    home.deliver()
    home.write(COPIES, 1, 2, [a_row(2, 1)])
    with locked_by_another(home.target_url, "SELECT FROM medusa_sink FOR UPDATE"):
        assert isinstance(home.problem(), Conflict)
    home.deliver()
    assert database.rows() == home.rows(COPIES)


@pytest.mark.long
def test_two_who_deliver_at_once_deliver_each_row_once(home: SinkHome, database: Database) -> None:
    home.declare_table(COPIES, rows_max=1)
    home.write(COPIES, 0, 3, [a_row(i, i) for i in range(3)])
    parts = (home.home.catalog, home.home.storage, home.settings.directory, home.sink("desk"))
    one, other = (Delivering(*parts, home.environment) for _ in range(2))
    one.tick()
    other.tick()
    with pytest.raises(Conflict, match="delivered into by another process"):
        one.tick()
    one.tick()
    one.close()
    other.close()
    home.deliver()
    assert database.rows() == home.rows(COPIES)
