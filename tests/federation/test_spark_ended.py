"""A participant whose JVM is killed while it is idle ends in words, without its leases.

`test_recovery` kills the JVM of one that is about to make a step.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import psutil
import pytest

from medusa_core.names import Participant
from pipelines.catalog.records import LeaseRecord
from pipelines.participant.home_session import open_session
from pipelines.sources.generated_files import write_generated
from pipelines.watching.jvm import jvms_of
from tests.federation.building import no_spark, run_here
from tests.federation.processes import END_S_MAX, STEP_RECORDS, Installation, installation, kill
from tests.federation.test_crashes import write_contracts
from tests.federation.test_faults import logged, outputs_have_ended
from tests.waiting import until


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation in which alpha has landed everything, for beta to compute."""
    folder = tmp_path_factory.mktemp("spark-ended")
    (file,) = write_generated(folder / "input", seed=4, records=6_000)
    with installation(write_contracts(folder / "contracts", file)) as made:
        run_here(made.settings, "alpha", no_spark, STEP_RECORDS)
        yield made


def kill_jvm_of(process: subprocess.Popen[str]) -> None:
    ((jvm, _),) = jvms_of(process.pid)
    psutil.Process(jvm).kill()


def ended_in_words(installed: Installation, process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 4, errors
    assert "Traceback" not in errors
    (output,) = [line for line in errors.splitlines() if line.startswith("medusa:")]
    assert "the Java process under Spark has ended" in output
    assert logged(installed, "beta", "the Java process under Spark has ended")
    assert not held_leases(installed)


def held_leases(installed: Installation) -> list[LeaseRecord]:
    with open_session(installed.settings, Participant("beta")) as session:
        return [lease for lease in session.home.catalog.leases() if lease.is_held]


@pytest.mark.long
def test_a_jvm_killed_under_an_idle_participant_ends_it_in_words(installed: Installation) -> None:
    idle = installed.start("beta")
    try:
        until(lambda: outputs_have_ended(installed), "it computes all", seconds_max=150)
        kill_jvm_of(idle)
        ended_in_words(installed, idle)
    finally:
        kill(idle)
