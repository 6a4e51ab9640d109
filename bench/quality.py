"""`python -m bench quality`: the time of a certificate, compared with the running of streams.

netmon over a number of generated connections is replayed once; then the stream with the most
boxes is checked repeatedly in this process, as `medusa quality run` does it: read, recomputed by
DuckDB, checked by all four suites, pages written, certificates recorded. The first check imports
Great Expectations and is shown separately.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.machine import describe_machine
from medusa_core.grid import parse_duration_us
from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.homes.home import make_home
from pipelines.language.load import load_network
from pipelines.participant.replay import replay
from pipelines.participant.replay_order import ReplayOrder
from pipelines.quality.check_run import run_checks
from pipelines.quality.windows import WindowRequest
from pipelines.sources.generated_files import write_generated

RECORDS, ROUNDS = 100_000, 7
SECONDS_MAX = 3.0
STREAM = "scanning_prefixes"


def measure(folder: Path, records: int, rounds: int) -> dict[str, object]:
    """Replay once, check many times; seconds of the first check and of the warm ones."""
    settings = replace(Settings.from_environment({}), directory=folder / "home")
    network = load_network("netmon")
    inputs = write_generated(folder / "input", seed=1, records=records, files=1, format="parquet")
    order = ReplayOrder(
        network=network,
        inputs={StreamName("connections"): tuple(inputs)},
        width_us=parse_duration_us(network.bucket),
    )
    with make_home(settings, Participant("solo"), keep=False) as home:
        replay(order, home, None)
        seconds = []
        for _ in range(rounds + 1):
            begun = time.perf_counter()
            outcome = run_checks(home, WindowRequest(stream=STREAM))
            seconds.append(time.perf_counter() - begun)
            assert outcome.passed, [found.broken for found in outcome.found]
        rows = outcome.found[0].certificate.figures["final_rows"]
    return {
        "records": records,
        "rows": rows,
        "first_s": round(seconds[0], 3),
        "warm_s": round(median(seconds[1:]), 3),
        "warm_s_max": round(max(seconds[1:]), 3),
        "target_s": SECONDS_MAX,
        "is_met": median(seconds[1:]) <= SECONDS_MAX,
    }


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write the document."""
    from bench.__main__ import work_folder

    parser = argparse.ArgumentParser(prog="bench quality", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="where the document goes")
    options = parser.parse_args(arguments)
    directory = Settings.from_environment(os.environ).directory
    with work_folder(directory) as folder:
        found = measure(folder, options.records, options.rounds)
    print(
        f"four certificates of {STREAM} over {found['records']:,} records: {found['warm_s']} s "
        f"warm (at most {found['warm_s_max']} s), {found['first_s']} s the first time; at most "
        f"{SECONDS_MAX} s is promised"
    )
    file = options.json or directory / "bench-quality.json"
    file.write_text(json.dumps({"machine": describe_machine(), **found}, indent=1) + "\n")
    return 0
