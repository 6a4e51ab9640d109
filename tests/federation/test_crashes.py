"""Killed between any two numbered steps, a participant goes on as if nothing had been.

alpha lands a recording and beta imports and computes it; gamma lands from a watched folder, beside
them; in the end the homes are trimmed by their retentions, compacted and freed of orphans. What
must be there is computed in this process, by a run that nothing disturbs.

`make test` kills a replay at gaps (tests/end_to_end/test_killed.py) and a supervised participant
(tests/supervising/test_jobs.py). `make test-long` kills processes at every gap. It also kills some
at a drawn gap of landing, of importing and of housekeeping, and ends a participant of this process,
whose Spark is there already, at one of computing. `make crash` kills at every gap with ten seeds. A
part of `make test-long` (tests/sweeps.py) has its part of the gaps, and a network with one output.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from medusa_core.grid import floor_us
from medusa_core.names import Participant, StreamName
from pipelines.base.failpoints import POINTS, visited_by
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.home_session import open_session
from pipelines.sources.generated_files import write_generated
from tests.exchange.served import served_home
from tests.federation.building import (
    EndedHereError,
    ends_at,
    federation_of,
    no_spark,
    run_here,
)
from tests.federation.housekeeping import command, kept, kill_command_at
from tests.federation.processes import (
    STEP_RECORDS,
    Installation,
    contents,
    installation,
    kill,
)
from tests.sweeps import PART, each_of_part
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

LANDING = each_of_part(p for p in POINTS if p.startswith(("land.", "close.")))
COMPUTING = each_of_part(p for kind in ("import.", "step.") for p in POINTS if p.startswith(kind))
KEEPING_HOUSE = (
    (("trim",), ("trim.committed",)),
    (("trim", "--compact"), ("compact.written", "compact.committed")),
    (("trim", "--orphans", "--grace", "1m"), ("orphans.aside",)),
)
"""The commands of housekeeping in their order, and the points that each comes to."""

RETAINED = "retained"
SEEN = StreamName("seen")
WATCHED_US = 20_000_000
SEEN_RECORDS = 6_000
SEEDS = range(10)
DRAWN = 11
"""The seed of the drawn gaps."""
COUNTS = """
from medusa_core.network import Network, Output, Session, Source

given = Source(
    name="connections",
    columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
    time="ts_us",
)
per_source = Session(
    name="per_source", input="connections", by=("orig_h",), gap="20s", length_max="60s",
    columns={"n": "count(*)", "port": "max(resp_p)"},
)
network = Network(
    name="counts", sources=(given,), boxes=(per_source,),
    outputs=(Output(name="counted", input="per_source"),),
)
"""
"""A step plans one output instead of three of netmon, and leaves open sessions to the next one."""
WATCHED = """
from medusa_core.network import Filter, Network, Output, Source

seen = Source(name="seen", columns={"ts_us": "bigint", "orig_h": "string"}, time="ts_us")
some = Filter(name="some", input="seen", cases={"yes": "orig_h > '198.18.9'"})
network = Network(
    name="watched", sources=(seen,), boxes=(some,), outputs=(Output(name="few", input="some"),)
)
"""


def write_contracts(folder: Path, file: Path, network: str = "netmon") -> Path:
    """alpha lands, beta imports and computes."""
    for kind in ("participants", "streams"):
        (folder / kind).mkdir(parents=True)
    runs = f"runs:\n  - network: {network}\n    bucket: 20s\n"
    (folder / "participants" / "alpha.yaml").write_text(
        f"participant: alpha\n{runs}    sources: [connections]\n"
    )
    (folder / "participants" / "beta.yaml").write_text(
        f"participant: beta\n{runs}    fragments: [main]\n"
    )
    (folder / "streams" / "connections.yaml").write_text(
        "stream: connections\nsource:\n  kind: replay\n"
        f"  paths: ['{file}']\n  speed: 1000000000\n  disorder: 600s\n"
    )
    return folder


def write_few_contracts(folder: Path, file: Path) -> Path:
    """The same over a network with one output, `counted`."""
    folder.mkdir(parents=True)
    (folder / "counts.py").write_text(COUNTS)
    return write_contracts(folder, file, network="counts.py")


def add_retentions(folder: Path, retention_s: int, output: str = "scanning_sources") -> None:
    """What alpha lands is kept for a while, and so is beta's copy of it."""
    with (folder / "streams" / "connections.yaml").open("a") as contract:
        contract.write(f"retention: {retention_s}s\n")
    (folder / "streams" / f"{output}.yaml").write_text(
        f"stream: {output}\nretention: {retention_s // 2}s\n"
    )


