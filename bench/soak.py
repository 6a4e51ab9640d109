"""`python -m bench soak`: the shipped federation runs for an hour and must not grow.

Four participants as separate processes: three land the generator's records, one computes. Every
half minute memory, handles, threads, files and rows are read from outside, without a call to the
participants. After the warm-up, and at the end, a full collection is requested of the JVMs, so
that live heaps can be compared; in between nothing is done to them. All streams have a retention,
so that rows and files are removed as they would be in years of running.

Exit code 1 where a quantity that must stay flat has grown (`bench/soak_figures.py` says which,
and by how much it may), or where a participant has ended.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from bench.federation import CONTRACTS, Federation, shipped_federation
from bench.home_samples import read_home
from bench.machine import describe_machine
from bench.process_tree import MIB, Sample, processes_of, sample_driver, sample_server
from bench.processes import ContenderFailed
from bench.soak_figures import Series, lines_of, trends_of
from medusa_core.errors import MedusaError
from pipelines.language.load import SHIPPED, load_network
from pipelines.watching.jvm import jvm_figures

SQL = (Path(__file__).parent / "soak.sql").read_text()
SERVER = "postgres"
COLLECT_S_MAX = 60


def soak(
    federation: Federation, *, duration_s: float, every_s: float, warm_up_s: float
) -> Iterator[tuple[float, dict[str, Sample]]]:
    """Run it; yields (seconds since the start, participant or server -> sample).

    Raises ContenderFailed if a participant ends.
    """
    for participant in federation.participants:
        federation.start(participant)
    began_s = time.monotonic()
    is_warm = False
    samples = 0
    while True:
        samples += 1
        time.sleep(max(began_s + samples * every_s - time.monotonic(), 0))
        federation.check_all_run()
        now_s = time.monotonic() - began_s
        if not is_warm and now_s >= warm_up_s:
            collect_everything(federation)
            is_warm = True
        yield now_s, sample_all(federation)
        if now_s >= duration_s:
            break
    collect_everything(federation)
    yield time.monotonic() - began_s, sample_all(federation)


def sample_all(federation: Federation) -> dict[str, Sample]:
    """Everything of this moment, by participant and for the server."""
    found: dict[str, Sample] = {SERVER: sample_server(federation.postmaster)}
    for participant, process in federation.running.items():
        storage = federation.storage(participant)
        found[participant] = {
            **sample_driver(process.pid),
            **sample_home(federation, participant),
            "files in storage": sum(len(files) for _, _, files in os.walk(storage)),
            "log MiB": log_bytes(federation, participant) / MIB,
        }
    return found


def sample_home(federation: Federation, participant: str) -> Sample:
    """What the catalog says of itself; not asked of the participant."""
    (row,) = read_home(federation, participant, SQL, {"participant": participant})
    sample = {name: float(value) for name, value in row.items()}
    sample["database MiB"] = sample.pop("database_bytes") / MIB
    sample["behind s"] = sample.pop("behind_s")
    return sample


def log_bytes(federation: Federation, participant: str) -> int:
    """What the logs of a participant take on the disk, Spark's included."""
    directory = federation.settings.directory
    files = [
        *(directory / "logs").glob(f"{participant}.jsonl*"),
        *(directory / "drivers" / participant / "logs").glob("*"),
        federation.log(participant),
    ]
    return sum(file.stat().st_size for file in files if file.exists())


