"""`python -m bench settlement`: how long two homes take to settle a million records.

A million final records lie in both homes, in 100,000 buckets and 1,000 segments: of a stream that
is sold, and of one that a moved fragment reads. Each home counts and states the period, the
provider bills, the payer answers, and both book, over the messages of production. The rows are
written as commits and imports write them, and are not part of the time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from bench.machine import describe_machine
from bench.wanted import Wanted, wanted_lines
from pipelines.catalog.postgres.settlements import open_settlements
from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.agreements.building import ALPHA, BETA, DAY_MS
from tests.agreements.homes import connections_of, parties_in, watchers_of
from tests.books.lending import Lending
from tests.books.trade import Trade
from tests.conftest import folder_on_memory
from tests.home_pool import lent_homes

SEGMENTS, BUCKETS, RECORDS = 1_000, 100, 10
"""Segments, buckets of each, records of each."""

DAYS = 70
PROMISED_S = 10.0


def settle_stream(trade: Trade) -> float:
    """Seconds until a period of a sold stream is settled in both homes."""
    trade.agree(settlement_ms=DAYS * DAY_MS)
    for at in range(SEGMENTS):
        first = at * BUCKETS
        trade.rows(first, first + BUCKETS, dict.fromkeys(range(first, first + BUCKETS), RECORDS))
    trade.rows(SEGMENTS * BUCKETS, DAYS * 24 * 60, {})
    return _until_settled(trade)


def settle_load(lending: Lending) -> float:
    """Seconds until a period of moved load is settled in both homes."""
    lending.lend(settlement_ms=DAYS * DAY_MS)
    lending.move(1, 0)
    for at in range(SEGMENTS):
        first = at * BUCKETS
        rows = dict.fromkeys(range(first, first + BUCKETS), RECORDS)
        lending.line("seen", first, first + BUCKETS, rows)
    lending.line("seen", SEGMENTS * BUCKETS, DAYS * 24 * 60, {})
    lending.line("counted", 0, DAYS * 24 * 60, {0: 1}, replica=1)
    return _until_settled(lending)


def _until_settled(trade: Trade) -> float:
    began_s = time.perf_counter()
    for _ in range(20):
        trade.look()
        trade.exchange()
        if [bill[2] for bill in trade.bills(trade.beta)][:1] == ["settled"]:
            return time.perf_counter() - began_s
    raise AssertionError("the period is not settled")


def main(arguments: Sequence[str]) -> int:
    """Measure, judge."""
    parser = argparse.ArgumentParser(prog="bench settlement", description=__doc__)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args(arguments)
    server = EmbeddedServer(folder_on_memory("medusa-settlement-"))
    found: dict[str, list[float]] = {"stream": [], "load": []}
    try:
        with server, ExitStack() as stack:
            urls = stack.enter_context(lent_homes(server, ALPHA, BETA))
            watchers = stack.enter_context(watchers_of(server, urls))
            connections = stack.enter_context(connections_of(urls))
            stores = {name: open_settlements(url.job) for name, url in urls.items()}
            for store in stores.values():
                stack.callback(store.close)
            for _ in range(options.tries):
                parties = parties_in(connections, watchers)
                found["stream"].append(settle_stream(Trade(parties, watchers, stores)))
                parties = parties_in(connections, watchers)
                found["load"].append(settle_load(Lending(parties, watchers, stores)))
    finally:
        server.discard()
    wanted = [
        Wanted(name=f"settlement of 1,000,000 records of {what}, s", measured=min(seconds),
               promised=PROMISED_S)
        for what, seconds in found.items()
    ]  # fmt: skip
    print("\n".join(wanted_lines(wanted)))
    if options.json is not None:
        document = {"machine": describe_machine(), "seconds": found,
                    "wanted": [asdict(one) for one in wanted]}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
