"""Eventual consistency: final rows at the end of a chain, against DuckDB over landed records.

The records are read from the homes where they landed, the rows from the home of the last hop; the
recomputation is that of the certificates and shares no code with steps, exchange and catalog.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import NoReturn

from bench.dpc.contracts import OUTPUT
from bench.dpc.scenario import BUCKET_S, SOURCE_OF
from bench.federation import Federation
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName
from medusa_core.network import Network, Port
from pipelines.participant.home_session import open_session
from pipelines.quality.differences import differences
from pipelines.quality.port_columns import port_columns
from pipelines.quality.recompute import Recomputation
from pipelines.quality.stored_rows import final_rows, source_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How many rows the oracle has, how many of them are not there, and how many are too many."""

    rows: int
    lost: int
    extra: int

    @property
    def is_equal(self) -> bool:
        """Whether the stable output is what an undisturbed run would have given, row for row."""
        return self.rows > 0 and not self.lost and not self.extra

    def document(self) -> dict[str, int]:
        """As JSON values."""
        return asdict(self)


def compare(federation: Federation, reader: str, network: Network, part: Range) -> Compared:
    """Hold the rows of a range that are final at a reader against the oracle's."""
    columns = port_columns(network)
    port = network.port(network.output(OUTPUT).input, OUTPUT)
    with ExitStack() as stack:
        records = {}
        for lander, source in SOURCE_OF.items():
            session = stack.enter_context(open_session(federation.settings, Participant(lander)))
            records[source] = source_records(
                session.home.catalog, session.home.storage, StreamName(source),
                columns[Port(source)], [part],
            )  # fmt: skip
        session = stack.enter_context(open_session(federation.settings, Participant(reader)))
        segments = session.home.catalog.segments(StreamName(OUTPUT), part)
        stable = final_rows(session.home.storage, segments, columns[port], part).rows
    with Recomputation(network, records, _no_batch) as run:
        again = run.rows(port, [part])
    found = differences(stable, again, columns[port], int(BUCKET_S * 1_000_000)).buckets
    return Compared(
        rows=again.num_rows,
        lost=int(found["only_recomputed"].sum()),
        extra=int(found["only_in_stream"].sum()),
    )


def _no_batch(*given: object) -> NoReturn:
    raise AssertionError("DuckDB takes all boxes of a chain")
