"""What a step reads and writes does not grow with the history: counted in pages, not in time."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, text

from medusa_core.knowledge import Limits
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of
from tests.catalog.producing import BETA, Reading
from tests.sweeps import examples

FEW, MANY = 100, examples(2_000, 30_000)
# Hundreds of times the rows make an index two pages higher; a step reads several indexes.
PAGES_MORE_MAX = 12
FILL = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version,
        end_version, plan, commit_id)
    SELECT p.line_id, i * {width}, (i + 1) * {width}, 'stable', i, i, superseded, '{plan}',
        (SELECT min(commit_id) FROM medusa.commit)
    FROM medusa.stream_producer AS p, generate_series({first}::bigint, {last}) AS i,
        (VALUES (NULL), ({last} + 1)) AS v (superseded);
    INSERT INTO medusa.line_version (line_id, version, chain)
    SELECT p.line_id, i, sha256('')
    FROM medusa.stream_producer AS p, generate_series({first}::bigint, {last}) AS i
    WHERE p.stream = 'sums'
    ON CONFLICT DO NOTHING;
    UPDATE medusa.stream_producer
    SET origin_us = 0, boundary_us = ({last}::bigint + 1) * {width}, last_version = {last};
END $$
"""
LATE = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    UPDATE medusa.segment AS s SET stability = 'tentative'
    FROM medusa.stream_producer AS p
    WHERE p.line_id = s.line_id AND p.replica = -1 AND s.from_us = {last}::bigint * {width}
        AND s.end_version IS NULL;
    UPDATE medusa.segment AS s SET stability = 'stable'
    FROM medusa.stream_producer AS p
    WHERE p.line_id = s.line_id AND p.replica = -1 AND s.from_us < {last}::bigint * {width};
    UPDATE medusa.stream_producer SET compared_us = boundary_us;
END $$
"""
"""The newest row of the import's line is tentative, and so no other is; all has been compared."""


@pytest.fixture(scope="module")
def growing(postgres_server: EmbeddedServer) -> Iterator[tuple[HomeUrls, Engine]]:
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, a.ALPHA, "medusa_growing")
    with watcher_of(postgres_server.superuser_url(urls.database)) as watcher:
        yield urls, watcher
    drop_home(admin_url, urls.database)


def pages_of(connection: Connection, statement: str, values: dict[str, object]) -> int:
    """Pages that a statement touches when it runs a second time."""
    explain = text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}")
    for _ in range(2):
        (plan,) = connection.execute(explain, values).scalar_one()
    whole = plan["Plan"]
    return int(whole["Shared Hit Blocks"] + whole["Shared Read Blocks"])


def pages_of_a_step(urls: HomeUrls, watcher: Engine, at: int) -> dict[str, int]:
    """Pages of each statement of a step whose frontier is at a bucket."""
    with watcher.connect() as connection:
        connection.execute(text("ANALYZE"))
        (line_id,) = connection.execute(
            text("SELECT line_id FROM medusa.stream_producer WHERE stream = 'src'")
        ).one()
        begin_us = (at - 6) * a.WIDTH_US
        limits = Limits()
        pages = {
            "knowledge_assigned": pages_of(
                connection,
                query("knowledge_assigned").text,
                {"participant": a.ALPHA, "fragments": [a.MAIN, a.TAIL], "buckets_max": 1025},
            ),
            "knowledge_segments": pages_of(
                connection,
                query("knowledge_segments").text,
                {
                    "requests": [0],
                    "line_ids": [line_id],
                    "from_us": [begin_us],
                    "need_us": [begin_us + a.WIDTH_US],
                    "beyond": [limits.buckets_per_step_max],
                    "records_max": limits.records_per_step_max,
                    "buckets_max": limits.buckets_per_step_max,
                },
            ),
        }
        pages["lines"] = pages_of(connection, query("lines").text, {"stream": None})
        news = {"stream": a.SUMS, "participant": a.ALPHA, "replica": 0, "after": at - 3}
        pages["line_news"] = pages_of(
            connection, query("line_news").text, news | {"segments_max": 1_000}
        )
        # Reading by hand, too: a range long ago must not read all that came after it.
        for when, from_us in (("early", 50 * a.WIDTH_US), ("late", (at - 3) * a.WIDTH_US)):
            values: dict[str, object] = {
                "stream": a.SUMS,
                "participant": a.ALPHA,
                "replica": 0,
                "from_us": from_us,
                "to_us": from_us + a.WIDTH_US,
            }
            version = from_us // a.WIDTH_US
            pages |= {
                f"lineage, {when}": pages_of(
                    connection, query("lineage").text, values | {"version": version}
                ),
                f"lineage of nothing, {when}": pages_of(
                    connection, query("lineage").text, values | {"version": 7_000_000}
                ),
                f"segments, {when}": pages_of(connection, query("segments").text, values),
                f"segments_as_of, {when}": pages_of(
                    connection, query("segments_as_of").text, values | {"as_of": version}
                ),
            }
        for lane in (0, 1):
            commit = a.a_commit(a.a_segment(at + lane, at + lane + 1, rows={at + lane: 1}))
            pages["commit_step"] = pages_of_commit(connection, rows.commit_document(commit))
        return pages


