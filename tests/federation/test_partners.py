"""One partner that is not well, and a change of what is to be done, hold up nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from medusa_core.names import Participant, StreamName
from pipelines.base.settings import Settings
from pipelines.homes.home import known_homes
from pipelines.operations.contract_application import ApplyRequest, apply_contracts, beginning_of
from pipelines.participant.loop import AssignmentsChanged
from tests.federation.building import Running, federation_of, no_spark, rounds_until, seated
from tests.federation.test_three_and_one import LANDING, SILENT, write_contracts
from tests.replaying import parquet_files
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

START_US = 1_700_000_000_000_000


def some_connections(folder: Path, seed: int) -> Path:
    times = [START_US + at * 1_000_000 for at in range(60)]
    hosts = [f"10.0.{seed}.{at % 3}" for at in range(60)]
    ports = pa.array(range(60), pa.int32())
    table = pa.table({"ts_us": times, "orig_h": hosts, "resp_p": ports})
    (path,) = parquet_files(folder, table)
    return path


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    parts = {name: some_connections(tmp_path / name, at) for at, name in enumerate(LANDING)}
    return write_contracts(tmp_path / "contracts", parts, "10s")


@pytest.fixture
def settings(
    postgres_server: EmbeddedServer, tmp_path: Path, contracts: Path
) -> Iterator[Settings]:
    with federation_of(postgres_server, tmp_path / "federation") as made:
        apply(made, contracts)
        yield made


def apply(settings: Settings, contracts: Path, from_: str | None = None) -> None:
    apply_contracts(settings, ApplyRequest(contracts=contracts, begins=beginning_of(from_)))


@pytest.fixture
def four(settings: Settings, spark: SparkSession) -> Iterator[dict[str, Running]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(seated(settings, name, lambda: spark))
            for name in (*LANDING, "delta")
        }


@pytest.fixture
def delta(settings: Settings) -> Iterator[Running]:
    """The one that computes, alone."""
    with seated(settings, "delta", no_spark) as running:
        yield running


def as_administrator(server: EmbeddedServer, settings: Settings, name: str, statement: str) -> None:
    database = known_homes(settings.directory)[Participant(name)]
    engine = create_engine(server.superuser_url(database))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


SHUT = "REVOKE EXECUTE ON FUNCTION medusa.published_news FROM {exchange}"
NONSENSE = """
    CREATE OR REPLACE FUNCTION medusa.line_news(stream text, participant text, replica integer,
        after bigint, segments_max integer) RETURNS jsonb
    LANGUAGE sql AS 'SELECT CAST(''{{"version": "many"}}'' AS jsonb)'
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "statement", long_but(1, [SHUT, NONSENSE]), ids=["shuts its door", "talks nonsense"]
)
def test_a_partner_is_named_and_passed_by(
    four: dict[str, Running], settings: Settings, postgres_server: EmbeddedServer, statement: str
) -> None:
    for name in LANDING:
        rounds_until([four[name]], lambda name=name: bool(four[name].heard.steps))  # type: ignore[misc]
    exchange = f"{known_homes(settings.directory)[Participant('alpha')]}_exchange"
    as_administrator(postgres_server, settings, "alpha", statement.format(exchange=exchange))
    delta = four["delta"]

    def problems() -> dict[str, str | None]:
        """What was told last of each line; on a slow machine each may be silent for a moment."""
        told = [one for one in delta.heard.imports if not SILENT.match(one.problem or "")]
        return {str(one.stream): one.problem for one in told}

    lines = {f"connections_{character}" for character in "abc"}
    rounds_until([delta], lambda: problems().keys() == lines)
    assert problems()["connections_a"] is not None
    assert problems()["connections_b"] is problems()["connections_c"] is None
    for character, has_come in (("a", False), ("b", True), ("c", True)):
        segments = delta.home_session.home.catalog.segments(StreamName(f"connections_{character}"))
        assert bool(segments) is has_come, character


@pytest.mark.long
def test_a_loop_notices_that_it_is_to_do_something_else(
    delta: Running, settings: Settings, contracts: Path
) -> None:
    delta.loop.tick()
    network = Path("pipelines/language/shipped/netmon3.py").read_text()
    (contracts / "netmon3.py").write_text(
        network.replace(
            "boxes=(connections, *netmon.network.boxes)", "boxes=(connections, *boxes)"
        ).replace("network = Network(", CHANGED + "network = Network(")
    )
    for file in (contracts / "participants").glob("*.yaml"):
        file.write_text(file.read_text().replace("network: netmon3", "network: netmon3.py"))
    apply(settings, contracts, from_="2024-01-01T00:00:00Z")
    with pytest.raises(AssignmentsChanged):
        delta.loop.tick()


CHANGED = """
from dataclasses import replace

boxes = tuple(
    replace(box, cases={"yes": "connections > 5"}) if box.name == "busy" else box
    for box in netmon.network.boxes
)
"""
