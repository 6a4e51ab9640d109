"""Mutants change one thing each and keep their names; tests notice a drawn sample of them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.mutation.mutants import Mutant
from tests.mutation.python_mutants import mutants_of as python_mutants_of
from tests.mutation.running import (
    LEFT,
    ROOMS,
    TESTS,
    all_mutants,
    drawn,
    listed_survivors,
    run_mutants,
)
from tests.mutation.sql_mutants import mutants_of as sql_mutants_of
from tests.mutation.worker import fits
from tests.sweeps import PART

ROOT = Path(__file__).resolve().parents[2]
SEED, MINUTES = 1, 6.0
SAMPLE = 25 // PART

PYTHON = '''
LIMIT = 3


def first(rows: list[int], at: int) -> int | None:
    """The first row that is not below a place."""
    found = [row for row in rows if row >= at]
    if not found or min(found) > LIMIT:
        return None
    return found[0]
'''

SQL = """
CREATE TABLE medusa.hold (
    stream text NOT NULL REFERENCES medusa.stream,
    limit_ms bigint CHECK (limit_ms > 0 AND limit_ms < 100),
    CONSTRAINT no_overlap EXCLUDE USING gist (stream WITH =)
);
COMMENT ON CONSTRAINT no_overlap ON medusa.hold IS 'It is one; really.';