def pages_of_commit(connection: Connection, request: str) -> int:
    explain = text(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT medusa.commit_step(CAST(:r AS jsonb))"
    )
    (plan,) = connection.execute(explain, {"r": request}).scalar_one()
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


@pytest.mark.sweep
@pytest.mark.long
def test_a_step_touches_as_many_pages_after_a_long_history_as_after_a_short_one(
    growing: tuple[HomeUrls, Engine],
) -> None:
    urls, watcher = growing
    catalog = PostgresCatalog(urls.job, a.ALPHA)
    catalog.deploy(a.a_deployment())
    catalog.acquire_lease(a.a_key(), a.FIRST, "me", a.HOUR_MS)
    catalog.commit(a.a_commit(a.a_segment(0, 1), lineage=(a.a_read(),)))
    catalog.close()
    pages: list[dict[str, int]] = []
    first = 1
    for last in (FEW, MANY):
        with watcher.connect() as connection:
            fill = FILL.format(plan=a.PLAN, width=a.WIDTH_US, first=first, last=last)
            connection.exec_driver_sql(fill)
        pages.append(pages_of_a_step(urls, watcher, last + 1))
        first = last + 3
    few, many = pages
    for statement, count in many.items():
        assert count <= few[statement] + PAGES_MORE_MAX, (statement, few, many)


STEPS = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    SELECT 'landing ' || i, '{landing}', 0, 'alpha', 0, 'live', 1, '{plan}', 'landing', i, i + 1,
        '{{}}', clock_timestamp()
    FROM generate_series({first}, {last}) AS i;