def add_watched(folder: Path, watched: Path) -> None:
    """gamma lands what is in a folder; delta is to compute something of it, and is not run."""
    (folder / "watched.py").write_text(WATCHED)
    runs = "runs:\n  - network: watched.py\n    bucket: 20s\n"
    (folder / "participants" / "gamma.yaml").write_text(
        f"participant: gamma\n{runs}    sources: [seen]\n"
    )
    (folder / "participants" / "delta.yaml").write_text(
        f"participant: delta\n{runs}    fragments: [main]\n"
    )
    (folder / "streams" / "seen.yaml").write_text(
        f"stream: seen\nsource:\n  kind: directory\n  path: '{watched}'\n  disorder: 5s\n"
    )


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crashes")
    (file,) = write_generated(folder / "input", seed=7, records=36_000)
    write_generated(folder / "watched", seed=8, records=SEEN_RECORDS)
    is_whole = PART == 1
    for name in ("contracts", RETAINED):
        written = (write_contracts if is_whole else write_few_contracts)(folder / name, file)
        add_watched(written, folder / "watched")
    add_retentions(folder / RETAINED, 400, "scanning_sources" if is_whole else "counted")
    return folder / "contracts"


Homes = dict[str, dict[str, object]]


@pytest.fixture(scope="module")
def undisturbed(contracts: Path, spark: SparkSession) -> Iterator[Homes]:
    with installation(contracts) as installed:
        with ThreadPoolExecutor() as beside:
            watching = beside.submit(run_watching, installed)
            run_both(installed, spark)
            watching.result()
        homes = {name: contents(installed, name) for name in ("alpha", "beta", "gamma")}
        retain(installed, contracts)
        for name in ("alpha", "beta"):
            for words, _ in KEEPING_HOUSE:
                keep_house(installed, name, words)
            homes[f"{name}, kept"] = kept(installed, name)
        yield homes


def run_both(installed: Installation, spark: SparkSession) -> None:
    """alpha and then beta, each to its end, in this process."""
    run_here(installed.settings, "alpha", no_spark, STEP_RECORDS)
    with served_home(installed.settings, Participant("alpha")):
        run_here(installed.settings, "beta", lambda: spark, STEP_RECORDS)


def retain(installed: Installation, contracts: Path) -> None:
    """Declare the retentions; before, a participant that runs long enough would trim by itself."""
    apply_contracts(installed.settings, ApplyRequest(contracts=contracts.parent / RETAINED))


def keep_house(installed: Installation, name: str, words: tuple[str, ...]) -> None:
    age_files(installed, name)
    command(installed, name, *words)


def age_files(installed: Installation, name: str) -> None:
    """Let the grace of everything under the storage root have passed."""
    with open_session(installed.settings, Participant(name)) as session:
        for path in session.home.storage.rglob("*.parquet*"):
            os.utime(path, (0, 0))


def run_watching(installed: Installation) -> None:
    """gamma, until all that lies in the folder has landed and is closed as far as it can be."""
    process = installed.start("gamma")
    try:
        until(
            lambda: has_landed(installed) or process.poll() is not None,
            "gamma lands and closes what is in its folder",
            seconds_max=180,
        )
        assert process.poll() is None, "it watches until it is stopped"
    finally:
        kill(process)


def has_landed(installed: Installation) -> bool:
    with open_session(installed.settings, Participant("gamma")) as session:
        catalog = session.home.catalog
        line = next(s for s in catalog.streams() if s.stream.name == SEEN)
        landed = sum(
            records
            for query_id in catalog.landed_queries(SEEN)
            for records in catalog.landed_batches(SEEN, query_id).values()
        )
        if line.promised_us is None or landed + catalog.quarantine_count() < SEEN_RECORDS:
            return False
        return line.boundary_us == floor_us(line.promised_us, WATCHED_US)


def passed(point: str, seed: int) -> str:
    """At which pass of a point to kill: the first, or a later one that surely comes."""
    often = ("close.", "step.")
    return f"{point}:{1 + seed % 3}" if point.startswith(often) else point


@dataclass(frozen=True)
class Gaps:
    """A gap of landing, of importing, of computing, and of a command of housekeeping.

    A small recording has too few files to compact.
    """

    landing: str
    importing: str
    computing: str
    command: tuple[str, ...]
    keeping_house: str

    @classmethod
    def drawn(cls, seed: int) -> Gaps:
        chance = Random(seed)
        landing, importing, computing = (
            chance.choice([point for point in POINTS if point.startswith(kinds)])
            for kinds in (("land.", "close."), "import.", "step.")
        )
        words, points = chance.choice([one for one in KEEPING_HOUSE if "--compact" not in one[0]])
        return cls(landing, importing, computing, words, chance.choice(points))


