"""`python -m bench sliding`: what sliding windows cost, against tumbling ones over equal records.

One network computes the same values per source over windows of 60 s: in one fragment tumbling, in
another every 10 s, over panes that a step leaves to the next. Buckets are 10 s wide. For each
minute that has come, the step of each is timed in turn, from knowledge to commit. Both results are
counted again by another engine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

from bench.product import STREAM, Site
from bench.workload import Workload, start_us
from medusa_core.knowledge import Limits
from medusa_core.names import FragmentName, Participant, StreamName
from medusa_core.network import Aggregate, Box, Filter, Network, Output, Source
from pipelines.base.settings import Settings
from pipelines.catalog.reading_roles import Lines
from pipelines.homes.home import make_home
from pipelines.language.check import check_network
from pipelines.storage.arrow_schema import STIME

WIDTH_US, SIZE_S, ADVANCE_S = 10_000_000, 60, 10
BUCKETS_PER_WINDOW = 6
RATIO_MAX = 1.6
VALUES = {
    "connections": "count(*)",
    "lowest": "min(resp_p)",
    "highest": "max(resp_p)",
    "total": "sum(resp_p)",
}
MANY = 100
"""Sources with more connections than this come out, as in the networks that we ship."""


def a_network() -> Network:
    """The same windows twice."""
    boxes: list[Box] = []
    for kind, advance in (("tumbling", SIZE_S), ("sliding", ADVANCE_S)):
        boxes += [
            Aggregate(name=kind, input=STREAM, size=f"{SIZE_S}s", advance=f"{advance}s",
                      group_by=("orig_h",), columns=VALUES, fragment=kind),
            Filter(name=f"busy_{kind}", input=kind, cases={"yes": f"connections > {MANY}"},
                   fragment=kind),
        ]  # fmt: skip
    return Network(
        name="slid",
        sources=(
            Source(
                name=STREAM,
                columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
                time="ts_us",
            ),
        ),
        boxes=tuple(boxes),
        outputs=tuple(Output(name=f"{k}_out", input=f"busy_{k}") for k in ("tumbling", "sliding")),
    )


def measure(folder: Path, workload: Workload) -> tuple[list[float], list[float]]:
    """Milliseconds of each counted minute: tumbling, sliding."""
    from pipelines.spark.session import close_session, open_session
    from pipelines.spark.step import StepEngine

    checked = check_network(a_network())
    with ExitStack() as stack:
        session = open_session(folder / "spark")
        stack.callback(close_session, session)
        settings = Settings(catalog_url=None, directory=folder / "home", test_data=folder)
        home = stack.enter_context(make_home(settings, Participant("bench"), keep=False))
        engine = StepEngine(session, home.storage, checked)
        site = stack.enter_context(
            Site(home.catalog, home.storage, checked, lambda: engine, WIDTH_US)
        )
        one_window = Limits(buckets_per_step_max=BUCKETS_PER_WINDOW)
        drivers = {f.name: site.driver((f,), one_window) for f in site.fragments}
        times: dict[str, list[float]] = {"tumbling": [], "sliding": []}
        for minute in range(workload.warm_up + workload.steps):
            site.land(workload, [minute], start_us(0))
            site.close_windows(one_window)
            for kind in sorted(drivers, reverse=bool(minute % 2)):
                start = time.perf_counter()
                (done,) = drivers[FragmentName(kind)].tick()
                if minute >= workload.warm_up:
                    times[kind].append((time.perf_counter() - start) * 1000)
                    assert done.commit.metrics.records_in == workload.records
        check(home.catalog, home.storage)
    return times["tumbling"], times["sliding"]


def check(catalog: Lines, root: Path) -> None:
    """Compare all windows with what another engine makes of the records; else AssertionError."""

    def files(stream: str) -> list[str]:
        segments = catalog.segments(StreamName(stream))
        return [str(root / file.path) for segment in segments for file in segment.files]

    with duckdb.connect() as connection:
        for kind, advance_us in (("tumbling", SIZE_S * 10**6), ("sliding", ADVANCE_S * 10**6)):
            size_us = SIZE_S * 10**6
            expected: list[tuple[Any, ...]] = connection.execute(
                f"""
                WITH record AS (
                    SELECT *, unnest(range({STIME} - {STIME} % {advance_us} - {size_us}
                        + {advance_us}, {STIME} + 1, {advance_us})) AS at_us
                    FROM read_parquet($given))
                SELECT make_timestamptz(at_us) AS window_start, orig_h, count(*) AS connections,
                    min(resp_p), max(resp_p), sum(resp_p)::bigint
                FROM record WHERE at_us + {size_us} <= (
                    SELECT max({STIME} - {STIME} % {size_us}) + {size_us} FROM record)
                GROUP BY ALL HAVING count(*) > {MANY} ORDER BY ALL
                """,
                {"given": files(STREAM)},
            ).fetchall()
            found = connection.execute(
                "SELECT window_start, orig_h, connections, lowest, highest, total "
                "FROM read_parquet($found) ORDER BY ALL",
                {"found": files(f"{kind}_out")},
            ).fetchall()
            assert found == expected, f"{kind}: {len(found)} rows, not {len(expected)} or others"


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of the run's own."""
    from bench.__main__ import work_folder

    with work_folder(Settings.from_environment(os.environ).directory) as folder:
        yield folder


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 0 also where the promise is missed, as for the other comparisons."""
    parser = argparse.ArgumentParser(prog="bench sliding", description=__doc__)
    parser.add_argument("--records", type=int, default=250_000, help="records per window")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=30)
    options = parser.parse_args(arguments)
    workload = Workload(
        query="one", records=options.records, steps=options.steps, warm_up=options.warm_up
    )
    with scratch() as folder:
        tumbling, sliding = measure(folder, workload)
    ratio = median(sliding) / median(tumbling)
    paired = median(s / t for s, t in zip(sliding, tumbling, strict=True))
    print(f"{options.records:,} records per window of {SIZE_S} s, {len(sliding)} windows, p50 ms")
    print(f"  tumbling                 {median(tumbling):7.1f}")
    print(f"  sliding by {ADVANCE_S} s, panes   {median(sliding):7.1f}")
    met = "met" if ratio <= RATIO_MAX else "MISSED"
    print(f"  ratio {ratio:.2f} (paired {paired:.2f}), promised <= {RATIO_MAX}: {met}")
    return 0
