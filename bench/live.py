"""`python -m bench live`: the records a second that live participants land and compute.

One participant lands a recording that is played at a rate, in buckets of a second, and computes
the three outputs of netmon over windows of a second. The rate is raised until the lag of the
outputs grows. With `--homes 3` a chain computes: alpha lands, beta reads alpha's stream and passes
every record on, gamma reads beta's and computes the outputs.

Lag is how far the slowest line of a home is behind the event time that the recording has reached
by the clock since its first records landed; it lacks what that landing took, the same in each
sample. All is read from outside: the catalogs, and the CPU times of each participant's processes;
Postgres, which serves all homes, is counted apart. The parts of the CPU time are those that a
driver meters itself.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.federation import Federation, shipped_federation
from bench.home_samples import cpu_of_driver, cpu_of_server, read_home
from bench.live_figures import LiveRun, lines_of, wanted_of
from bench.live_made import CHAIN, write_contracts, write_recording
from bench.machine import describe_machine
from bench.process_tree import Sample
from bench.processes import ContenderFailed
from bench.soak import own_folder
from bench.wanted import wanted_lines
from medusa_core.errors import MedusaError
from pipelines.sources.generator import START_US

SQL, PARTS, PHASES = (
    (Path(__file__).parent / f"{name}.sql").read_text()
    for name in ("live", "live_parts", "live_phases")
)
RATES = {1: [50_000, 100_000, 200_000, 300_000], 3: [100_000]}
BEGIN_S_MAX = 300.0
LOOK_AGAIN_S = 0.5
SPARE_S = 30
"""Seconds of the recording that are left for the start, and for the end."""


def measure(
    folder: Path, *, homes: int, rate: int, warm_up_s: float, seconds: float, every_s: float
) -> LiveRun:
    """Play a recording at a rate; raises ContenderFailed if a participant ends."""
    files = write_recording(folder / "recording", rate=rate, seconds=warm_up_s + seconds + SPARE_S)
    contracts = write_contracts(folder / "contracts", homes, files)
    with shipped_federation(folder / "homes", contracts) as federation:
        for name in CHAIN[:homes]:
            federation.start(name)
        _wait_until_begun(federation)
        _sleep(federation, warm_up_s)
        since_s = time.time()
        samples = list(_samples(federation, seconds, every_s))
        return LiveRun(
            rate=rate,
            samples=samples,
            parts={name: _parts(federation, name, since_s) for name in federation.running},
            phases={name: _phases(federation, name, since_s) for name in federation.running},
        )


def _wait_until_begun(federation: Federation) -> None:
    """Until every home has a bucket of each of its lines."""
    gives_up_s = time.monotonic() + BEGIN_S_MAX
    while any(_home(federation, name)["unbegun"] for name in federation.running):
        if time.monotonic() > gives_up_s:
            raise ContenderFailed(f"some stream has no bucket after {BEGIN_S_MAX:g} s")
        _sleep(federation, LOOK_AGAIN_S)


def _sleep(federation: Federation, seconds: float) -> None:
    time.sleep(seconds)
    federation.check_all_run()


def _home(federation: Federation, participant: str) -> Sample:
    (row,) = read_home(federation, participant, SQL, {"participant": participant})
    return {name: value for name, value in row.items() if value is not None}


def _samples(federation: Federation, seconds: float, every_s: float) -> Iterator[dict[str, Sample]]:
    """Samples by participant, and those of the server under its own name."""
    first_s = _home(federation, CHAIN[0])["first_landed_s"]
    began_s, number = time.monotonic(), 0
    while (at_s := time.monotonic() - began_s) < seconds:
        federation.check_all_run()
        found = {"postgres": {"at_s": at_s, "server CPU s": cpu_of_server(federation.postmaster)}}
        for name, process in federation.running.items():
            home = _home(federation, name)
            played_s = START_US / 1e6 + home["clock_s"] - first_s
            found[name] = {
                "at_s": at_s,
                "lag_s": played_s - home["boundary_s"],
                **home,
                **cpu_of_driver(process.pid),
            }
        yield found
        number += 1
        time.sleep(max(began_s + number * every_s - time.monotonic(), 0))


def _parts(federation: Federation, participant: str, since_s: float) -> dict[str, float]:
    """CPU seconds per second by activity, as the driver metered them."""
    rows = read_home(federation, participant, PARTS, {"since_s": since_s})
    return {row["part"]: row["cpu_s"] / row["metered_s"] for row in rows}


def _phases(federation: Federation, participant: str, since_s: float) -> dict[str, float]:
    """Milliseconds of a step by phase, of steps that read records."""
    values = {"participant": participant, "since_s": since_s}
    rows = read_home(federation, participant, PHASES, values)
    return {row["phase"]: row["ms"] for row in rows}


def main(arguments: Sequence[str]) -> int:
    """Raise the rate until the lag grows; print what each rate costs."""
    parser = argparse.ArgumentParser(prog="bench live", description=__doc__)
    parser.add_argument("--homes", type=int, choices=RATES, default=1)
    parser.add_argument("--rate", type=int, nargs="+", help="records a second, one after another")
    parser.add_argument("--warm-up", type=float, default=15.0, help="seconds before it counts")
    parser.add_argument("--seconds", type=float, default=30.0, help="that count, for each rate")
    # Not a divisor of the buckets' second: else every sample meets a bucket at the same age.
    parser.add_argument("--every", type=float, default=0.7, help="seconds between samples")
    parser.add_argument("--json", type=Path, help="where the samples go")
    options = parser.parse_args(arguments)
    machine = describe_machine()
    runs: list[LiveRun] = []
    try:
        for rate in sorted(options.rate or RATES[options.homes]):
            with own_folder() as folder:
                runs.append(
                    measure(
                        folder,
                        homes=options.homes,
                        rate=rate,
                        warm_up_s=options.warm_up,
                        seconds=options.seconds,
                        every_s=options.every,
                    )
                )
            print("\n".join(lines_of(runs[-1])), flush=True)
            if not runs[-1].is_sustained:
                break
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 4
    print("\n".join(wanted_lines(wanted_of(runs))))
    if options.json is not None:
        document: dict[str, Any] = {
            "machine": machine,
            "homes": options.homes,
            "runs": [run.document() for run in runs],
            "load_after": list(os.getloadavg()),
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0
