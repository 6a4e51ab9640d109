"""`python -m bench streams`: many streams on one participant, fed through one landing query.

A participant as a process of its own lands and computes N like streams in buckets of 10 s; one
writer puts a file a second into the folder that they all watch, some records for each. Everything
is read from outside, /proc and the catalog. After a warm-up the lag of the slowest output behind
the clock must stay flat, and a stream must not cost more where there are many of them.

Exit code 1 where a bound is broken or the participant has ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.federation import Federation, shipped_federation
from bench.home_samples import cpu_of_driver, cpu_of_server, read_home, slope
from bench.machine import describe_machine
from bench.process_tree import Sample, sample_driver
from bench.processes import ContenderFailed
from bench.soak import own_folder
from bench.streams_made import PARTICIPANT, Writer, write_contracts
from medusa_core.errors import MedusaError

SQL = (Path(__file__).parent / "streams.sql").read_text()
BUCKET_S = 10
SLOPE_MAX = 1.0
"""Seconds of lag a minute."""

COST_RATIO_MAX = 1.2
"""CPU of a stream and bucket with the most streams, to that with the fewest."""

THREADS_MAX = 8
"""Threads of the participant's Python more at the end than at the beginning: they stay flat."""

BEGIN_S_MAX = 600

LOOK_AGAIN_S = 2
"""A look counts over every stream's rows: often enough, it would slow what is timed."""


def measure(
    folder: Path, streams: int, *, per_stream: float, warm_up_s: float, duration_s: float,
    every_s: float, retention: str,
) -> dict[str, Any]:  # fmt: skip
    """Run one participant with so many streams; its samples, and what they come to."""
    contracts = folder / "contracts"
    inbox = write_contracts(contracts, streams, bucket=f"{BUCKET_S}s", retention=retention)
    began_s = time.monotonic()
    with shipped_federation(folder / "homes", contracts) as federation:
        deployed_s = time.monotonic() - began_s
        federation.start(PARTICIPANT)
        writer = Writer(inbox, streams, per_stream=per_stream, every_s=1.0)
        with writer.at_work():
            begun_s = _wait_until_begun(federation, streams)
            samples = list(_samples(federation, warm_up_s, duration_s, every_s))
        written = writer.records
    found = {"deployed s": deployed_s, "begun s": begun_s, **figures_of(streams, samples)}
    return {
        "streams": streams,
        "per_stream": per_stream,
        "written": written,
        "figures": found,
        "samples": samples,
    }


def _wait_until_begun(federation: Federation, streams: int) -> float:
    """Until every output has its first bucket; for how many seconds that was."""
    began_s = time.monotonic()
    while True:
        federation.check_all_run()
        sample = sample_home(federation)
        waited_s = time.monotonic() - began_s
        if sample["begun"] >= streams:
            return waited_s
        if waited_s > BEGIN_S_MAX:
            raise ContenderFailed(f"{sample['begun']:,.0f} of {streams:,} streams have begun")
        _show_progress(f"{streams:,} streams: {sample['begun']:,.0f} begun after {waited_s:.0f} s")
        time.sleep(LOOK_AGAIN_S)


def _samples(
    federation: Federation, warm_up_s: float, duration_s: float, every_s: float
) -> Iterator[Sample]:
    began_s = time.monotonic()
    number = 0
    while True:
        at_s = time.monotonic() - began_s
        if at_s >= warm_up_s + duration_s:
            return
        if at_s >= warm_up_s:
            federation.check_all_run()
            process = federation.running[PARTICIPANT]
            sample = {
                "at_s": at_s - warm_up_s,
                **sample_home(federation),
                **sample_driver(process.pid),
                **cpu_of_driver(process.pid),
                "server CPU s": cpu_of_server(federation.postmaster),
            }
            yield sample
            _show_progress(f"{sample['at_s']:.0f} s: behind by {sample['behind_s']:.1f} s")
        number += 1
        time.sleep(max(began_s + number * every_s - time.monotonic(), 0))


def sample_home(federation: Federation) -> Sample:
    """What the catalog says of itself; not asked of the participant."""
    (row,) = read_home(federation, PARTICIPANT, SQL)
    return {name: float(value) for name, value in row.items()}


