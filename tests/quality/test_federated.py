"""A home that computes what others land: records are imported, and certified where they belong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from medusa_core.certificates import Suite
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from pipelines.sources.generated_files import write_generated
from tests.federation.building import Running, federation_of, rounds_until, seated
from tests.federation.test_three_and_one import LANDING, write_contracts
from tests.quality.homes import Checked, certificate
from tests.sweeps import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer


@pytest.fixture
def four(
    postgres_server: EmbeddedServer, spark: SparkSession, interpreted: None, tmp_path: Path
) -> Iterator[dict[str, Running]]:
    """Three that land generated connections and one that computes them, to the end."""
    (whole,) = write_generated(tmp_path / "all", seed=2, records=3_000, files=1, format="parquet")
    table = pq.read_table(whole)
    parts = {}
    for at, name in enumerate(LANDING):
        parts[name] = tmp_path / f"{name}.parquet"
        pq.write_table(table.slice(at * 1_000, 1_000), parts[name])
    contracts = write_contracts(tmp_path / "contracts", parts, "3900s")
    with federation_of(postgres_server, tmp_path / "federation") as settings, ExitStack() as stack:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        running = {
            name: stack.enter_context(seated(settings, name, lambda: spark))
            for name in (*LANDING, "delta")
        }
        rounds_until(
            running.values(), lambda: all(has_ended(r.home_session) for r in running.values())
        )
        yield running


@pytest.mark.long
@pytest.mark.sweep
def test_each_home_certifies_what_is_computed_there_from_what_it_has(
    four: dict[str, Running], spark: SparkSession
) -> None:
    at_delta = Checked(four["delta"].home_session.home, spark)
    computed = at_delta.run(stream="scanning_sources")
    assert computed.passed, [found.broken for found in computed.found]
    assert computed.not_recomputed == ()
    sources = certificate(computed, "scanning_sources", Suite.CONVERGED)
    assert sources.figures["final_rows"]
    assert set(sources.engines.values()) == {"DuckDB"}
    for name, character in [*zip(LANDING, "abc", strict=True)][: examples(1, len(LANDING))]:
        stream = f"connections_{character}"
        imported = at_delta.run(stream=stream)
        assert imported.passed, [found.broken for found in imported.found]
        assert dict(imported.not_recomputed) == {stream: f"it is computed by {name}: ask there"}
        suites = {f.certificate.suite for f in imported.found}
        assert suites >= {Suite.COMPLETE, Suite.BOUNDARIES}
        assert Suite.CONVERGED not in suites
    landed = Checked(four["alpha"].home_session.home, spark).run(stream="connections_a")
    assert landed.passed
    assert certificate(landed, "connections_a", Suite.CONVERGED).figures["final_rows"] == 1_000
