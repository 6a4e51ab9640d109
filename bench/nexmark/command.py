"""The command of `python -m bench nexmark`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.compared_rows import Compared
from bench.nexmark.answers import QUERIES, RESULT, compare, network_of
from bench.nexmark.events import generate_events
from bench.sliding import scratch
from medusa_core.grid import parse_duration_us
from medusa_core.knowledge import Limits
from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.homes.home import Home, make_home
from pipelines.participant.replay import replay
from pipelines.participant.replay_order import ReplayOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, PER_STEP = 1_000_000, 250_000


def main(arguments: Sequence[str]) -> int:
    """Run the queries one after the other, in one session of Spark, each in a home of its own."""
    from pipelines.spark.session import close_session, open_session

    parser = argparse.ArgumentParser(prog="bench nexmark", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="of all three streams")
    parser.add_argument("--only", choices=QUERIES, action="append", metavar="QUERY")
    options = parser.parse_args(arguments)
    failed = 0
    with scratch() as folder:
        files = generate_events(options.events).write(folder / "events")
        session = open_session(folder / "spark")
        try:
            print(
                f"{options.events:,} events\n\nquery    seconds        rows  compared with DuckDB"
            )
            for query in options.only or QUERIES:
                seconds, compared = _answered(session, folder / query, query, files)
                failed += not compared.is_equal
                print(
                    f"{query:<6} {seconds:9.1f} {compared.rows:11,}  {_verdict(compared)}",
                    flush=True,
                )
        finally:
            close_session(session)
    return min(failed, 1)


def _answered(
    session: SparkSession, folder: Path, query: str, files: Mapping[str, Path]
) -> tuple[float, Compared]:
    network = network_of(query)
    order = ReplayOrder(
        network=network,
        inputs={StreamName(s.name): (files[s.name],) for s in network.sources},
        width_us=parse_duration_us(network.bucket),
        limits=Limits(records_per_step_max=PER_STEP),
    )

    @contextmanager
    def sessions(home: Home) -> Iterator[Callable[[], SparkSession]]:
        yield lambda: session

    settings = Settings(catalog_url=None, directory=folder / "home", test_data=folder)
    with make_home(settings, Participant("bench"), keep=False) as home:
        began_s = time.perf_counter()
        replay(order, home, folder / "export", sessions=sessions)
        seconds = time.perf_counter() - began_s
    return seconds, compare(query, files, folder / "export" / f"{RESULT}.csv")


def _verdict(compared: Compared) -> str:
    if compared.is_equal:
        return "equal"
    return f"DIFFERENT: {compared.unexpected:,} unexpected, {compared.lacking:,} lacking"
