"""Three participants land a part of the connections each; a fourth joins and computes them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.homes.home import known_homes
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from pipelines.storage.csv_export import export_stream
from tests.federation.building import Running, rounds_until, seated
from tests.home_pool import home_pool
from tests.replaying import parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

DATA = Settings.from_environment(os.environ).test_data
ANSWERS = {
    "busy_sources": "connections_gt_100.csv",
    "scanning_sources": "ports_gt_10.csv",
    "scanning_prefixes": "prefix24_ports_gt_10.csv",
}
LANDING = ("alpha", "beta", "gamma")
SILENT = re.compile(r"partner (alpha|beta|gamma) has not answered for ")


def write_contracts(folder: Path, parts: Mapping[str, Path], disorder: str) -> Path:
    """Contracts of three that land and one that computes netmon3."""
    for kind in ("participants", "streams"):
        (folder / kind).mkdir(parents=True)
    for name, character in zip(LANDING, "abc", strict=True):
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n  - network: netmon3\n    bucket: 20s\n"
            f"    sources: [connections_{character}]\n"
        )
        (folder / "streams" / f"connections_{character}.yaml").write_text(
            f"stream: connections_{character}\nsource:\n  kind: replay\n"
            f"  paths: ['{parts[name]}']\n  speed: 1000000000\n  disorder: {disorder}\n"
        )
    (folder / "participants" / "delta.yaml").write_text(
        "participant: delta\nruns:\n  - network: netmon3\n    bucket: 20s\n    fragments: [main]\n"
    )
    return folder


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The connections of a server, dealt out to three files; each keeps their order."""
    folder = tmp_path_factory.mktemp("parts")
    table = pq.read_table(DATA / "netmon-zeek-server" / "connections.parquet")
    owner = np.random.default_rng(3).integers(0, 3, table.num_rows)
    return {
        name: parquet_files(folder / name, table.filter(owner == at))[0]
        for at, name in enumerate(LANDING)
    }


@pytest.fixture(scope="module")
def four(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    parts: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Running]]:
    """Four participants with open sessions whose contracts are applied."""
    folder = tmp_path_factory.mktemp("three-and-one")
    contracts = write_contracts(folder / "contracts", parts, "3900s")
    homes = map(Participant, (*LANDING, "delta"))
    with home_pool(postgres_server, folder / "homes", *homes) as settings, ExitStack() as stack:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield {
            name: stack.enter_context(seated(settings, name, lambda: spark))
            for name in (*LANDING, "delta")
        }


def all_answer(reader: Running) -> bool:
    """Whether a tick ends without a word of a partner that has nothing new and is not silent."""
    before = len(reader.heard.imports)
    reader.loop.tick()
    return reader.heard.imports[before:] == []


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason=f"test data is not in {DATA}")
def test_connections_of_three_give_the_same_exact_answers_at_a_fourth(
    four: dict[str, Running], parts: dict[str, Path], tmp_path: Path
) -> None:
    delta = four["delta"]
    for name, character in zip(LANDING, "abc", strict=True):
        (hold,) = four[name].home_session.home.catalog.holds(StreamName(f"connections_{character}"))
        assert (hold.holder, hold.purpose) == ("delta", "import"), "before it has read anything"
        assert hold.from_us < pc.min(pq.read_table(parts[name])["ts_us"]).as_py()
    rounds_until(four.values(), lambda: all(has_ended(r.home_session) for r in four.values()))
    for output, expected in ANSWERS.items():
        exported = tmp_path / f"{output}.csv"
        home = delta.home_session.home
        export_stream(home.catalog, home.storage, StreamName(output), exported)
        answer = DATA / "netmon-zeek-server" / "expected" / expected
        assert exported.read_bytes() == answer.read_bytes(), output
    for name, character in zip(LANDING, "abc", strict=True):
        assert four[name].home_session.home.catalog.quarantine_count() == 0, name
        (hold,) = four[name].home_session.home.catalog.holds(StreamName(f"connections_{character}"))
        assert hold.holder == "delta"
    heard = delta.heard.imports
    brought = {(str(r.stream), r.producer) for r in heard if r.problem is None}
    assert brought == {(f"connections_{a}", f"{n}/0") for n, a in zip(LANDING, "abc", strict=True)}
    # On a slow machine a partner may be silent for a while: nothing else was wrong, and in the end
    # each of them answers.
    problems = [r.problem for r in heard if r.problem is not None]
    assert [p for p in problems if not SILENT.match(p)] == []
    rounds_until([delta], lambda: all_answer(delta))


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason=f"test data is not in {DATA}")
def test_a_driver_sees_no_home_but_its_own(four: dict[str, Running]) -> None:
    session = four["delta"].home_session
    own = catalog_url(session.url)
    for name in LANDING:
        theirs = known_homes(session.home.directory)[Participant(name)]
        as_job = create_engine(own.set(database=theirs))
        with pytest.raises(DBAPIError, match="permission denied"):
            as_job.connect()
        as_job.dispose()
