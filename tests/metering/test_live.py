"""A participant that computes: what its meter says is what the system says of its processes."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from medusa_core.commits import Cause
from medusa_core.loads import ActivityKind, Load, load_of
from medusa_core.names import Participant
from pipelines.base.process_tree import ProcessTree
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from pipelines.sources.generated_files import write_generated
from tests.federation.building import Running, rounds_until, seated
from tests.home_pool import home_pool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

HOUR_MS = 3_600_000
RECORDS = 300
NETWORK = """
from medusa_core.network import Filter, Network, Output, Source

COLUMNS = {"ts_us": "bigint", "orig_h": "string"}


def hashed(name, times):
    case = f"sha2(repeat(repeat(orig_h, 100), {times}), 512) > '8'"
    return Filter(name=name, input="given", cases={"yes": case}, fragment=name)


network = Network(
    name="two",
    sources=(Source(name="given", columns=COLUMNS, time="ts_us"),),
    boxes=(hashed("heavy", 900), hashed("light", 90)),
    outputs=(Output(name="some", input="heavy"), Output(name="others", input="light")),
    bucket="20s",
)
"""
"""Two fragments that read the same; a record costs one ten times as much as the other."""


def write_contracts(folder: Path, file: Path) -> Path:
    """alpha lands a recording and computes both."""
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True)
    (folder / "networks" / "two.py").write_text(NETWORK)
    (folder / "participants" / "alpha.yaml").write_text(
        "participant: alpha\nruns:\n  - network: networks/two.py\n    sources: [given]\n"
        "    fragments: [heavy, light]\n"
    )
    (folder / "streams" / "given.yaml").write_text(
        f"stream: given\nsource:\n  kind: replay\n  paths: ['{file}']\n  speed: 1000000000\n"
        "  disorder: 600s\n"
    )
    return folder


def spent_by_the_system() -> float:
    """CPU seconds of this process and its children but for the server, ended ones included.

    Spark's Python processes are left out: the network needs none, and those that an earlier test
    has left end some time, when the system forgets what they have spent (the one that starts them
    ignores SIGCHLD).
    """
    while True:
        ended = children_of(os.times())
        try:
            living = sum(
                sum(child.cpu_times()[:4])
                for child in psutil.Process().children()
                if child.name() != "postgres"
            )
        except psutil.NoSuchProcess:
            continue
        times = os.times()
        # A child that ends between both looks is in neither figure: look again.
        if children_of(times) == ended:
            return times.user + times.system + sum(ended) + living


def children_of(times: os.times_result) -> tuple[float, float]:
    return times.children_user, times.children_system


@pytest.mark.long
def test_a_participants_load_is_its_processes_cpu_and_follows_what_its_fragments_do(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipelines.base.cpu_meter.FLUSH_S_MAX", 60.0)  # all samples are recorded
    tree = ProcessTree()
    monkeypatch.setattr("pipelines.base.cpu_meter.ProcessTree", lambda: tree)
    (file,) = write_generated(tmp_path / "input", seed=4, records=RECORDS)
    contracts = write_contracts(tmp_path / "contracts", file)
    homes = home_pool(postgres_server, tmp_path / "federation", Participant("alpha"))
    with homes as settings, ExitStack() as stack:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        alpha = stack.enter_context(seated(settings, "alpha", lambda: spark))
        catalog = alpha.home_session.home.catalog
        flush(alpha, tree)
        at_first = len(catalog.loads_since(HOUR_MS))
        before = spent_by_the_system()
        rounds_until([alpha], lambda: has_ended(alpha.home_session))
        flush(alpha, tree)
        spent = spent_by_the_system() - before
        samples = catalog.loads_since(HOUR_MS)
        metered = sum(sample.shares.total_us for sample in samples[at_first:]) / 1e6
        # The system counts in hundredths of a second for each process; and looking costs, too.
        assert metered == pytest.approx(spent, rel=0.05, abs=0.3)

        load = load_of(samples, catalog.read_clock_ms(), HOUR_MS)
        assert load is not None
        heavy, light, landing = (load.of(f) for f in ("two/heavy", "two/light", "landing/given"))
        assert 4 <= heavy / light <= 12, "a step costs something by itself, whatever it reads"
        assert landing > 0
        assert share_of(load, ActivityKind.UNATTRIBUTED) < 0.2
        causes = {key.cause for key in load.by_key}
        assert causes == {Cause.LANDING, Cause.NORMAL}
        assert not alpha.heard.errors


def flush(running: Running, tree: ProcessTree) -> None:
    """Record all that was spent: by processes that began since the last scan, too."""
    tree.rescan()
    running.loop.meter.flush()


def share_of(load: Load, kind: ActivityKind) -> float:
    return load.kinds.get(kind, 0.0) / load.total
