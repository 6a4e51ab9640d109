"""The command: runs, tables, and the verdict."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.availability.measuring import load_of_method, loads, outcome_of
from bench.availability.pair import CLASSES, Shape, release_all, running_pair, until_back
from bench.availability.table import Measured, is_kept, lines_of
from bench.machine import describe_machine
from bench.soak import own_folder
from medusa_core.errors import Refused
from medusa_core.market.terms import Method
from medusa_core.network import Map, Network, Output, Source
from pipelines.base import clock
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.language.check import check_network
from tests.conftest import folder_on_memory
from tests.federation.moving_offices import Participants, wait_for

SAMPLE_S = 12.0
"""A period of a sample of load, and the time until it is recorded."""

AFTER_S = 12.0
SENT = "SELECT coalesce(sum(bytes_received + bytes_sent), 0) FROM medusa_market.link"


def measured(server: EmbeddedServer, folder: Path, shape: Shape, steady_s: float) -> Measured:
    """One run: before the move, after it, and after the loss."""
    with running_pair(server, folder, shape) as both:
        before = _loads(both, steady_s)
        release_all(both)
        _pass(SAMPLE_S)
        began_s, sent = time.time(), _sent(both)
        after = _loads(both, steady_s)
        sent_bytes_s = (_sent(both) - sent) / (time.time() - began_s)
        killed_s = time.time()
        both.lose(both.provider)
        until_back(both)
        _pass(AFTER_S)
        both.lose(both.payer)
        return Measured(
            shape=shape,
            before={method: load_of_method(before[0], method) for method in Method},
            payer={method: load_of_method(after[0], method) for method in Method},
            provider={method: load_of_method(after[1], method) for method in Method},
            sent_bytes_s=sent_bytes_s,
            outcomes=tuple(
                outcome_of(both, method, class_, shape, killed_s)
                for method in Method
                for class_ in CLASSES
            ),
        )


def _loads(both: Participants, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    from_s = time.time()
    _pass(seconds + SAMPLE_S)
    to_s = time.time()
    return loads(both.payer, from_s, to_s), loads(both.provider, from_s, to_s)


def _pass(seconds: float) -> None:
    ends_s = clock.monotonic_s() + seconds
    wait_for("the time has passed", lambda: clock.monotonic_s() >= ends_s)


def _sent(both: Participants) -> int:
    return int(both.provider.sql(SENT)[0][0])


def refusal() -> str:
    """Why an operator that answers differently each time is refused."""
    source = Source(name="s", columns={"ts_us": "bigint"}, time="ts_us")
    drawn = Map(name="drawn", input="s", columns={"ts_us": "ts_us", "x": "rand()"})
    network = Network(
        name="arbitrary", sources=(source,), boxes=(drawn,),
        outputs=(Output(name="o", input="drawn"),),
    )  # fmt: skip
    try:
        check_network(network)
    except Refused as error:
        return str(error).splitlines()[0]
    raise AssertionError("a network with rand() is accepted")


def _document(run: Measured) -> dict[str, Any]:
    """A run as JSON has it."""
    return {
        "width": run.shape.width,
        "window": run.shape.window,
        "sent_bytes_s": run.sent_bytes_s,
        "loads": {
            method.value: [run.before[method], run.payer[method], run.provider[method]]
            for method in Method
        },
        "outcomes": [{**asdict(one), "method": one.method.value} for one in run.outcomes],
    }


def main(arguments: Sequence[str]) -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="bench availability")
    parser.add_argument("--widths", default="2s", help="of buckets, such as 2s,4s")
    parser.add_argument("--windows", default="4s", help="of windows and groups, such as 4s,20s")
    parser.add_argument("--steady", type=float, default=30.0, help="seconds of each load")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args(arguments)
    refused, found = refusal(), []
    try:
        for width in options.widths.split(","):
            for window in options.windows.split(","):
                server = EmbeddedServer(folder_on_memory("medusa-availability-"))
                try:
                    with server, own_folder() as folder:
                        shape = Shape(width, window)
                        found.append(measured(server, folder, shape, options.steady))
                finally:
                    server.discard()
                print("\n".join(lines_of(found[-1], refused)), flush=True)
    except AssertionError as error:
        print(f"something never came: {error}", file=sys.stderr)
        return 1
    finally:
        if options.json is not None:
            document = {"machine": describe_machine(), "runs": [_document(run) for run in found]}
            options.json.write_text(json.dumps(document, indent=1))
    broken = [one for run in found for one in run.outcomes if not is_kept(one)]
    for one in broken:
        print(f"BROKEN: {one}", file=sys.stderr)
    return 1 if broken else 0