END $$
"""


@pytest.mark.long(quick=True)
@pytest.mark.sweep
def test_what_steps_cost_is_read_without_the_commits_that_only_landed(
    postgres_server: EmbeddedServer,
) -> None:
    """A fragment that only lands has no step to be found, however long it is looked for."""
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, a.ALPHA, "medusa_landing")
    try:
        catalog = PostgresCatalog(urls.job, a.ALPHA)
        catalog.deploy(a.a_deployment())
        catalog.acquire_lease(a.a_key(), a.FIRST, "me", a.HOUR_MS)
        catalog.commit(a.a_commit(a.a_segment(0, 1), lineage=(a.a_read(),)))
        asked: dict[str, object] = {"participant": a.ALPHA, "steps_max": 32}
        pages: list[int] = []
        first = 1
        with watcher_of(postgres_server.superuser_url(urls.database)) as watcher:
            for last in (FEW, MANY):
                with watcher.connect() as connection:
                    steps = STEPS.format(plan=a.PLAN, landing=a.LANDING, first=first, last=last)
                    connection.exec_driver_sql(steps)
                    connection.execute(text("ANALYZE"))
                    pages.append(pages_of(connection, query("step_costs").text, asked))
                first = last + 1
        assert set(catalog.step_costs()) == {a.MAIN}
        catalog.close()
        assert pages[1] <= pages[0] + PAGES_MORE_MAX, pages
    finally:
        drop_home(admin_url, urls.database)


@pytest.mark.sweep
@pytest.mark.long
def test_what_is_read_of_several_producers_does_not_grow_with_what_was_chosen_long_ago(
    postgres_server: EmbeddedServer,
) -> None:
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, a.ALPHA, "medusa_choosing")
    try:
        with watcher_of(postgres_server.superuser_url(urls.database)) as watcher:
            catalog = PostgresCatalog(urls.job, a.ALPHA)
            reading = Reading(catalog)
            reading[BETA].commit(0, 1)
            reading.hear()
            reading.settle()
            pages: list[int] = []
            first = 1
            for last in (FEW, MANY // 6):
                with watcher.connect() as connection:
                    fill = FILL.format(plan=a.PLAN, width=a.WIDTH_US, first=first, last=last)
                    connection.exec_driver_sql(fill)
                    connection.exec_driver_sql(
                        LATE.format(plan=a.PLAN, width=a.WIDTH_US, last=last)
                    )
                    connection.execute(text("ANALYZE"))
                    asked: dict[str, object] = {"participant": a.ALPHA, "segments_max": 1_024}
                    pages.append(pages_of(connection, query("knowledge_imports").text, asked))
                known = reading.known()
                assert known.tentative == (a.buckets(last, last + 1),)
                assert sum(len(p.segments) for p in known.producers) == 2 * len(known.tentative)
                first = last + 1
            catalog.close()
        assert pages[1] <= pages[0] + PAGES_MORE_MAX
    finally:
        drop_home(admin_url, urls.database)


REVISED = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id)
    SELECT p.line_id, i * {width}, (i + 1) * {width}, 'stable', i, i, '{plan}', i
    FROM medusa.stream_producer AS p, generate_series({first}::bigint, {last}) AS i
    WHERE p.stream = 'sums';
    INSERT INTO medusa.lineage (commit_id, output, position, input, participant, replica, from_us,
        to_us, read_version, drop_rate)
    SELECT i, 'sums', 0, 'src', 'alpha', 0, i * {width}, (i + 1) * {width}, 1, 0
    FROM generate_series({first}::bigint, {last}) AS i;
    INSERT INTO medusa.recall (line_id, generation, from_us, because, who, version, ranges,
        changed)
    SELECT p.line_id, 1 + i / 10, lower(r.whole), 'late', 'me', i, r.whole, r.whole
    FROM medusa.stream_producer AS p,
        generate_series({first}::bigint / 10 * 10 + 10, {last}, 10) AS i,
        LATERAL (SELECT range_agg(int8range((i - 2 * n) * {width}, (i - 2 * n + 1) * {width}))
            FROM generate_series(0, 4) AS n) AS r (whole)
    WHERE p.stream = 'src';
END $$
"""
"""Every step in a commit of its own, and after each ten of them five buckets are revised."""


def test_what_a_revision_owes_is_found_without_reading_what_others_owed(
    postgres_server: EmbeddedServer,
) -> None:
    """Also where the tables have grown since their last statistics."""
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, a.ALPHA, "medusa_revising")
    try:
        catalog = PostgresCatalog(urls.job, a.ALPHA)
        catalog.deploy(a.a_deployment())
        catalog.close()
        pages: list[int] = []
        with watcher_of(postgres_server.superuser_url(urls.database)) as watcher:
            first = 10
            for last in (FEW, 4 * FEW):
                with watcher.connect() as connection:
                    fill = REVISED.format(plan=a.PLAN, width=a.WIDTH_US, first=first, last=last)
                    connection.exec_driver_sql(fill)
                    lines = text("SELECT stream, line_id FROM medusa.stream_producer")
                    line_ids = dict(map(tuple, connection.execute(lines)))
                    pair = {
                        "output": line_ids[a.SUMS], "input": line_ids[a.SRC],
                        "back_us": a.WIDTH_US, "delay_us": 0, "settled": last // 10,
                    }  # fmt: skip
                    asked: dict[str, object] = {"pairs": json.dumps([pair])}
                    owed = connection.execute(query("knowledge_revised"), asked).all()
                    assert len(owed) == 5
                    pages.append(pages_of(connection, query("knowledge_revised").text, asked))
                first = last + 1
        assert pages[1] <= 2 * pages[0], pages  # indexes are a page higher
    finally:
        drop_home(admin_url, urls.database)
