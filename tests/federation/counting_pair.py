"""Two participants, of which one counts what it lands, and the other is its partner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.operations.partner_management import export_partner
from tests.federation.test_partner_streams import apply, join, write
from tests.partners.offices import Office, office

COUNTS = """
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="counts",
    sources=(Source(name="connections", columns={"ts_us": "bigint", "orig_h": "string"},
                    time="ts_us"),),
    boxes=(Aggregate(name="per_host", input="connections", size="2s", group_by=("orig_h",),
                     columns={"n": "count(*)"}),),
    outputs=(Output(name="counted", input="per_host"),),
    bucket="2s",
)
"""
ALPHA = """
participant: alpha
runs:
  - {network: networks/counts.py, sources: [connections], fragments: [main]}
"""
LIVE = """
stream: connections
source: {kind: generate, seed: 7, rate_per_s: 40, sources: 8}
"""


@contextmanager
def counting_pair(server: EmbeddedServer, folder: Path) -> Iterator[tuple[Office, Office]]:
    """Alpha lands a live source and counts its records; beta is a partner that runs nothing."""
    with (
        office(server, folder / "a", "alpha") as alpha,
        office(server, folder / "b", "beta") as beta,
    ):
        write(alpha, "participants/alpha.yaml", ALPHA)
        write(alpha, "networks/counts.py", COUNTS)
        write(alpha, "streams/connections.yaml", LIVE)
        for one in (alpha, beta):
            apply(one)
        join_each_other(alpha, beta)
        yield alpha, beta


def join_each_other(one: Office, other: Office) -> None:
    """Each has the other's participant file."""
    join(one, other)
    export_partner(one.settings, None, other.participant, one.contracts)


def agree(one: Office, other: Office, name: str, contract: str) -> None:
    """Both have the file of a contract."""
    for each in (one, other):
        write(each, f"bilateral/{name}.yaml", contract)
        apply(each)
