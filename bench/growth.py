"""The growth of a tick with the catalog: the same tick over 100, 10,000 and 1,000,000 segments.

Three databases in one server hold histories of one network as years of running would leave them:
closed and computed windows, a tenth of them first tentative and then superseded. A tick reads
knowledge, decides and commits the outputs of one new window; only Spark is left out, replaced by
an engine that answers at once. The three take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2
from sqlalchemy import make_url

from bench.contender import Milliseconds
from bench.product import PARTICIPANT, WIDTH_US, Site
from bench.workload import Workload, start_us
from medusa_core.commits import StepMetrics
from medusa_core.decide import ComputeStep
from medusa_core.digest import Digest
from medusa_core.knowledge import Limits
from medusa_core.segments import SegmentFile
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import create_home
from pipelines.language.check import check_network
from pipelines.spark.results import StepResult, Written
from pipelines.storage.segment_files import new_attempt

FILL = Path(__file__).parent / "fill.sql"
SEGMENTS_PER_WINDOW = 4.3
RECORDS = 10
WORKLOAD = Workload(query="three", records=RECORDS, steps=0, warm_up=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Ticks by the number of segments that the catalog began with."""

    segments: Mapping[int, int]
    ticks: Mapping[int, tuple[Milliseconds, ...]]
    fill_s: Mapping[int, float]


class InstantEngine:
    """Answers every step with one row in each output; nothing is computed or written."""

    def compute(self, step: ComputeStep) -> StepResult:
        """The result of a step, at once."""
        at_us = step.range.from_us
        written = tuple(
            Written(
                stream=name,
                files=(
                    SegmentFile(
                        path=f"{name}/{new_attempt()}.parquet",
                        size_bytes=1_000,
                        sha256="0" * 64,
                        rows=1,
                    ),
                ),
                buckets={at_us: Digest(1, 2**63 + at_us, 2**62 + at_us)},
            )
            for name in step.outputs
        )
        return StepResult(
            written=written, quarantine=(), metrics=StepMetrics(records_in=RECORDS, records_out=3)
        )

    def check_deterministic(self, step: ComputeStep, result: StepResult) -> None:
        """Nothing to swear."""


def measure_growth(
    sizes: tuple[int, ...], ticks: int, warm_up: int, folder: Path, say: Callable[[str], None]
) -> Growth:
    """Fill a catalog for each size, then tick them in turn."""
    with ExitStack() as stack:
        server = EmbeddedServer(folder / "postgres")
        stack.callback(server.discard)
        stack.enter_context(server)
        sites, segments, fill_s = {}, {}, {}
        for size in sizes:
            start = time.perf_counter()
            site, windows, segments[size] = stack.enter_context(
                _filled(server.superuser_url(), size, folder)
            )
            fill_s[size] = time.perf_counter() - start
            sites[size] = (site, windows)
            say(f"  {segments[size]:,} segments filled in {fill_s[size]:.0f} s")
        measured: dict[int, list[Milliseconds]] = {size: [] for size in sizes}
        for tick in range(warm_up + ticks):
            first = tick % len(sizes)
            for size in (*sizes[first:], *sizes[:first]):
                site, windows = sites[size]
                ms = _tick(site, windows + tick)
                if tick >= warm_up:
                    measured[size].append(ms)
            say(f"  tick {tick + 1} of {warm_up + ticks}")
    return Growth(
        segments=segments, ticks={s: tuple(ms) for s, ms in measured.items()}, fill_s=fill_s
    )


def _tick(site: Site, window: int) -> Milliseconds:
    site.land(WORKLOAD, [window], start_us(0))
    site.close_windows()
    driver = site.driver(site.fragments, Limits())
    spent = site.catalog.spent_ms
    spent.clear()
    start = time.perf_counter()
    (applied,) = driver.tick()
    total_ms = (time.perf_counter() - start) * 1000
    assert isinstance(applied.decision, ComputeStep)
    assert applied.decision.range.from_us == start_us(window)
    return {
        "total": total_ms,
        "knowledge": spent["read_knowledge"],
        "commit": spent["commit"],
        "rest": total_ms - sum(spent.values()),
    }


@contextmanager
def _filled(admin_url: str, size: int, folder: Path) -> Iterator[tuple[Site, int, int]]:
    """A home with about `size` segments: its site, its windows, and how many segments it has."""
    urls = create_home(admin_url, PARTICIPANT, f"medusa_growth_{size}")
    catalog = PostgresCatalog(urls.job, PARTICIPANT)
    try:
        engine = InstantEngine()
        checked = check_network(WORKLOAD.network)
        with Site(catalog, folder / f"storage_{size}", checked, lambda: engine) as site:
            windows = max(round(size / SEGMENTS_PER_WINDOW), 1)
            yield site, windows, _fill(urls.owner_role, site.plan.id, windows)
    finally:
        catalog.close()


def _fill(owner_url: str, plan: str, windows: int) -> int:
    """Write the history as the owner, under all constraints and guards; count its segments."""
    values = {
        "windows": windows,
        "plan": plan,
        "start_us": start_us(0),
        "width_us": WIDTH_US,
        "participant": PARTICIPANT,
    }
    url = make_url(owner_url)
    # All that the address says goes along: a server's socket or certificate stands in its query.
    connection = psycopg2.connect(
        **url.query, **url.translate_connect_args(username="user", database="dbname")
    )
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(FILL.read_text(), values)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE)")
            cursor.execute("SELECT count(*) FROM medusa.segment")
            (segments,) = cursor.fetchone()
    finally:
        connection.close()
    return int(segments)