def soaking(contracts: Path, folder: Path, keep: str, rate_per_s: int | None) -> Path:
    """A copy of contracts in which every stream, also each output, is kept for so long only.

    With `rate_per_s`, so many records a second are generated in all, by each source alike.
    """
    shutil.copytree(contracts, folder)
    names = {
        run["network"]
        for file in (folder / "participants").glob("*.yaml")
        for run in yaml.safe_load(file.read_text())["runs"]
    }
    for name in names:
        network = load_network(name if name in SHIPPED else str(folder / name))
        for stream in (*(s.name for s in network.sources), *(o.name for o in network.outputs)):
            file = folder / "streams" / f"{stream}.yaml"
            document = yaml.safe_load(file.read_text()) if file.exists() else {"stream": stream}
            file.write_text(yaml.safe_dump({**document, "retention": keep}))
    if rate_per_s is not None:
        streams = {f: yaml.safe_load(f.read_text()) for f in (folder / "streams").glob("*.yaml")}
        generated = {f: d for f, d in streams.items() if "rate_per_s" in d.get("source", {})}
        for file, document in generated.items():
            document["source"]["rate_per_s"] = rate_per_s // len(generated)
            file.write_text(yaml.safe_dump(document))
    return folder


def collect_everything(federation: Federation) -> None:
    """Tell every JVM to collect its whole heap, where the Java at hand has the tool for it."""
    tool = shutil.which("jcmd")
    if tool is None:
        return
    for process in federation.running.values():
        for pid in processes_of(process.pid):
            if jvm_figures(pid) is not None:
                subprocess.run(
                    [tool, str(pid), "GC.run"],
                    capture_output=True,
                    check=False,
                    timeout=COLLECT_S_MAX,
                )


@contextmanager
def own_folder(base: Path | None = None) -> Iterator[Path]:
    """A folder for a federation, removed at the end; Postgres, as another user, may pass."""
    folder = Path(tempfile.mkdtemp(prefix="medusa-bench-", dir=base))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """Parse, run, judge."""
    parser = argparse.ArgumentParser(prog="bench soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, help="minutes before it counts (a sixth)")
    # Not a multiple of the buckets' 10 s: else every sample meets a bucket at the same age.
    parser.add_argument("--every", type=float, default=29.0, help="seconds between samples")
    parser.add_argument("--keep", default="10m", help="the retention of every stream")
    parser.add_argument("--rate", type=int, help="records a second that are generated in all")
    parser.add_argument("--contracts", type=Path, default=CONTRACTS)
    parser.add_argument("--json", type=Path, help="where the samples go")
    options = parser.parse_args(arguments)
    warm_up_s = (options.minutes / 6 if options.warm_up is None else options.warm_up) * 60
    document: dict[str, Any] = {
        "machine": describe_machine(),
        "minutes": options.minutes,
        "warm_up_s": warm_up_s,
        "keep": options.keep,
        "rate": options.rate,
    }
    series: Series = {}
    try:
        with ExitStack() as stack:
            folder = stack.enter_context(own_folder())
            contracts = soaking(options.contracts, folder / "contracts", options.keep, options.rate)
            federation = stack.enter_context(shipped_federation(folder / "homes", contracts))
            for at_s, sample in soak(
                federation,
                duration_s=options.minutes * 60,
                every_s=options.every,
                warm_up_s=warm_up_s,
            ):
                for of, quantities in sample.items():
                    for name, value in quantities.items():
                        series.setdefault(of, {}).setdefault(name, []).append((at_s, value))
                _keep(options.json, {**document, "series": series})
                _print_sample(at_s, sample)
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 4
    document["load_after"] = list(os.getloadavg())
    trends = trends_of(series, warm_up_s)
    _keep(options.json, {**document, "series": series, "trends": [asdict(t) for t in trends]})
    for line in lines_of(trends):
        print(line)
    return 1 if any(not trend.is_kept for trend in trends) else 0


def _keep(file: Path | None, document: dict[str, Any]) -> None:
    if file is not None:
        file.write_text(json.dumps(document, indent=1) + "\n")


def _print_sample(at_s: float, sample: dict[str, Sample]) -> None:
    if sys.stderr.isatty():
        behind = ", ".join(
            f"{of} {s['behind s']:.1f}" for of, s in sample.items() if "behind s" in s
        )
        print(f"\r\x1b[K{at_s / 60:.1f} min; behind by s: {behind}", end="", file=sys.stderr)
