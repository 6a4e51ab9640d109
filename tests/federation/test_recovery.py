"""A driver that waits for its leases is ready when it gets them, and gets them when it can."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from medusa_core.bounds import Bound
from medusa_core.commits import LeaseKey
from medusa_core.errors import Conflict
from medusa_core.knowledge import Limits
from medusa_core.names import Epoch, Participant
from pipelines.base import clock
from pipelines.base.failpoints import FILE, POINT
from pipelines.base.settings import Settings
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import (
    Engines,
    has_promised,
    load_assigned_plans,
    loop_of,
    wait_for_leases,
)
from pipelines.participant.warm_up import warm_up
from pipelines.sources.generated_files import write_generated
from pipelines.watching.jvm import jvms_of
from tests.exchange.served import served_home
from tests.federation.building import HELD_MS, Heard, Running, no_spark, run_here, seated
from tests.federation.processes import STEP_RECORDS, Installation, installation, kill
from tests.federation.test_crashes import write_few_contracts
from tests.federation.test_faults import logged, outputs_have_ended
from tests.federation.test_spark_ended import ended_in_words, kill_jvm_of
from tests.home_pool import home_pool
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

BETA = Participant("beta")


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recovery")
    (file,) = write_generated(folder / "input", seed=4, records=6_000)
    return write_few_contracts(folder / "contracts", file)


@pytest.fixture(scope="module")
def landed(
    postgres_server: EmbeddedServer, contracts: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """Homes in which alpha has landed everything."""
    folder = tmp_path_factory.mktemp("homes")
    with home_pool(postgres_server, folder, Participant("alpha"), BETA) as settings:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        run_here(settings, "alpha", no_spark)
        with served_home(settings, Participant("alpha")):
            yield settings


@pytest.fixture
def beta(landed: Settings, spark: SparkSession) -> Iterator[Running]:
    """beta, in this process; all tests of the module that take it have its one home."""
    with seated(landed, "beta", lambda: spark) as running:
        yield running


@contextmanager
def second_driver(of: Running) -> Iterator[LeaseRenewer]:
    with LeaseRenewer(of.home_session.home.catalog, "second", lease_ms=HELD_MS) as leases:
        yield leases


@pytest.mark.long
def test_a_driver_gets_ready_once_while_it_waits_and_is_refused_if_the_other_lives(
    beta: Running,
) -> None:
    readied: list[bool] = []
    with second_driver(beta) as leases, pytest.raises(Conflict, match="is held by"):
        wait_for_leases(
            beta.home_session, leases, 200, beta.heard, get_ready=lambda: readied.append(True)
        )
    assert readied == [True]


def test_a_driver_that_stood_still_over_an_answer_asks_once_more(
    beta: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    asked_s: list[float] = []

    class Asking(LeaseRenewer):
        """Refused once, and heard of it when the other's lease has ended long since."""

        def take(self, keys: Iterable[tuple[LeaseKey, Epoch]]) -> None:
            nonlocal now_s
            asked_s.append(now_s)
            now_s += 6
            if len(asked_s) == 1:
                raise Conflict("it is held by another")

    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s)
    monkeypatch.setattr(clock, "sleep_s", lambda seconds: None)
    leases = Asking(beta.home_session.home.catalog, "asking")
    wait_for_leases(beta.home_session, leases, 200, beta.heard)
    assert asked_s == [0, 6]


def test_a_driver_whose_leases_are_free_does_not_wait_to_be_ready(beta: Running) -> None:
    beta.leases.__exit__(None, None, None)
    readied: list[bool] = []
    with second_driver(beta) as leases:
        wait_for_leases(
            beta.home_session, leases, 200, beta.heard, get_ready=lambda: readied.append(True)
        )
    assert readied == []


