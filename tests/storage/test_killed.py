"""Killed at every gap, participants whose files are objects end as on disk with no fault.

alpha lands a recording, beta imports and computes it, and both keep their files in a bucket. Each
gap is passed once by each, a kill after the other. In the end the copies are deleted, so that the
homes are compared by their objects alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.names import Participant
from pipelines.base.failpoints import OBJECT_POINTS, POINTS, visited_by
from pipelines.homes.home import storage_of
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.sources.generated_files import write_generated
from tests.exchange.served import served_home
from tests.federation.building import EndedHereError, ends_at, federation_of, no_spark, run_here
from tests.federation.housekeeping import command, kept, kill_command_at
from tests.federation.processes import STEP_RECORDS, Installation, contents
from tests.federation.test_crashes import (
    KEEPING_HOUSE,
    RETAINED,
    add_retentions,
    retain,
    run_both,
    wait_for_its_leases,
    write_few_contracts,
)
from tests.storage.object_server import (
    ACCESS,
    BUCKET,
    SECRET,
    ObjectServer,
    keys_file,
    object_server,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("interpreted")]

NAMES = ("alpha", "beta")
OLD_S = 100_000.0


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


def contracts_in(folder: Path, server: ObjectServer | None) -> Path:
    """The contracts of alpha and beta; the recording is of two steps."""
    (file,) = write_generated(folder / "input", seed=7, records=6_000)
    for name in ("contracts", RETAINED):
        write_few_contracts(folder / name, file)
        if server is None:
            continue
        keys = keys_file(folder / "keys")
        for participant in NAMES:
            with (folder / name / f"participants/{participant}.yaml").open("a") as contract:
                contract.write(
                    f"storage: s3://{BUCKET}/{participant}\n"
                    f"storage_endpoint: {server.url}\n"
                    f"storage_credentials: {keys}\n"
                )
    add_retentions(folder / RETAINED, 60, "counted")
    return folder / "contracts"


def age(installed: Installation, server: ObjectServer | None) -> None:
    """Let the grace of everything have passed."""
    for name in NAMES:
        for path in storage_of(installed.folder, Participant(name)).rglob("*.parquet*"):
            os.utime(path, (0, 0))
        for path in () if server is None else server.objects(name):
            server.make_old(name, path, OLD_S)


def housekept(
    installed: Installation, contracts: Path, server: ObjectServer | None
) -> dict[str, object]:
    """What the homes hold after their housekeeping, of which each point is killed first."""
    found: dict[str, object] = {name: contents(installed, name) for name in NAMES}
    retain(installed, contracts)
    for words, points in KEEPING_HOUSE:
        for point in points:
            age(installed, server)
            if server is not None and "--compact" not in words:
                assert kill_command_at(installed, "beta", point, *words), point
        for name in NAMES:
            for _ in range(2):  # what marks a removal is itself removed by the next one
                age(installed, server)
                command(installed, name, *words)
    if server is not None:
        for name in NAMES:
            for path in storage_of(installed.folder, Participant(name)).rglob("*.parquet"):
                path.unlink()
    return found | {f"{name}, kept": kept(installed, name) for name in NAMES}


def test_killed_at_every_gap_homes_of_objects_end_as_homes_on_disk(
    server: ObjectServer, spark: SparkSession, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    with federation_of(postgres_server, tmp_path / "disk") as settings:
        contracts = contracts_in(tmp_path / "plain", None)
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        calm = Installation(settings, postgres_server)
        run_both(calm, spark)
        undisturbed = housekept(calm, contracts, None)
    with federation_of(postgres_server, tmp_path / "objects") as settings:
        contracts = contracts_in(tmp_path / "stored", server)
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        installed = Installation(settings, postgres_server)
        with served_home(settings, Participant("alpha")):
            reached = {p: installed.kill_at("alpha", p) for p in points("land.", "close.")}
            wait_for_its_leases(installed, "alpha")
            run_here(settings, "alpha", no_spark, STEP_RECORDS)
            for point in (*points("import."), *points("step.")[1:]):
                with visited_by(ends_at(point)):
                    try:
                        run_here(settings, "beta", lambda: spark, STEP_RECORDS)
                    except EndedHereError:
                        reached[point] = True
            run_here(settings, "beta", lambda: spark, STEP_RECORDS)
        assert reached == dict.fromkeys(reached, True)
        assert set(reached) == set(points("land.", "close.", "import.", "step."))
        assert housekept(installed, contracts, server) == undisturbed
        assert set(server.objects("beta"))
        folders = (installed.folder, postgres_server.log.parent)
        written = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        assert any(path.suffix == ".jsonl" for path in written), "logs are among them"
        # Of the homes, their logs, and the catalogs with what Postgres has logged.
        assert not [path for path in written if names_keys(path)]


def names_keys(path: Path) -> bool:
    content = path.read_bytes()
    return ACCESS.encode() in content or SECRET.encode() in content


def points(*kinds: str) -> tuple[str, ...]:
    return (*OBJECT_POINTS, *(point for point in POINTS if point.startswith(kinds)))
