"""Producers whose catalogs announce other rows than they have, over the exchange: readers go on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medusa_core.names import StreamName
from medusa_core.segments import Segment
from pipelines.homes.home import known_homes
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from tests.federation.building import Running, no_spark, rounds_until, seated
from tests.federation.test_partner_files import HOMES, REFUSED, TWO, parquet, write_contracts
from tests.federation.test_replicas import (
    BUSY,
    COUNTED,
    chosen,
    four,
    goes_on,
    reached_us,
    through_us,
)
from tests.home_pool import home_pool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

__all__ = ["four"]

pytestmark = pytest.mark.usefixtures("interpreted")

ONE, OUT_TWO = StreamName("one"), StreamName("out_two")
SPOILT = ("a column of another name", "text for numbers", "fewer rows than announced", "text",
          "rows that unpack to very much")  # fmt: skip


@pytest.fixture
def verify() -> int:
    return 2


@dataclass(frozen=True)
class Liar:
    """A participant whose files are replaced, and announced with their true size and hash."""

    url: str
    storage: Path

    @classmethod
    def of(cls, running: Running, server: EmbeddedServer) -> Liar:
        home = running.home_session.home
        database = known_homes(home.directory)[home.participant]
        return cls(server.superuser_url(database).replace("+psycopg2", ""), home.storage)

    @contextmanager
    def lying(
        self, stream: StreamName, spoil: Callable[[pa.Table], bytes | tuple[bytes, int]]
    ) -> Iterator[None]:
        """Until the end of the block the files of segments of a stream have other content."""
        true = self._files(stream)
        assert true
        contents = {path: (self.storage / path).read_bytes() for path in true}
        try:
            for path, rows in true.items():
                table = pq.read_table(self.storage / path, partitioning=None)
                spoilt = spoil(table)
                self._replace(path, *(spoilt if isinstance(spoilt, tuple) else (spoilt, rows)))
            yield
        finally:
            for path, rows in true.items():
                self._replace(path, contents[path], rows)

    def _files(self, stream: StreamName) -> dict[str, int]:
        return dict(
            self._run(
                "SELECT DISTINCT f.path, f.rows FROM medusa.file AS f "
                "JOIN medusa.segment AS s ON s.file_ids @> ARRAY[f.file_id] "
                "JOIN medusa.stream_producer AS p ON p.line_id = s.line_id "
                "WHERE f.stream = %s AND p.stream = %s AND p.participant = "
                "(SELECT h.participant FROM medusa.home AS h)",
                stream, stream,
            )  # type: ignore[arg-type]
        )  # fmt: skip

    def _replace(self, path: str, content: bytes, rows: int) -> None:
        (self.storage / path).write_bytes(content)
        digest = sha256(content).hexdigest()
        self._run(
            "UPDATE medusa.file SET size_bytes = %s, sha256 = %s, rows = %s WHERE path = %s "
            "RETURNING path",
            len(content), digest, rows, path,
        )  # fmt: skip

    def _run(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with closing(psycopg2.connect(self.url)) as login, login, login.cursor() as cursor:
            # Its own guards keep a home from lying; a partner's may have none.
            cursor.execute("SET session_replication_role = replica")
            cursor.execute(statement, values)
            return cursor.fetchall()


@pytest.mark.long
def test_a_reader_of_spoilt_files_computes_its_other_streams_and_then_all(
    postgres_server: EmbeddedServer, spark: SparkSession, tmp_path: Path
) -> None:
    with home_pool(postgres_server, tmp_path / "homes", *HOMES) as settings:
        contracts = write_contracts(tmp_path / "contracts")
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        with (
            seated(settings, "alpha", no_spark) as alpha,
            seated(settings, "beta", lambda: spark) as beta,
        ):
            rounds_until([alpha], lambda: has_ended(alpha.home_session))
            liar = Liar.of(alpha, postgres_server)
            catalog = beta.home_session.home.catalog
            for name in SPOILT:
                spoil, says = REFUSED[name]
                beta.heard.imports.clear()
                with liar.lying(ONE, spoil):
                    rounds_until([beta], partial(is_told, beta, says))
                    rounds_until([beta], partial(stable_rows, beta, OUT_TWO))
                assert catalog.segments(ONE) == (), name
            assert beta.heard.errors == []
            rounds_until([beta], lambda: has_ended(beta.home_session))
        assert rows_of(catalog.segments(ONE)) == rows_of(catalog.segments(TWO)) > 0


def is_told(running: Running, says: str) -> bool:
    return any(re.search(says, imported.problem or "") for imported in running.heard.imports)


def stable_rows(beta: Running, stream: StreamName) -> bool:
    return rows_of(beta.home_session.home.catalog.segments(stream)) > 0


def rows_of(segments: tuple[Segment, ...]) -> int:
    return sum(segment.rows for segment in segments)


@pytest.mark.long
def test_a_producer_that_claims_anothers_digests_verifies_nothing(
    four: dict[str, Running], postgres_server: EmbeddedServer
) -> None:
    """beta's digests are those of gamma's rows, and its files hold others."""
    alpha, beta, gamma, delta = four.values()
    everybody = [alpha, beta, gamma, delta]
    catalog = delta.home_session.home.catalog
    goes_on(delta, everybody, 1)
    final_us = through_us(delta, COUNTED)
    expected_us = max(reached_us(beta), final_us) + 4_000_000
    rounds_until(
        [alpha, beta, gamma], lambda: min(reached_us(beta), reached_us(gamma)) >= expected_us
    )

    def other_rows(table: pa.Table) -> bytes:
        at = table.column_names.index("n")
        more = pa.array([value + 1 for value in table["n"].to_pylist()], table["n"].type)
        return parquet(table.set_column(at, table.schema.field("n"), more))

    def unverified() -> list[Segment]:
        return [row for row in chosen(delta) if row.missing == ("counted unverified",)]

    def tentative() -> list[Segment]:
        return [s for s in catalog.segments(BUSY) if not s.stability.is_final]

    with Liar.of(beta, postgres_server).lying(COUNTED, other_rows):
        rounds_until([delta], lambda: is_told(delta, "hold other rows in the bucket at"))
        rounds_until([delta], lambda: bool(unverified()) and bool(tentative()))
        assert through_us(delta, COUNTED) < expected_us, "the claim alone makes nothing final"
    rounds_until(everybody, lambda: through_us(delta) >= expected_us)
    assert catalog.divergences() == ()
    assert delta.heard.errors == []