def test_a_driver_that_has_promised_a_bound_gets_ready_before_it_asks_for_its_leases(
    beta: Running,
) -> None:
    held: list[bool] = []

    def get_ready() -> None:
        held.append(any(record.is_held for record in beta.home_session.home.catalog.leases()))

    assert not has_promised(beta.home_session)
    outputs = [
        name
        for assigned_plan in load_assigned_plans(beta.home_session)
        for f in assigned_plan.fragments
        for name in f.outputs
    ]
    beta.home_session.home.catalog.declare_bound(outputs[0], Bound(bound_ms=60_000), 0)
    assert has_promised(beta.home_session)
    beta.leases.__exit__(None, None, None)
    with second_driver(beta) as leases:
        wait_for_leases(
            beta.home_session, leases, 200, beta.heard, get_ready=get_ready, gets_ready_first=True
        )
        assert held == [False]
        assert any(record.is_held for record in beta.home_session.home.catalog.leases())


@pytest.mark.long
def test_the_first_step_of_a_driver_that_was_ready_needs_no_plan_to_be_made(
    beta: Running,
) -> None:
    engines = Engines(beta.home_session.home.storage, beta.session)
    assigned_plans = load_assigned_plans(beta.home_session)
    assert (
        warm_up(assigned_plans, engines.engine_of)
        == sum(len(assigned_plan.fragments) for assigned_plan in assigned_plans)
        == 1
    )
    heard = Heard()
    with ExitStack() as stack:
        few = Limits(records_per_step_max=3_000)
        loop = loop_of(beta.home_session, beta.leases, beta.session, heard, stack, few, engines)
        while not any("spark" in step.commit.metrics.phases_ms for step in heard.steps):
            loop.tick()
    phases = [step.commit.metrics.phases_ms for step in heard.steps]
    assert not any("plan" in ms for ms in phases)


@pytest.fixture
def installed(contracts: Path) -> Iterator[Installation]:
    """An installation in which alpha has landed everything."""
    with installation(contracts) as made:
        run_here(made.settings, "alpha", no_spark, STEP_RECORDS)
        yield made


@pytest.mark.long
def test_a_standby_outlives_driver_and_catalog_computes_with_its_spark_and_ends_with_it(
    installed: Installation, spark: SparkSession
) -> None:
    reached, reached_again = installed.folder / "reached", installed.folder / "reached again"
    # At its first step Spark is not open yet: the standby's is the only one.
    # Its lease lasts: the standby is not to have it where the machine stands still for a moment.
    first = installed.start(
        "beta", "--lease", "10", environment={POINT: "step.decided", FILE: str(reached)}
    )
    standby = None
    try:
        until(reached.exists, "the first driver is about to compute", seconds_max=150)
        standby = installed.start(
            "beta", "--standby", environment={POINT: "step.decided:2", FILE: str(reached_again)}
        )
        until(
            lambda: logged(installed, "beta", "is held by"),
            "the standby waits for the leases",
            seconds_max=150,
        )
        ((jvm, _),) = jvms_of(standby.pid)
        os.killpg(first.pid, signal.SIGKILL)
        killed = postmaster_of(installed)
        psutil.Process(killed).kill()
        until(
            lambda: postmaster_of(installed) not in (killed, 0),
            "the standby brings the catalog back",
            seconds_max=150,
        )
        installed.server.stop()  # it has ended; the standby would wait for its user at its own end
        until(reached_again.exists, "the standby is about to make its second step", seconds_max=150)
        assert [pid for pid, _ in jvms_of(standby.pid)] == [jvm]
        kill_jvm_of(standby)
        reached_again.unlink()
        ended_in_words(installed, standby)
        assert not outputs_have_ended(installed)
    finally:
        for process in filter(None, (first, standby)):
            kill(process)
    run_here(installed.settings, "beta", lambda: spark, STEP_RECORDS)
    assert outputs_have_ended(installed)


def postmaster_of(installed: Installation) -> int:
    """The process id of the server; 0 while there is none."""
    file = installed.folder / "postgres" / "cluster" / "data" / "postmaster.pid"
    lines = file.read_text().splitlines() if file.exists() else []
    return int(lines[0]) if lines else 0
