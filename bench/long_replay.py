"""`python -m bench long-replay`: a long recording is replayed in the memory of a short one.

Two million generated connections, then twenty million, are written as Parquet files of 250,000 and
replayed through netmon to the end, each by a `medusa replay` of its own with a home of its own. The
greatest resident memory of its Python processes and of its JVM is taken from outside, five times
a second. What must stay near 1 is the ratio of the peaks; the records' is ten.

Exit code 1 if a ratio is above RATIO_MAX, or if a replay fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import describe_machine
from bench.process_tree import sample_driver
from bench.processes import REPOSITORY, ContenderFailed
from bench.soak import own_folder
from pipelines.sources.generated_files import write_generated

MILLION = 1_000_000
RECORDS_PER_FILE = 250_000
RATIO_MAX = 1.3
LOOK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """One replay: how long it took, and the most that it held, in MiB."""

    records: int
    seconds: float
    python_mib: float
    jvm_mib: float
    jvm_heap_mib: float
    rows_out: int


def replay(files: Sequence[Path], records: int, folder: Path) -> Peak:
    """Replay files in a new home; raises ContenderFailed if it does not end well."""
    command = [sys.executable, "-m", "pipelines.cli.main", "replay", "netmon", "--json"]
    command += ["--keep", str(folder), "--input", *map(str, files)]
    environment = {**os.environ, "MEDUSA_CATALOG_URL": ""}
    python_mib = jvm_mib = heap_mib = 0.0
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            cwd=REPOSITORY, env=environment,
        )  # fmt: skip
        try:
            while process.poll() is None:
                sample = sample_driver(process.pid, leave_out="postgres")
                python_mib = max(python_mib, sample["python RSS MiB"])
                jvm_mib = max(jvm_mib, sample.get("JVM RSS MiB", 0))
                heap_mib = max(heap_mib, sample.get("JVM heap committed MiB", 0))
                time.sleep(LOOK_AGAIN_S)
        finally:
            process.kill()
            process.wait()
        took_s = time.monotonic() - begun
        output.seek(0)
        lines = output.read().strip()
    if process.returncode != 0:
        raise ContenderFailed(f"the replay ended with {process.returncode}: {lines[-500:]}")
    streams = json.loads(lines[lines.index("{") :])["streams"]
    return Peak(
        records=records,
        seconds=took_s,
        python_mib=python_mib,
        jvm_mib=jvm_mib,
        jvm_heap_mib=heap_mib,
        rows_out=sum(figures.get("rows", 0) for figures in streams.values()),
    )


def main(arguments: Sequence[str]) -> int:
    """Generate, replay, compare."""
    parser = argparse.ArgumentParser(prog="bench long-replay", description=__doc__)
    parser.add_argument("--millions", type=float, nargs="*", default=[2, 20])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    peaks: list[Peak] = []
    machine = describe_machine()
    try:
        with own_folder() as folder:
            for millions in sorted(options.millions):
                records = int(millions * MILLION)
                files = write_generated(
                    folder / "input",
                    seed=options.seed,
                    records=records,
                    files=-(-records // RECORDS_PER_FILE),
                    format="parquet",
                )
                peaks.append(replay(files, records, folder / "home"))
                print(_line(peaks[-1]), flush=True)
                shutil.rmtree(folder / "input")
                shutil.rmtree(folder / "home", ignore_errors=True)
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    first, last = peaks[0], peaks[-1]
    ratios = {
        "records": last.records / first.records,
        "seconds": last.seconds / first.seconds,
        "python": last.python_mib / first.python_mib,
        "jvm": last.jvm_mib / first.jvm_mib,
    }
    print("  ".join(f"{name} x {ratio:.2f}" for name, ratio in ratios.items()))
    document = {
        "machine": machine,
        "peaks": [asdict(peak) for peak in peaks],
        "ratios": ratios,
        "load_after": list(os.getloadavg()),
    }
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(max(ratios["python"], ratios["jvm"]) > RATIO_MAX)


def _line(peak: Peak) -> str:
    return (
        f"{peak.records:>12,} records: {peak.seconds:>6.0f} s, peak MiB: Python "
        f"{peak.python_mib:,.0f}, JVM {peak.jvm_mib:,.0f} (heap {peak.jvm_heap_mib:,.0f})"
    )
