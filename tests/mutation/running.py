"""Which mutants there are, a sample of them by a seed, and a run of it in a private copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from tests.mutation.mutants import Mutant
from tests.mutation.python_mutants import python_mutants
from tests.mutation.sql_mutants import sql_mutants

SURVIVORS = Path(__file__).with_name("survivors.toml")
_MUTANTS: dict[str, Callable[[Path], list[Mutant]]] = {
    "medusa_core": python_mutants,
    "sql": sql_mutants,
}
ROOMS = tuple(_MUTANTS)
TESTS = {
    "medusa_core": ("core", "market", "catalog", "exchange", "protocol", "bilateral",
                    "sources/test_lateness.py", "metering/test_meter.py",
                    "what_if"),
    "sql": ("catalog", "sql", "agreements", "rounds", "books", "recalls", "trimming", "changes",
            "supervising/test_laws.py", "exchange/test_exchange_home.py",
            "exchange/test_access_tokens.py"),
}  # fmt: skip
"""Folders and files of tests; those that compare files of SQL with one another say nothing here."""

LEFT = ("survived", "unreached", "not run")
"""Verdicts that ask for a test, or a reason."""

LEFT_OUT = (
    "sql/test_migrations.py",
    # Of the network between participants; what they exchange is tested in tests/protocol.
    "exchange/test_file_download.py",
    "exchange/test_hostile_clients.py",
    "exchange/test_hostile_partners.py",
    "exchange/test_https.py",
)
TEST_S_MAX = 3.0
TESTS_S_MAX = {"medusa_core": 20.0, "sql": 30.0}
COPIED = (
    "medusa_core", "pipelines", "tests", "sql", "contracts", "dags", "docs", "bench", "third_party",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """killed, survived, unreached (no test reaches it), unbuilt (no home can be made), endless, or
    not run (a fault of this program).

    An endless one did not end in its time: it may hang, or the machine may be slow.
    """

    mutant: Mutant
    verdict: str
    how: str


def all_mutants(root: Path, room: str) -> list[Mutant]:
    """Every mutant of a room."""
    return _MUTANTS[room](root)


def drawn(mutants: Sequence[Mutant], seed: int, count: int) -> list[Mutant]:
    """So many of them, the same for a seed (0: all, in an order that the seed gives)."""
    by_id = sorted(mutants, key=lambda m: sha256(f"{seed} {m.id}".encode()).digest())
    return by_id[: count or None]


def listed_survivors() -> dict[str, str]:
    """Id -> why it does no harm."""
    return dict(tomllib.loads(SURVIVORS.read_text(encoding="utf-8")))


def run_mutants(
    root: Path,
    mutants: Iterable[Mutant],
    *,
    seconds_max: float = 3_600,
    simulates: bool = False,
    told: TextIO | None = None,
) -> list[Result]:
    """Run them until the time is over; `told` hears of each that is not killed.

    The time in which tests are traced does not count.

    With `simulates`, schedules of the simulator look at what no test of the core has noticed.
    """
    results = []
    for room in ROOMS:
        those = [mutant for mutant in mutants if mutant.room == room]
        if those:
            results += _run_room(root, room, those, seconds_max, simulates, told)
    return results


def _run_room(
    root: Path,
    room: str,
    mutants: list[Mutant],
    seconds_max: float,
    simulates: bool,
    told: TextIO | None,
) -> list[Result]:
    by_id = {mutant.id: mutant for mutant in mutants}
    with tempfile.TemporaryDirectory(prefix="medusa-mutants-") as folder:
        copy = Path(folder) / "copy"
        _copy(root, copy)
        job, heard = Path(folder) / "job.json", Path(folder) / "told"
        heard.touch()
        job.write_text(
            json.dumps(
                {
                    "room": room,
                    "paths": [f"tests/{path}" for path in TESTS[room]]
                    + [f"--ignore=tests/{path}" for path in LEFT_OUT],
                    "mutants": [asdict(mutant) for mutant in mutants],
                    "reach_file": str(
                        root / ".medusa" / "mutation" / f"{room}-{_hash(copy / room)}.json"
                    ),
                    "told": str(heard),
                    "test_s_max": TEST_S_MAX,
                    "tests_s_max": TESTS_S_MAX[room],
                    "seconds_max": seconds_max,
                    "simulates": simulates and room != "sql",
                }
            )
        )
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        environment.pop("MEDUSA_TEST_TURN", None)  # a mutant is run against the tests of all turns
        with (Path(folder) / "log").open("w+") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.mutation.worker", str(job)],
                cwd=copy, env=environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
            results, at = [], 0
            while True:
                has_ended = worker.poll() is not None
                lines = heard.read_text().splitlines()
                for line in lines[at:]:
                    one = json.loads(line)
                    result = Result(by_id[one["id"]], one["verdict"], one["how"])
                    results.append(result)
                    if told is not None and result.verdict != "killed":
                        print(f"{result.verdict}: {result.mutant.shown()}", file=told, flush=True)
                at = len(lines)
                if has_ended:
                    break
                time.sleep(0.2)
            if worker.returncode not in (0, 1, 5) or not results:
                log.seek(0)
                raise RuntimeError(f"the run of mutants ended early:\n{log.read()[-3000:]}")
        return results


def _copy(root: Path, copy: Path) -> None:
    """What tests need, as files of its own: a mutant is written there, never in the repository.

    What is compiled already is copied too, and is valid, since the times of files are kept.
    """
    being_written = shutil.ignore_patterns("*.pyc.*")
    copy.mkdir(parents=True)
    for name in COPIED:
        shutil.copytree(root / name, copy / name, ignore=being_written)
    for path in root.iterdir():
        if path.is_file():
            shutil.copy2(path, copy / path.name)


def _hash(folder: Path) -> str:
    """Of the files of a room: what tests reach of it is traced again when one has changed."""
    digest = sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".sql"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