CREATE FUNCTION medusa.take(stream text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Not a guard; a comment.
    PERFORM medusa.check_lease(stream);
    IF stream IS NULL OR stream = '' THEN
        RAISE EXCEPTION 'no; stream' USING ERRCODE = 'MD001';
    END IF;
    UPDATE medusa.hold AS h SET limit_ms = 7
    WHERE h.stream = take.stream AND h.limit_ms BETWEEN 1 AND 5;
    PERFORM FROM medusa.hold FOR UPDATE;
    SELECT h.stream INTO stream FROM medusa.hold AS h ORDER BY 1 LIMIT 1;
END $$;
CREATE TRIGGER guard BEFORE INSERT ON medusa.hold
    FOR EACH ROW EXECUTE FUNCTION medusa.guard();
REVOKE ALL ON SCHEMA medusa FROM PUBLIC;
"""


def changes(mutants: list[Mutant], source: str) -> set[tuple[str, str]]:
    """Of each mutant the kind, and the lines that it changes, as they are then."""
    before = source.splitlines()
    return {
        (m.kind, " / ".join(line.strip() for line in m.applied(source).splitlines()
                            if line not in before))
        for m in mutants
    }  # fmt: skip


def test_python_is_mutated_where_it_decides() -> None:
    found = changes(python_mutants_of(PYTHON, "medusa_core/x.py"), PYTHON)
    assert found == {
        ("constant", "LIMIT = 4"),
        ("constant", "LIMIT = (2)"),
        ("filter", "found = [row for row in rows if True]"),
        ("comparison", "found = [row for row in rows if row > at]"),
        ("condition", "if True:"),
        ("condition", "if False:"),
        ("and/or", "if not found and min(found) > LIMIT:"),
        ("dropped", "if False or min(found) > LIMIT:"),
        ("dropped", "if not found or False:"),
        ("not", "if  found or min(found) > LIMIT:"),
        ("comparison", "if not found or min(found) >= LIMIT:"),
        ("twin", "if not found or max(found) > LIMIT:"),
        ("returned", "return None"),
        ("constant", "return found[1]"),
        ("constant", "return found[(-1)]"),
    }


def test_sql_loses_guards_locks_constraints_triggers_and_rights() -> None:
    found = changes(sql_mutants_of(SQL, "sql/x.sql"), SQL)
    for expected in (
        ("guard", "IF false THEN"),
        ("dropped", "IF false OR stream = '' THEN"),
        ("comparison", "IF stream IS NULL OR stream <> '' THEN"),
        ("not", "IF stream IS NOT NULL OR stream = '' THEN"),
        ("dropped", "WHERE true AND h.limit_ms BETWEEN 1 AND 5;"),
        ("dropped", "WHERE h.stream = take.stream AND true;"),
        ("call", "NULL;"),
        ("lock", "PERFORM FROM medusa.hold ;"),
        ("setting", "LANGUAGE plpgsql  AS $$"),
        ("not null", "stream text  REFERENCES medusa.stream,"),
        ("constraint", "stream text NOT NULL ,"),
        ("constraint", "limit_ms bigint ,"),
        ("dropped", "limit_ms bigint CHECK (limit_ms > 0 AND true),"),
    ):
        assert expected in found, expected
    kinds = {m.kind for m in sql_mutants_of(SQL, "sql/x.sql")}
    assert {"trigger", "right"} <= kinds


def test_a_select_into_that_takes_the_first_row_is_not_given_more() -> None:
    limits = {change for _, change in changes(sql_mutants_of(SQL, "sql/x.sql"), SQL)
              if "LIMIT" in change}  # fmt: skip
    begin = "SELECT h.stream INTO stream FROM medusa.hold AS h ORDER BY"
    assert limits == {f"{begin} 2 LIMIT 1;", f"{begin} (0) LIMIT 1;", f"{begin} 1 LIMIT (0);"}


def test_what_is_said_of_a_dropped_constraint_goes_with_it() -> None:
    (dropped,) = [m for m in sql_mutants_of(SQL, "sql/x.sql")
                  if m.kind == "constraint" and "EXCLUDE" in m.before]  # fmt: skip
    text = dropped.applied(SQL)
    assert "EXCLUDE" not in text
    assert "COMMENT ON CONSTRAINT" not in text
    assert "CREATE FUNCTION" in text


def test_an_id_stays_when_lines_move_and_files_of_sql_are_divided() -> None:
    def ids(mutants: list[Mutant]) -> set[str]:
        return {mutant.id for mutant in mutants}

    assert ids(python_mutants_of("\n\n" + PYTHON, "medusa_core/x.py")) == ids(
        python_mutants_of(PYTHON, "medusa_core/x.py")
    )
    begin, end = SQL.split("CREATE TRIGGER")
    parts = [
        *sql_mutants_of(begin, "sql/a.sql"),
        *sql_mutants_of("CREATE TRIGGER" + end, "sql/b.sql"),
    ]
    assert ids(parts) == ids(sql_mutants_of(SQL, "sql/x.sql"))


@pytest.mark.long
@pytest.mark.parametrize("room", ROOMS)
def test_every_mutant_has_an_id_of_its_own_and_every_listed_survivor_a_mutant(room: str) -> None:
    mutants = all_mutants(ROOT, room)
    ids = {mutant.id for mutant in mutants}
    assert len(ids) == len(mutants) > 1_000
    of_room = {id_ for id_ in listed_survivors() if id_.startswith("sql::") == (room == "sql")}
    assert of_room <= ids, "the code has changed: remove what is listed of it, or list it anew"
    assert all(reason.strip() for reason in listed_survivors().values())


@pytest.mark.parametrize(
    ("mark", "runs"),
    [(None, True), (pytest.mark.long(quick=True).mark, True), (pytest.mark.long.mark, False)],
)
def test_a_long_test_runs_against_mutants_if_it_is_quick(
    mark: pytest.Mark | None, runs: bool
) -> None:
    item = SimpleNamespace(name="test_it", fixturenames=(), get_closest_marker=lambda _: mark)
    assert fits(item, "medusa_core") == runs


def test_a_seed_draws_the_same_sample_and_another_seed_another() -> None:
    mutants = python_mutants_of(PYTHON, "medusa_core/x.py")
    assert drawn(mutants, 1, 5) == drawn(mutants[::-1], 1, 5)
    assert drawn(mutants, 1, 5) != drawn(mutants, 2, 5)
    assert set(drawn(mutants, 1, 0)) == set(mutants)


@pytest.mark.parametrize("room", ROOMS)
def test_the_tests_that_mutants_are_run_against_exist(room: str) -> None:
    assert [name for name in TESTS[room] if not (ROOT / "tests" / name).exists()] == []


@pytest.mark.mutation
@pytest.mark.parametrize("room", ROOMS)
def test_a_sample_of_mutants_is_noticed(room: str) -> None:
    listed = listed_survivors()
    sample = [m for m in drawn(all_mutants(ROOT, room), SEED, SAMPLE) if m.id not in listed]
    told = StringIO()
    results = run_mutants(ROOT, sample, seconds_max=MINUTES * 60, told=told)
    assert len(results) > SAMPLE // 4, "too few were run in the time"
    assert [r for r in results if r.verdict in LEFT] == [], told.getvalue()
