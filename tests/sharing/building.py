"""A home whose streams a test writes by hand, served to recipients of Delta Sharing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.names import Version
from medusa_core.recalls import RecallRequest
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.recipients import Recipients
from pipelines.catalog.postgres.shared_home import SharedHome
from pipelines.catalog.sharing_records import IssuedToken
from pipelines.exchange.server.https_server import ListenAddress
from pipelines.homes.home import role_url
from pipelines.sharing.recipient_limits import SharingLimits
from pipelines.sharing.sharing_calls import SharingCalls
from tests.catalog import building as a
from tests.changes.building import BIG, WIDTH_US, Lines
from tests.exchange.served import served

Row = tuple[Any, ...]
DAY_MS = 86_400_000
HTTP = httpx.Client(trust_env=False, timeout=60)
COLUMNS = ("stime", "name", "n")
ALL_COLUMNS = (*COLUMNS, "_stability", "_missing")


@dataclass(frozen=True)
class Sharing:
    """A served home: `url` is the endpoint, `recipients` what the owner does."""

    lines: Lines
    url: str
    recipients: Recipients
    calls: SharingCalls

    def token(self, recipient: str = "acme", *streams: str) -> IssuedToken:
        """A new token; the streams are granted first."""
        for stream in streams or (BIG,):
            self.recipients.grant(a.StreamName(stream), recipient)
        return self.recipients.issue(recipient, DAY_MS)

    def client(self, token: str | IssuedToken) -> Client:
        return Client(self.url, token if isinstance(token, str) else token.token)


@dataclass(frozen=True)
class Client:
    """Plain HTTP with a recipient's token."""

    url: str
    token: str

    def get(self, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        return HTTP.request(method, f"{self.url}{path}", headers=headers, **more)

    def query(self, table: str, body: Any = None) -> httpx.Response:
        return self.get(f"{path_of(table)}/query", "POST", json={} if body is None else body)

    def snapshot(self, table: str, version: int | None = None) -> Counter[Row]:
        """The rows of a table, read from its files."""
        answer = self.query(table, {} if version is None else {"version": version})
        assert answer.status_code == 200, answer.text
        if version is not None:
            assert answer.headers["Delta-Table-Version"] == str(version)
        rows: Counter[Row] = Counter()
        for one in lines_of(answer)[2:]:
            rows.update(rows_at(one["file"]["url"], json.loads(one["file"]["stats"])))
        return rows

    def changes(self, table: str, first: int, last: int) -> list[tuple[int, str, Row]]:
        """The changes of versions: version, type and row, in the order of versions."""
        parameters = {"startingVersion": first, "endingVersion": last}
        answer = self.get(f"{path_of(table)}/changes", params=parameters)
        assert answer.status_code == 200, answer.text
        changed: list[tuple[int, str, Row]] = []
        for one in lines_of(answer)[2:]:
            ((kind, its),) = one.items()
            for row in rows_at(its["url"]).elements():
                type_ = {"add": "insert", "remove": "delete"}.get(kind) or row[-1]
                changed.append((its["version"], type_, row if kind != "cdf" else row[:-1]))
        return changed


def path_of(table: str) -> str:
    return f"/shares/alpha/schemas/streams/tables/{table}"


def lines_of(answer: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.text.splitlines()]


def table_at(url: str) -> pa.Table:
    answer = HTTP.get(url)
    assert answer.status_code == 200, answer.text
    return pq.read_table(pa.BufferReader(answer.content))


def rows_at(url: str, stats: Mapping[str, Any] | None = None) -> Counter[Row]:
    table = table_at(url)
    assert stats is None or stats["numRecords"] == table.num_rows
    names = [name for name in (*ALL_COLUMNS, "_change_type") if name in table.column_names]
    assert table.column_names == names, "no column of how a stream is stored"
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


def apply(rows: Counter[Row], changes: list[tuple[int, str, Row]]) -> Counter[Row]:
    """Apply a change feed as any consumer may."""
    now = Counter(rows)
    for version in sorted({version for version, _, _ in changes}):
        its = [(type_, row) for v, type_, row in changes if v == version]
        for type_, row in its:
            now[row] -= type_ in ("delete", "update_preimage")
        for type_, row in its:
            now[row] += type_ in ("insert", "update_postimage")
        assert min(now.values(), default=0) >= 0, f"version {version} takes back what is not there"
    return +now


@contextmanager
def shared_home(
    lines: Lines, folder: Path, limits: SharingLimits | None = None,
    address: ListenAddress | None = None,
) -> Iterator[Sharing]:  # fmt: skip
    """Serve the home of these lines."""
    settings = lines.settings
    directory, server = settings.directory, str(settings.catalog_url)
    login = role_url(directory, server, a.ALPHA, "exchange")
    owner = role_url(directory, server, a.ALPHA, "owner")
    with (
        closing(ExchangeHome(login, a.ALPHA)) as home,
        closing(SharedHome(login, a.ALPHA)) as shared,
        closing(Recipients(owner)) as recipients,
        closing(SharingCalls(shared, lines.home.storage, folder, limits)) as calls,
        served(home, lines.home.storage, login, address, mounts=(calls.mount,)) as https,
    ):
        yield Sharing(lines, f"{https.url}/delta-sharing", recipients, calls)


def newest(lines: Lines, stream: a.StreamName) -> Version:
    return max(line.version for line in lines.catalog.lines(stream))


def recall(lines: Lines, stream: a.StreamName, at: int) -> None:
    """Take back what is final of a stream from a bucket on, as its owner."""
    settings = lines.settings
    url = role_url(settings.directory, str(settings.catalog_url), a.ALPHA, "owner")
    request = RecallRequest(
        stream=stream, producer=a.ME, from_us=at * WIDTH_US, because="wrong", who="test"
    )
    with closing(PostgresCatalog(url, a.ALPHA)) as catalog:
        assert catalog.recall(request)