def figures_of(streams: int, samples: Sequence[Sample]) -> dict[str, float]:
    """What the samples come to: per bucket of all streams, unless the name says otherwise."""
    first, last = samples[0], samples[-1]
    span_s = last["at_s"] - first["at_s"]
    buckets = span_s / BUCKET_S
    cpu = {
        name: (last[name] - first[name]) / buckets
        for name in ("python CPU s", "JVM CPU s", "server CPU s")
    }
    return {
        "lag median s": median(s["behind_s"] for s in samples),
        "lag most s": max(s["behind_s"] for s in samples),
        "lag slope s/min": 60 * slope([(s["at_s"], s["behind_s"]) for s in samples]),
        "landed records/s": (last["landed"] - first["landed"]) / span_s,
        "landings": (last["batches"] - first["batches"]) / buckets,
        "commits": (last["commits"] - first["commits"]) / buckets,
        "spark jobs": (last["spark_jobs"] - first["spark_jobs"]) / buckets,
        **cpu,
        "CPU ms per stream": 1_000 * sum(cpu.values()) / streams,
        "python RSS MiB": last["python RSS MiB"],
        "RSS slope MiB/min": 60 * slope([(s["at_s"], s["python RSS MiB"]) for s in samples]),
        "threads begun": last["threads"] - first["threads"],
        "JVM RSS MiB": last.get("JVM RSS MiB", 0.0),
    }


def broken_bounds(measured: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is not as promised, in sentences."""
    broken = [
        f"{m['streams']:,} streams: the lag grows by {slope_of_lag:.2f} s a minute"
        for m in measured
        if (slope_of_lag := m["figures"]["lag slope s/min"]) > SLOPE_MAX
    ]
    broken += [
        f"{m['streams']:,} streams: {begun:.0f} threads more than at the beginning"
        for m in measured
        if (begun := m["figures"]["threads begun"]) > THREADS_MAX
    ]
    fewest, most = measured[0], measured[-1]
    ratio = most["figures"]["CPU ms per stream"] / fewest["figures"]["CPU ms per stream"]
    if ratio > COST_RATIO_MAX:
        broken.append(
            f"a stream costs {ratio:.2f} times as much among {most['streams']:,} as among "
            f"{fewest['streams']:,}"
        )
    return broken


def lines_of(measured: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The figures as a table, a column for each number of streams."""
    yield f"{'streams':20}" + "".join(f"{m['streams']:>12,}" for m in measured)
    for name in measured[0]["figures"]:
        yield f"{name:20}" + "".join(f"{m['figures'][name]:>12,.2f}" for m in measured)


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """Parse, run, judge."""
    parser = argparse.ArgumentParser(prog="bench streams", description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[100, 300, 1_000])
    parser.add_argument("--per-stream", type=float, default=5.0, help="records a second of each")
    parser.add_argument("--warm-up", type=float, default=90.0, help="seconds before it counts")
    parser.add_argument("--seconds", type=float, default=180.0, help="that count, for each number")
    # Not a multiple of the buckets' 10 s: else every sample meets a bucket at the same age.
    parser.add_argument("--every", type=float, default=2.3, help="seconds between samples")
    parser.add_argument("--keep", default="10m", help="the retention of every stream")
    parser.add_argument("--json", type=Path, help="where the samples go")
    options = parser.parse_args(arguments)
    measured: list[dict[str, Any]] = []
    try:
        for streams in sorted(options.streams):
            with own_folder() as folder:
                measured.append(
                    measure(
                        folder,
                        streams,
                        per_stream=options.per_stream,
                        warm_up_s=options.warm_up,
                        duration_s=options.seconds,
                        every_s=options.every,
                        retention=options.keep,
                    )
                )
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 4
    if options.json is not None:
        document = {"machine": describe_machine(), "measured": measured}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    for line in lines_of(measured):
        print(line)
    broken = broken_bounds(measured)
    for sentence in broken:
        print(f"broken: {sentence}")
    return 1 if broken else 0
