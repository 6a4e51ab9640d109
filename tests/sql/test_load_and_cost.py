"""What load costs, declared by SQL: checked by the database, kept as a history, seen by nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import psycopg2
import psycopg2.errors
import pytest
from sqlalchemy import text

from medusa_core.commits import Cause, Lane
from medusa_core.errors import Refused
from medusa_core.loads import LoadKey, LoadSample, Shares
from medusa_core.market.costs import PiecewiseLinear, Queue
from medusa_core.market.declared import DeclaredCost
from pipelines.catalog.postgres.database_errors import error_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of
from tests.sql.conftest import LogIn
from tests.sweeps import long_but

QUEUE = "INSERT INTO medusa_api.cost (kind, capacity, scale, threshold, currency) VALUES "
PIECEWISE = "INSERT INTO medusa_api.cost (kind, points, threshold, currency) VALUES "
PRIVATE = ("medusa_market.cost_function", "medusa_api.cost", "medusa_market.load_sample",
           "medusa_market.load_part", "medusa_market.load_retention",
           "medusa_api.load_samples")  # fmt: skip
MANY = """
    INSERT INTO medusa_market.load_sample (driver, number, lane, length_ms, total_us, ended_at)
    SELECT 'many', n, 'live', 10000, 10, clock_timestamp() - n * interval '10 s'
    FROM generate_series(1, 20000) AS n;
    INSERT INTO medusa_market.load_part (sample_id, kind, cpu_us)
    SELECT s.sample_id, k.kind::medusa_market.load_kind, 5
    FROM medusa_market.load_sample AS s, unnest(ARRAY['unattributed', 'starting']) AS k (kind)
"""
OLDEST = """
    SELECT sample_id FROM medusa_market.load_sample
    WHERE ended_at < statement_timestamp() - medusa_market.load_kept() ORDER BY ended_at LIMIT 100
