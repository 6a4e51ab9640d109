"""What a process, a disk, a database or a line can do to a federation, and what stays true."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import Participant, StreamName
from pipelines.base.failpoints import FILE, POINT
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.homes.home import role_url
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended, loop_of
from pipelines.participant.home_session import open_session
from pipelines.sources.generated_files import write_generated
from tests.federation.building import (
    Running,
    idles_until_told,
    no_spark,
    rounds_until,
    run_here,
    seated,
)
from tests.federation.processes import (
    END_S_MAX,
    LEASE_S,
    STEP_RECORDS,
    Installation,
    contents,
    installation,
    kill,
)
from tests.federation.relay import relay_to
from tests.federation.test_crashes import write_contracts, write_few_contracts
from tests.home_pool import home_pool
from tests.sweeps import long_but
from tests.waiting import until

if TYPE_CHECKING:
    import subprocess

    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")


HOMES = (Participant("alpha"), Participant("beta"))
OUTPUTS = tuple(map(StreamName, ("busy_sources", "scanning_sources", "scanning_prefixes")))


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (file,) = write_generated(folder / "input", seed=9, records=9_000)
    return write_contracts(folder / "contracts", file)


@pytest.fixture(scope="module")
def landed(contracts: Path) -> Iterator[tuple[Installation, Path]]:
    """An installation, and a copy of it from when alpha had landed everything."""
    with installation(contracts) as made:
        run_here(made.settings, "alpha", no_spark, STEP_RECORDS)
        kept = made.keep()
        try:
            yield made, kept
        finally:
            shutil.rmtree(kept)


@pytest.fixture(scope="module")
def undisturbed(landed: tuple[Installation, Path], spark: SparkSession) -> dict[str, object]:
    made, kept = landed
    made.put_back(kept)
    run_here(made.settings, "beta", lambda: spark, STEP_RECORDS)
    return contents(made, "beta")


@pytest.fixture
def installed(landed: tuple[Installation, Path]) -> Installation:
    """An installation in which alpha has landed everything, put back for each test."""
    made, kept = landed
    made.put_back(kept)
    return made


def start_and_stop_at(installed: Installation, point: str, *more: str) -> subprocess.Popen[str]:
    """Start beta and wait until it stands still at a point."""
    announced = installed.folder / "reached"
    process = installed.start("beta", *more, environment={POINT: point, FILE: str(announced)})
    until(announced.exists, f"beta reaches {point}", seconds_max=END_S_MAX)
    return process


def go_on(installed: Installation) -> None:
    (installed.folder / "reached").unlink()


def outputs_have_ended(installed: Installation) -> bool:
    with open_session(installed.settings, Participant("beta")) as session:
        return has_ended(session)


def logged(installed: Installation, participant: str, words: str) -> bool:
    log = installed.folder / "logs" / f"{participant}.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return any(words in str(json.loads(line).get("message")) for line in lines)


@pytest.mark.long
def test_a_frozen_driver_is_refused_when_it_wakes_and_its_successor_did_not_wait_for_it(
    installed: Installation, undisturbed: dict[str, object], spark: SparkSession
) -> None:
    frozen = start_and_stop_at(installed, "step.synced")
    try:
        os.killpg(frozen.pid, signal.SIGSTOP)
        with seated(installed.settings, "beta", lambda: spark, STEP_RECORDS) as successor:
            rounds_until([successor], lambda: has_ended(successor.home_session))
            go_on(installed)
            os.killpg(frozen.pid, signal.SIGCONT)
            until(lambda: frozen.poll() is not None, "the frozen driver gives up", END_S_MAX)
        output = frozen.stderr.read() if frozen.stderr else ""
        assert frozen.returncode == 3, output
        assert "is held by" in output
        assert contents(installed, "beta") == undisturbed
    finally:
        kill(frozen)


@pytest.mark.long
def test_a_second_driver_is_refused_before_it_commits_anything(installed: Installation) -> None:
    first = start_and_stop_at(installed, "step.decided")
    try:
        second = installed.start("beta", "--until-ended")
        _, output = second.communicate(timeout=END_S_MAX)
        assert second.returncode == 3
        assert "is held by" in output
        with open_session(installed.settings, Participant("beta")) as session:
            assert session.home.catalog.steps() == ()
    finally:
        kill(first)


@pytest.mark.long
def test_a_database_that_is_killed_is_a_pause_and_nothing_else(
    installed: Installation, undisturbed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start_and_stop_at(installed, "step.synced", "--until-ended")
    try:
        postmaster = installed.folder / "postgres" / "cluster" / "data" / "postmaster.pid"
        server = psutil.Process(int(postmaster.read_text().splitlines()[0]))
        children = server.children(recursive=True)
        for each in (server, *children):
            each.kill()
        psutil.wait_procs([server, *children], timeout=30)
        # Its owner would wait for beta, which stands still until it is told to go on.
        monkeypatch.setattr("pipelines.catalog.server.embedded_server.USERS_MS_MAX", 0)
        installed.server.stop()
        go_on(installed)
        _, output = process.communicate(timeout=END_S_MAX)
        assert process.returncode == 0, output
        assert contents(installed, "beta") == undisturbed
    finally:
        kill(process)


@pytest.fixture
def two(
    postgres_server: EmbeddedServer, spark: SparkSession, contracts: Path, tmp_path: Path
) -> Iterator[dict[str, Running]]:
    """alpha and beta in this process."""
    with both_here(postgres_server, spark, contracts, tmp_path) as running:
        yield running


@pytest.fixture
def two_with_one_output(
    postgres_server: EmbeddedServer, spark: SparkSession, tmp_path: Path
) -> Iterator[dict[str, Running]]:
    """alpha and beta in this process, over a network whose steps plan one output."""
    (file,) = write_generated(tmp_path / "input", seed=9, records=9_000)
    contracts = write_few_contracts(tmp_path / "contracts", file)
    with both_here(postgres_server, spark, contracts, tmp_path) as running:
        yield running


@contextmanager
def both_here(
    server: EmbeddedServer, spark: SparkSession, contracts: Path, folder: Path
) -> Iterator[dict[str, Running]]:
    with home_pool(server, folder / "two", *HOMES) as settings, ExitStack() as stack:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield {
            name: stack.enter_context(seated(settings, name, lambda: spark, STEP_RECORDS))
            for name in HOMES
        }


@pytest.mark.long
@pytest.mark.parametrize("damage", long_but(1, ["flipped", "torn", "gone"]))
def test_a_damaged_file_is_named_and_nothing_of_it_is_published(
    two: dict[str, Running], damage: str
) -> None:
    alpha, beta = two["alpha"], two["beta"]
    rounds_until([alpha], lambda: has_ended(alpha.home_session))
    (segment, *_) = alpha.home_session.home.catalog.segments(StreamName("connections"))
    path = alpha.home_session.home.storage / segment.files[0].path
    whole = path.read_bytes()
    path.unlink()
    if damage == "flipped":
        path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    elif damage == "torn":
        path.write_bytes(whole[: len(whole) // 2])
    idles_until_told(beta, segment.files[0].sha256[:12])
    assert beta.home_session.home.catalog.segments(StreamName("connections")) == ()
    path.unlink(missing_ok=True)
    path.write_bytes(whole)
    rounds_until(two.values(), lambda: has_ended(beta.home_session))


@pytest.mark.long
def test_a_full_disk_is_named_leaves_nothing_half_published_and_is_waited_for(
    two: dict[str, Running],
) -> None:
    alpha, beta = two["alpha"], two["beta"]
    rounds_until([alpha], lambda: has_ended(alpha.home_session))
    rounds_until([beta], lambda: bool(beta.heard.steps))
    done = len(beta.heard.steps)
    with files_no_longer_than(1), pytest.raises(Unavailable, match="could not be written"):
        beta.loop.tick()
    assert len(beta.heard.steps) == done
    known = {
        s.path for o in OUTPUTS for g in beta.home_session.home.catalog.segments(o) for s in g.files
    }
    there = {str(f.relative_to(beta.home_session.home.storage)) for o in OUTPUTS
             for f in (beta.home_session.home.storage / o).glob("*")}  # fmt: skip
    assert there == known
    rounds_until(two.values(), lambda: has_ended(beta.home_session))


@contextmanager
def files_no_longer_than(size_bytes: int) -> Iterator[None]:
    """This process can write no file beyond a size, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.long
def test_a_commit_whose_answer_is_lost_is_found_again_and_made_once(
    two_with_one_output: dict[str, Running], postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    alpha, beta = two_with_one_output["alpha"], two_with_one_output["beta"]
    rounds_until([alpha], lambda: has_ended(alpha.home_session))
    url = role_url(tmp_path / "two", postgres_server.address, Participant("beta"), "job")
    with relay_to(postgres_server.port) as relay, ExitStack() as stack:
        through = catalog_url(url).set(port=relay.port)
        catalog = PostgresCatalog(
            through.render_as_string(hide_password=False), Participant("beta")
        )
        stack.callback(catalog.close)
        session = replace(beta.home_session, home=replace(beta.home_session.home, catalog=catalog))
        loop = loop_of(session, beta.leases, beta.session, beta.heard, stack, STEP_RECORDS)
        relay.lose_answer_to("commit_step")
        while not has_ended(beta.home_session):
            loop.tick()
    assert relay.lost == 1
    assert [done.committed.again for done in beta.heard.steps].count(True) == 1
    keys = [step.commit_key for step in beta.home_session.home.catalog.steps()]
    assert len(keys) == len(set(keys)) == len(beta.heard.steps)


assert LEASE_S < 5, "tests wait for leases to end"