@pytest.fixture(scope="module")
def small_contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """alpha and beta alone, over a sixth of the recording: two steps."""
    folder = tmp_path_factory.mktemp("few-crashes")
    (file,) = write_generated(folder / "input", seed=7, records=6_000)
    for name in ("contracts", RETAINED):
        write_few_contracts(folder / name, file)
    add_retentions(folder / RETAINED, 60, "counted")
    return folder / "contracts"


@pytest.mark.long
def test_killed_at_a_gap_of_each_kind_the_homes_end_as_if_nothing_had_been(
    small_contracts: Path, spark: SparkSession, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    gaps = Gaps.drawn(DRAWN)
    with federation_of(postgres_server, tmp_path / "undisturbed") as settings:
        apply_contracts(settings, ApplyRequest(contracts=small_contracts))
        calm = Installation(settings, postgres_server)
        run_both(calm, spark)
        undisturbed = ending_of(calm, small_contracts, None)
    with federation_of(postgres_server, tmp_path / "killed") as settings:
        apply_contracts(settings, ApplyRequest(contracts=small_contracts))
        installed = Installation(settings, postgres_server)
        with served_home(settings, Participant("alpha")):
            assert installed.kill_at("alpha", gaps.landing), gaps
            wait_for_its_leases(installed, "alpha")
            run_here(settings, "alpha", no_spark, STEP_RECORDS)
            assert installed.kill_at("beta", gaps.importing), gaps
            wait_for_its_leases(installed, "beta")
            with visited_by(ends_at(gaps.computing)), pytest.raises(EndedHereError):
                run_here(settings, "beta", lambda: spark, STEP_RECORDS)
            run_here(settings, "beta", lambda: spark, STEP_RECORDS)
        assert ending_of(installed, small_contracts, gaps) == undisturbed, gaps


def wait_for_its_leases(installed: Installation, name: str) -> None:
    """Until none is held: the next process would open a Spark session while it waits for them."""
    with open_session(installed.settings, Participant(name)) as session:
        leases = session.home.catalog.leases
        until(lambda: not any(lease.is_held for lease in leases()), "the leases have ended")


def ending_of(installed: Installation, contracts: Path, gaps: Gaps | None) -> Homes:
    """What the homes hold in the end, and beta's after housekeeping."""
    found = {name: contents(installed, name) for name in ("alpha", "beta")}
    retain(installed, contracts)
    for words, _ in KEEPING_HOUSE:
        if gaps is not None and words == gaps.command:
            age_files(installed, "beta")
            assert kill_command_at(installed, "beta", gaps.keeping_house, *words)
        keep_house(installed, "beta", words)
    return found | {"beta, kept": kept(installed, "beta")}


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(0, marks=pytest.mark.long),
        *(pytest.param(seed, marks=pytest.mark.crash) for seed in SEEDS[1:]),
    ],
)
def test_killed_at_every_gap_the_homes_end_as_if_nothing_had_been(
    contracts: Path, undisturbed: Homes, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    hit: dict[str, bool] = {}
    with installation(contracts) as installed:

        def watch() -> None:
            # Closing does not depend on what landed: once is enough where time is short.
            for point in LANDING if seed else [p for p in LANDING if p.startswith("land.")]:
                hit[f"{point} (watched)"] = installed.kill_at("gamma", point)
            run_watching(installed)

        with ThreadPoolExecutor() as beside:
            watching = beside.submit(watch)
            for name, points in (("alpha", LANDING), ("beta", COMPUTING)):
                for point in points:
                    hit[point] = installed.kill_at(name, passed(point, seed))
                installed.run_to_the_end(name)
            watching.result()
        found = {name: contents(installed, name) for name in ("alpha", "beta", "gamma")}
        retain(installed, contracts)
        victim = ("alpha", "beta")[seed % 2]
        for name in ("alpha", "beta"):
            for words, points in KEEPING_HOUSE:
                for point in points if name == victim else ():
                    age_files(installed, name)
                    hit[point] = kill_command_at(installed, name, point, *words)
                keep_house(installed, name, words)
            found[f"{name}, kept"] = kept(installed, name)
    with capsys.disabled():
        print(f"\ngap x seed {seed}")
        for point, was_hit in hit.items():
            print(f"  {point:<24} {'killed' if was_hit else 'NOT HIT'}")
    if PART == 1:
        assert set(POINTS) <= {point.partition(" ")[0] for point in hit}
    assert all(hit.values())
    assert found == undisturbed
