"""A partner reads a file at the object store of its owner, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from medusa_core.errors import Unavailable
from medusa_core.protocol.call_documents import OBJECTS_HEADER
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.exchange.client.partner_link import PartnerAddress, PartnerLink
from pipelines.exchange.server import application
from pipelines.exchange.server.https_server import HttpsServer
from pipelines.storage import store
from pipelines.storage.object_store import Bucket
from pipelines.storage.store import Folder
from tests.exchange.published_home import ALPHA, BETA, GAMMA, ROWS, KeyIdentity, form_for
from tests.exchange.served import SUMS_FILE, address_of, asking
from tests.storage.object_server import ObjectServer, keys_file, object_server


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


@pytest.fixture
def bucket(
    objects: ObjectServer, storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    """The files of the home that is served are objects, and its owner redirects to them."""
    keys = str(keys_file(tmp_path / "keys"))
    found = Bucket(storage, objects.settings("alpha", credentials=keys, redirects=True))
    found._write("sums.parquet", ROWS)
    monkeypatch.setattr(application, "store_of", lambda root: found)
    objects.requests.clear()
    objects.names_of_headers.clear()
    return found


def origin_of(objects: ObjectServer) -> str:
    return objects.url


def address_with(server: HttpsServer, origin: str) -> PartnerAddress:
    known = address_of(server.url)
    return PartnerAddress(url=known.url, public_key=known.public_key, objects=origin)


def test_a_file_is_read_at_the_store_that_the_reader_names_without_its_token(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket, tmp_path: Path
) -> None:
    with asking(address_with(server, origin_of(objects))) as exchange:
        exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
    assert (tmp_path / "sums.parquet").read_bytes() == ROWS
    ((method, path),) = objects.requests
    assert method == "GET"
    assert path.startswith("/bucket/alpha/sums.parquet?X-Amz-Algorithm=AWS4-HMAC-SHA256&")
    assert "X-Amz-Expires=60&" in path
    assert not objects.names_of_headers[0] & {"authorization", "cookie", OBJECTS_HEADER.lower()}


@pytest.mark.parametrize("named", [None, "https://other.example"])
def test_a_reader_that_names_no_store_or_another_one_gets_the_file(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket, tmp_path: Path, named: str | None
) -> None:
    known = address_of(server.url) if named is None else address_with(server, named)
    with asking(known) as exchange:
        exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
    assert (tmp_path / "sums.parquet").read_bytes() == ROWS
    assert objects.requests == []


def test_a_home_on_disk_redirects_nobody(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket, storage: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(application, "store_of", lambda root: Folder(storage))
    with asking(address_with(server, origin_of(objects))) as exchange:
        exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
    assert (tmp_path / "sums.parquet").read_bytes() == ROWS
    assert objects.requests == []


@pytest.mark.parametrize("elsewhere", ["http://127.0.0.1:9/x", "{origin}.example/x", "", "/x"])
def test_a_redirect_to_another_server_is_not_followed_and_the_partner_sends_the_file_next(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, elsewhere: str,
) -> None:  # fmt: skip
    url = elsewhere.format(origin=origin_of(objects))
    monkeypatch.setattr(Bucket, "object_url", lambda self, path, origin: url)
    with asking(address_with(server, origin_of(objects))) as exchange:
        with pytest.raises(Unavailable, match="redirected to another server"):
            exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
        assert objects.requests == []
        exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
    assert (tmp_path / "sums.parquet").read_bytes() == ROWS


def test_an_object_that_is_not_there_is_sent_by_the_partner_at_the_next_attempt(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket, tmp_path: Path
) -> None:
    bucket._delete("sums.parquet")
    with asking(address_with(server, origin_of(objects))) as exchange:
        with pytest.raises(Unavailable, match="answers 404"):
            exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
        exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
    assert (tmp_path / "sums.parquet").read_bytes() == ROWS


def test_other_bytes_at_the_store_are_refused(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket, tmp_path: Path
) -> None:
    bucket._write("sums.parquet", bytes(len(ROWS)))
    objects.requests.clear()
    with asking(address_with(server, origin_of(objects))) as exchange:
        with pytest.raises(Unavailable):
            exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
        assert not (tmp_path / "sums.parquet").exists()
        assert len(objects.requests) == 1
        exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
    assert (tmp_path / "sums.parquet").read_bytes() == ROWS
    assert len(objects.requests) == 1, "the partner's server has sent it"


def test_files_are_read_at_the_store_at_the_same_time_until_one_of_them_fails(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket
) -> None:
    address = address_with(server, origin_of(objects))
    link = PartnerLink(BETA, ALPHA, address, KeyIdentity(BETA), lambda *learnt: None)
    stores = []

    async def read() -> None:
        async with link.file(SUMS_FILE.sha256, 0) as first:
            stores.append(first.store)
            async with link.file(SUMS_FILE.sha256, 0) as second:
                stores.append(second.store)
            with pytest.raises(Unavailable, match="it ends"):
                async with link.file(SUMS_FILE.sha256, 0):
                    raise Unavailable("it ends early")
        async with link.file(SUMS_FILE.sha256, 0) as last:
            stores.append(last.store)
        await link.close()

    asyncio.run(read())
    assert stores == [address.objects, address.objects, None]


def test_a_store_that_is_not_reached_is_named(
    server: HttpsServer, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = "http://127.0.0.1:9"
    monkeypatch.setattr(Bucket, "object_url", lambda self, path, origin: f"{origin}/x")
    with (
        asking(address_with(server, origin)) as exchange,
        pytest.raises(Unavailable, match=f"the object store {origin} of partner alpha is not"),
    ):
        exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})


def test_a_file_is_sent_if_the_keys_cannot_be_read_and_the_log_alone_says_why(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket, tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    (tmp_path / "keys").unlink()
    with asking(address_with(server, origin_of(objects))) as exchange:
        exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
    assert (tmp_path / "sums.parquet").read_bytes() == ROWS
    assert f"there is no file {tmp_path / 'keys'}" in caplog.text
    assert objects.requests == []


def test_a_partner_learns_nothing_of_the_bucket_if_an_object_cannot_be_read(
    server: HttpsServer, objects: ObjectServer, bucket: Bucket, storage: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(store, "store_of", lambda root: bucket)
    copy = storage / "sums.parquet"
    content = copy.read_bytes()
    copy.unlink()
    (tmp_path / "keys").unlink()
    bucket._client = None  # as after a refusal: the keys are read again
    try:
        with (
            asking(address_of(server.url)) as exchange,
            pytest.raises(Unavailable, match="is damaged here: try later") as found,
        ):
            exchange.fetch_all(ALPHA, {SUMS_FILE: tmp_path / "sums.parquet"})
    finally:
        copy.write_bytes(content)
    assert str(tmp_path) not in str(found.value)
    assert "s3://" not in str(found.value)
    assert f"there is no file {tmp_path / 'keys'}" in caplog.text


def test_a_partner_without_a_grant_learns_no_url(
    server: HttpsServer, home: ExchangeHome, objects: ObjectServer, bucket: Bucket
) -> None:
    form = form_for(home, GAMMA)
    answer = httpx.post(f"{server.url}/v1/token", data=form, trust_env=False, timeout=60)
    headers = {
        "Authorization": f"Bearer {answer.json()['access_token']}",
        OBJECTS_HEADER: origin_of(objects),
    }
    url = f"{server.url}/v1/files/{SUMS_FILE.sha256}"
    answer = httpx.get(url, headers=headers, trust_env=False, timeout=60)
    assert (answer.status_code, "location" in answer.headers) == (404, False)