"""
CANARY = 48_151.625
NUMBER = re.compile(r"-?\b\d[\d.]*(?:e[+-]?\d+)?|-?\b(?:nan|inf|infinity)\b", re.IGNORECASE)


def run(log_in: LogIn, role: str, statement: str) -> list[tuple[object, ...]]:
    with log_in(role).cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def refusal(log_in: LogIn, statement: str) -> str:
    with pytest.raises(psycopg2.Error) as refused:
        run(log_in, "owner", statement)
    error = error_of(refused.value)
    assert isinstance(error, Refused), refused.value
    return str(error)


def a_sample(number: int, ended_ago_ms: int = 0) -> LoadSample:
    shares = Shares(by_key={LoadKey(a.MAIN, 0, Cause.NORMAL): 1_000})
    return LoadSample(driver="one", number=number, lane=Lane.LIVE, length_ms=10_000,
                      shares=shares, ended_ago_ms=ended_ago_ms)  # fmt: skip


def test_an_owner_declares_a_cost_function_and_its_jobs_decide_by_it(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    run(log_in, "owner", f"{QUEUE} ('queue', 4, 2.5, 3.2, 'EUR')")
    queue = DeclaredCost(cost=Queue(4.0, 2.5), threshold=3.2, currency="EUR")
    declared = attacked.declared_cost()
    assert declared is not None
    assert (declared.cost, declared.threshold, declared.currency) == (queue.cost, 3.2, "EUR")
    run(log_in, "owner", f"{PIECEWISE} ('piecewise', '{{{{0,0}},{{1,1}},{{2,4}}}}', 1.5, 'EUR')")
    after = attacked.declared_cost()
    assert after is not None
    assert after.cost == PiecewiseLinear(((0.0, 0.0), (1.0, 1.0), (2.0, 4.0)))
    assert after.number > declared.number


def test_an_update_is_one_more_row_of_the_history(log_in: LogIn, attacked: PostgresCatalog) -> None:
    """By medusa_market.set_cost."""
    run(log_in, "owner", f"{QUEUE} ('queue', 4, NULL, 3.2, 'EUR')")
    run(log_in, "owner", "UPDATE medusa_api.cost SET threshold = 2.5 WHERE kind = 'queue'")
    history = run(log_in, "owner", "SELECT capacity, scale, threshold, set_by = session_user "
                                   "FROM medusa_market.cost_function ORDER BY number")  # fmt: skip
    assert history == [(4.0, 1.0, 3.2, True), (4.0, 1.0, 2.5, True)]
    declared = attacked.declared_cost()
    assert declared is not None
    assert declared.threshold == 2.5
    for verb in ("UPDATE medusa_market.cost_function SET threshold = 9",
                 "TRUNCATE medusa_market.cost_function",
                 "DELETE FROM medusa_market.cost_function"):  # fmt: skip
        refusal(log_in, verb)
    words = "a cost function is not taken away: declare another one"
    assert refusal(log_in, "DELETE FROM medusa_api.cost") == words


BAD = {
    "a capacity below 0": ("('queue', -1, 1, 1, 'EUR')", lambda: Queue(-1.0)),
    "no scale": ("('queue', 1, 0, 1, 'EUR')", lambda: Queue(1.0, 0.0)),
    "a capacity that is no number": ("('queue', 'NaN', 1, 1, 'EUR')", lambda: Queue(float("nan"))),
    "a capacity without end": ("('queue', 'Infinity', 1, 1, 'EUR')", lambda: Queue(float("inf"))),
    "no threshold": (
        "('queue', 2, 1, 0, 'EUR')",
        lambda: DeclaredCost(cost=Queue(2.0), threshold=0.0, currency="EUR"),
    ),
    "a threshold beyond the capacity": (
        "('queue', 2, 1, 2.5, 'EUR')",
        lambda: DeclaredCost(cost=Queue(2.0), threshold=2.5, currency="EUR"),
    ),
    "a currency that is none": (
        "('queue', 2, 1, 1, 'euro')",
        lambda: DeclaredCost(cost=Queue(2.0), threshold=1.0, currency="euro"),
    ),
}
BAD_POINTS: dict[str, list[tuple[float, float]]] = {
    "one point": [(0, 0)],
    "1,001 points": [(n, n * n) for n in range(1_001)],
    "a cost that is no number": [(0, 0), (1, float("nan"))],
    "a cost without end": [(0, 0), (1, float("inf"))],
    "a beginning beyond 0": [(0.5, 0), (1, 1)],
    "loads that are not sorted": [(0, 0), (2, 2), (1, 3)],
    "the same load twice": [(0, 0), (1, 1), (1, 3)],
    "a decreasing cost": [(0, 5), (1, 4)],
    "a cost that stays": [(0, 5), (1, 5)],
    "a cost that is not convex": [(0, 0), (1, 2), (2, 3)],
    "a slope that no number holds": [(0, 0), (1e-300, 1e300)],
}


def same_but_for_numbers(sql: str, core: str) -> bool:
    return NUMBER.sub("N", sql) == NUMBER.sub("N", core)


@pytest.mark.parametrize(("values", "core"), BAD.values(), ids=list(BAD))
def test_what_is_no_cost_function_is_refused_in_the_words_of_the_core(
    log_in: LogIn, values: str, core: Callable[[], object]
) -> None:
    with pytest.raises(Refused) as refused:
        core()
    output = refusal(log_in, QUEUE + values)
    assert same_but_for_numbers(output, str(refused.value)), (output, str(refused.value))


@pytest.mark.parametrize(
    "points", long_but(3, BAD_POINTS.values(), quick=True), ids=list(BAD_POINTS)
)
def test_points_that_are_not_increasing_and_convex_are_refused_with_the_first_that_breaks_it(
    log_in: LogIn, points: list[tuple[float, float]]
) -> None:
    with pytest.raises(Refused) as refused:
        PiecewiseLinear(tuple(points))
    written = ",".join(f"{{{load!r},{cost!r}}}" for load, cost in points)
    output = refusal(log_in, f"{PIECEWISE} ('piecewise', '{{{written}}}', 1, 'EUR')")
    assert same_but_for_numbers(output, str(refused.value)), (output, str(refused.value))
    assert run(log_in, "owner", "SELECT count(*) FROM medusa_market.cost_function") == [(0,)]


@pytest.mark.parametrize(
    "statement",
    [
        f"{PIECEWISE} ('piecewise', '{{0,1,2}}', 1, 'EUR')",
        f"{PIECEWISE} ('piecewise', '{{{{0,0,0}},{{1,1,1}}}}', 1, 'EUR')",
        f"{PIECEWISE} ('piecewise', '{{{{0,0}},{{1,NULL}}}}', 1, 'EUR')",
        f"{PIECEWISE} ('piecewise', NULL, 1, 'EUR')",
        f"{PIECEWISE} ('piecewise', '{{{{0,0}},{{1,1}}}}', NULL, 'EUR')",
        f"{PIECEWISE} ('queue', '{{{{0,0}},{{1,1}}}}', 1, 'EUR')",
        f"{QUEUE} ('piecewise', 1, 1, 1, 'EUR')",
        f"{QUEUE} ('linear', 1, 1, 1, 'EUR')",
        f"{QUEUE} (NULL, 1, 1, 1, 'EUR')",
        f"{QUEUE} ('queue', NULL, 1, 1, 'EUR')",
        f"{QUEUE} ('queue', 1, 1, 1, NULL)",
    ],
)
def test_what_has_another_form_is_refused_too(log_in: LogIn, statement: str) -> None:
    """By medusa_market.guard_cost."""
    refusal(log_in, statement)


def test_the_owner_cannot_go_around_the_checks_by_the_table(log_in: LogIn) -> None:
    assert "convex" in refusal(
        log_in,
        "INSERT INTO medusa_market.cost_function (kind, points, threshold, currency) VALUES "
        "('piecewise', '{{0,0},{1,2},{2,3}}', 1, 'EUR')"
    )  # fmt: skip


@pytest.mark.parametrize("role", ["airflow", "analyst", "exchange"])
def test_no_other_role_reads_cost_or_load(
    log_in: LogIn, attacked: PostgresCatalog, role: str
) -> None:
    run(log_in, "owner", f"{QUEUE} ('queue', {CANARY}, 1, 2, 'EUR')")
    attacked.record_load(a_sample(1))
    for relation in PRIVATE:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege) as refused:
            run(log_in, role, f"SELECT * FROM {relation}")
        assert str(CANARY) not in str(refused.value)
        (seen,) = run(log_in, "job", f"SELECT count(*) FROM {relation}")
        assert seen != (0,) or relation == "medusa_market.load_retention", relation
    for call in ("medusa_market.record_load('{}')", "medusa_market.trim_loads(1)",
                 "medusa_market.load_kept()", "medusa_market.check_points(NULL)"):  # fmt: skip
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            run(log_in, role, f"SELECT {call}")
    # Nor by what the planner knows, or others are seen to do.
    for seen in ("pg_stats", "pg_stat_activity", "pg_stat_user_functions"):
        found = run(log_in, role, f"SELECT * FROM pg_catalog.{seen}")
        assert str(CANARY) not in str(found)


@pytest.mark.parametrize("role", ["job", "airflow", "analyst", "exchange"])
def test_only_the_owner_declares_what_load_costs(log_in: LogIn, role: str) -> None:
    run(log_in, "owner", f"{QUEUE} ('queue', 4, 1, 2, 'EUR')")
    for statement in (f"{QUEUE} ('queue', 9, 1, 2, 'EUR')",
                      "UPDATE medusa_api.cost SET threshold = 3",
                      "UPDATE medusa_market.load_retention SET keep = '1 day'"):  # fmt: skip
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            run(log_in, role, statement)


def test_samples_stay_until_they_are_older_than_kept(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    attacked.record_load(a_sample(1))
    for verb in ("DELETE FROM medusa_market.load_sample", "DELETE FROM medusa_market.load_part",
                 "UPDATE medusa_market.load_sample SET total_us = 0",
                 "TRUNCATE medusa_market.load_part",
                 "TRUNCATE medusa_market.load_sample CASCADE"):  # fmt: skip
        assert "MDLOG" in refused_with(log_in, verb)
    run(log_in, "owner", "INSERT INTO medusa_market.load_retention (keep) VALUES ('1 hour') "
                         "ON CONFLICT (is_only) DO UPDATE SET keep = '1 hour'")  # fmt: skip
    attacked.record_load(a_sample(2, ended_ago_ms=3 * 3_600_000))
    assert len(attacked.loads_since(4 * 3_600_000)) == 1, "recording lets go of what is old"
    counts = ("SELECT (SELECT count(*) FROM medusa_market.load_sample), "
              "(SELECT count(*) FROM medusa_market.load_part)")  # fmt: skip
    assert run(log_in, "owner", counts) == [(1, 1)]
    with pytest.raises(psycopg2.errors.CheckViolation):
        run(log_in, "owner", "UPDATE medusa_market.load_retention SET keep = '5 minutes'")


def test_the_load_of_now_is_found_without_reading_what_is_kept(
    log_in: LogIn, postgres_server: EmbeddedServer, attacked_urls: HomeUrls
) -> None:
    run(log_in, "owner", MANY)
    superuser_url = postgres_server.superuser_url(attacked_urls.database)
    with watcher_of(superuser_url) as watcher, watcher.connect() as connection:
        connection.execute(text("ANALYZE medusa_market.load_sample, medusa_market.load_part"))
    looked = query("loads_since").text.replace(":window_ms", "60000")
    plan = "\n".join(str(line) for (line,) in run(log_in, "job", f"EXPLAIN {looked}"))
    assert "Seq Scan" not in plan, plan
    plan = "\n".join(str(line) for (line,) in run(log_in, "owner", f"EXPLAIN {OLDEST}"))
    assert "load_sample_ended" in plan, plan


def refused_with(log_in: LogIn, statement: str) -> str:
    with pytest.raises(psycopg2.Error) as refused:
        run(log_in, "owner", statement)
    return str(refused.value.pgcode)


@pytest.mark.parametrize(
    "wrong",
    long_but(
        3,
        [
            {"total_us": 5},
            {"ended_ago_ms": -1},
            {"ended_ago_ms": 90_000_000},
            {"length_ms": 0},
            {"length_ms": None},
            {"lane": "fast"},
            {"parts": None},
            {"parts": [{"kind": "work", "cpu_us": 4}]},
            {"parts": [{"kind": "starting", "cpu_us": 8}, {"kind": "delivery", "cpu_us": -4}]},
            {"parts": [{"kind": "starting", "cpu_us": 2}, {"kind": "starting", "cpu_us": 2}]},
        ],
        quick=True,
    ),
)
def test_a_sample_that_does_not_add_up_is_refused(
    log_in: LogIn, wrong: Mapping[str, object]
) -> None:
    request = {
        "driver": "d", "number": 1, "lane": "live", "length_ms": 1, "ended_ago_ms": 0,
        "total_us": 4, "parts": [{"kind": "starting", "cpu_us": 4}], **wrong,
    }  # fmt: skip
    with pytest.raises(psycopg2.Error) as refused, log_in("job").cursor() as cursor:
        cursor.execute("SELECT medusa_market.record_load(%s)", (json.dumps(request),))
    assert isinstance(error_of(refused.value), Refused)
    assert run(log_in, "owner", "SELECT count(*) FROM medusa_market.load_sample") == [(0,)]
