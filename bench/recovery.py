"""`python -m bench recovery`: how long the output of a participant pauses after a kill.

The shipped federation runs with windows and buckets of a second and leases of two, so that there
is a step to make at any moment. The measured time is from SIGKILL to the commit of the next
computed step, everything included, by the one clock of the machine:

* **cold**: the process group of the participant that computes; its successor is started at once,
  as a supervisor would;
* **warm**: the same, with a standby as successor (`medusa run --standby`);
* **catalog**: the Postgres server that holds all homes; no successor is started, the participants
  restart it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

import psycopg2
import yaml

from bench.federation import CONTRACTS, Federation, kill_group, shipped_federation
from bench.machine import describe_machine
from bench.processes import ContenderFailed
from bench.soak import own_folder
from medusa_core.errors import MedusaError

SQL = (Path(__file__).parent / "recovery.sql").read_text()
COMPUTES = "center"
LEASE_S = 2.0
NETWORK = """\
from dataclasses import replace
from medusa_core.network import Aggregate
from pipelines.language.shipped.netmon3 import network as minutely

boxes = [replace(b, size="1s") if isinstance(b, Aggregate) else b for b in minutely.boxes]
network = replace(minutely, name="quick", boxes=tuple(boxes))
"""
STEPS_TO_WARM = 10
RECORDS_PER_S = 10
WAIT_S_MAX = 300.0
LOOK_AGAIN_S = 0.05
# What was on its way to the server when its sender was killed may still be committed.
IN_FLIGHT_S = 0.5


def measure(
    federation: Federation, rounds: int, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Kill in turn; seconds by kind. Raises ContenderFailed if nothing comes back."""
    for participant in federation.participants:
        federation.start(participant, "--lease", str(LEASE_S))
    _wait_for_steps(federation, STEPS_TO_WARM)
    found: dict[str, list[float]] = {"cold": [], "warm": [], "catalog": []}
    for number in range(rounds):
        for kind, killed in (("cold", _cold), ("warm", _warm), ("catalog", _catalog)):
            found[kind].append(killed(federation))
            say(f"{number + 1}/{rounds} {kind}: {found[kind][-1]:.2f} s")
            _wait_for_steps(federation, STEPS_TO_WARM)
    return found


def _cold(federation: Federation) -> float:
    last = _last_step(federation)
    killed_s = _kill(federation)
    federation.start(COMPUTES, "--lease", str(LEASE_S))
    return _next_step_s(federation, last, killed_s + IN_FLIGHT_S) - killed_s


def _warm(federation: Federation) -> float:
    output = federation.log(COMPUTES).stat().st_size
    successor = federation.start_another(COMPUTES, "--lease", str(LEASE_S), "--standby")

    def is_ready() -> bool:
        with federation.log(COMPUTES).open() as log:
            log.seek(output)
            return "is on standby" in log.read()

    try:
        _until(is_ready, f"the standby of {COMPUTES} is ready")
        last = _last_step(federation)
        killed_s = _kill(federation)
    except BaseException:
        kill_group(successor)
        raise
    federation.running[COMPUTES] = successor
    return _next_step_s(federation, last, killed_s + IN_FLIGHT_S) - killed_s


def _catalog(federation: Federation) -> float:
    last = _last_step(federation)
    killed_s = time.time()
    os.kill(federation.postmaster, signal.SIGKILL)
    return _next_step_s(federation, last, killed_s) - killed_s


def _kill(federation: Federation) -> float:
    """Kill the participant that computes; the time just before."""
    killed_s = time.time()
    kill_group(federation.running.pop(COMPUTES))
    return killed_s


def _last_step(federation: Federation) -> int:
    steps = _steps_behind(federation, 0)
    return steps[-1][0] if steps else 0


def _next_step_s(federation: Federation, last: int, not_before_s: float) -> float:
    """When the first step behind one, and behind a time, was committed."""
    found: list[float] = []

    def is_there() -> bool:
        found[:] = [at_s for _, at_s in _steps_behind(federation, last) if at_s > not_before_s]
        return bool(found)

    _until(is_there, f"a step of {COMPUTES} is committed", federation)
    return found[0]


def _wait_for_steps(federation: Federation, count: int) -> None:
    last = _last_step(federation)
    _until(
        lambda: len(_steps_behind(federation, last)) >= count,
        f"{COMPUTES} has made {count} steps",
        federation,
    )


def _steps_behind(federation: Federation, last: int) -> list[tuple[int, float]]:
    """Steps as (id, when); nothing while the server is away."""
    url = federation.server.superuser_url(federation.databases[COMPUTES])
    try:
        with (
            closing(psycopg2.connect(url.replace("+psycopg2", ""))) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(SQL, {"after": last, "participant": COMPUTES})
            return [(int(number), float(at_s)) for number, at_s in cursor.fetchall()]
    except psycopg2.OperationalError:
        return []


def _until(holds: Callable[[], bool], what: str, federation: Federation | None = None) -> None:
    ends_s = time.monotonic() + WAIT_S_MAX
    while not holds():
        if federation is not None:
            federation.check_all_run()
        if time.monotonic() > ends_s:
            raise ContenderFailed(f"waited {WAIT_S_MAX:g} s in vain until {what}")
        time.sleep(LOOK_AGAIN_S)


def contracts_by_the_second(folder: Path) -> Path:
    """The shipped contracts with a window and a bucket each second, and fewer records."""
    folder.mkdir()
    (folder / "quick.py").write_text(NETWORK)
    for file in CONTRACTS.rglob("*.yaml"):
        copy = folder / file.relative_to(CONTRACTS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        document = yaml.safe_load(file.read_text())
        for run in document.get("runs", ()):
            run.update(network="quick.py", bucket="1s")
        if document.get("source", {}).get("kind") == "generate":
            document["source"]["rate_per_s"] = RECORDS_PER_S
        copy.write_text(yaml.safe_dump(document))
    return folder


def main(arguments: Sequence[str]) -> int:
    """Parse, kill, print."""
    parser = argparse.ArgumentParser(prog="bench recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is killed")
    parser.add_argument("--json", type=Path, help="where the samples go")
    options = parser.parse_args(arguments)
    document: dict[str, object] = {"machine": describe_machine(), "lease_s": LEASE_S}
    try:
        with own_folder() as folder:
            contracts = contracts_by_the_second(folder / "contracts")
            with shipped_federation(folder / "homes", contracts) as federation:
                found = measure(federation, options.rounds, lambda line: print(line, flush=True))
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 4
    document.update(seconds=found, load_after=list(os.getloadavg()))
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\n{'seconds until the next step':30}{'min':>8}{'median':>8}{'max':>8}{'of':>5}")
    for kind, seconds in found.items():
        low, high = min(seconds), max(seconds)
        print(f"{kind:30}{low:>8.2f}{median(seconds):>8.2f}{high:>8.2f}{len(seconds):>5}")
    return 0
