"""Who is answered: tokens, grants, limits, and what hostile recipients try."""

from __future__ import annotations

import argparse
import base64
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from medusa_core.errors import Refused
from pipelines.catalog.postgres.shared_home import SharedHome
from pipelines.catalog.sharing_records import TokenHolder
from pipelines.cli import recipient_grant
from pipelines.exchange.server.access_tokens import RECENT_S, RecentHolders, hash_of
from pipelines.sharing.recipient_limits import SharingLimits
from tests.catalog import building as a
from tests.changes.building import BIG, SUMS, Lines
from tests.sharing.building import (
    DAY_MS,
    HTTP,
    Client,
    Sharing,
    lines_of,
    path_of,
    shared_home,
)
from tests.waiting import until

CALLS = (
    "/shares",
    "/shares/alpha",
    "/shares/alpha/schemas",
    "/shares/alpha/schemas/streams/tables",
    "/shares/alpha/all-tables",
    f"{path_of('big')}/version",
    f"{path_of('big')}/metadata",
    f"{path_of('big')}/changes?startingVersion=1",
)


@pytest.fixture
def filled(sharing: Sharing) -> Sharing:
    sharing.lines.write(BIG, 0, 2, {0: [("a", 1)], 1: [("b", 2)]})
    sharing.lines.write(SUMS, 0, 1, {0: [("canary", 77)]})
    return sharing


def address_in(client: Client, table: str = "big") -> str:
    return str(lines_of(client.query(table))[2]["file"]["url"])


def is_error(answer: httpx.Response, status: int) -> bool:
    """An error in the form of the protocol, which names nothing of this machine."""
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert set(document) == {"errorCode", "message"}
    assert document["message"]
    for word in ("Traceback", ".py", "/tmp", "medusa_", "postgres"):
        assert word not in answer.text
    return True


def test_every_call_needs_a_token_that_counts(filled: Sharing) -> None:
    good = filled.token()
    expired = filled.recipients.issue("acme", 1_001)
    revoked = filled.token("other")
    assert filled.recipients.revoke("other") == 1
    wrong = good.token[:-1] + ("0" if good.token[-1] != "0" else "1")
    until(lambda: filled.client(expired).get("/shares").status_code == 401, "the token has expired")
    for path in CALLS:
        assert filled.client(good).get(path).status_code == 200, path
        for token in (
            wrong,
            revoked.token,
            expired.token,
            "x" * 300,
            "%00",
            good.token.upper(),
        ):
            answer = filled.client(token).get(path)
            assert is_error(answer, 401)
            assert answer.headers["WWW-Authenticate"] == "Bearer"
    for headers in ({}, {"Authorization": f"Basic {good.token}"}, {"Authorization": good.token}):
        assert is_error(HTTP.get(f"{filled.url}/shares", headers=headers), 401)


def test_what_is_not_granted_is_not_there(filled: Sharing) -> None:
    client = filled.client(filled.token("acme", "big"))
    nobody = filled.client(filled.recipients.issue("nobody", DAY_MS))
    listed = client.get("/shares/alpha/all-tables").json()["items"]
    assert [one["name"] for one in listed] == ["big", "big__all"]
    for table in (
        "sums",
        "sums__all",
        "src",
        "nothing",
        "big__all__all",
        "__all",
        "a" * 70,
        "BIG2",
    ):
        for call in ("version", "metadata", "changes?startingVersion=1"):
            assert is_error(client.get(f"{path_of(table)}/{call}"), 404)
        assert is_error(client.query(table), 404)
    for path in (*CALLS[1:], "/shares/beta", "/shares/alpha/schemas/other/tables", "/none", "/"):
        assert is_error(nobody.get(path), 404)
    assert nobody.get("/shares").json() == {"items": []}
    for path in (
        "/shares/beta",
        "/shares/alpha/schemas/public/tables",
        "/shares/alpha/schemas/x/y",
    ):
        assert is_error(client.get(path), 404)
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.get("/shares", method).status_code == 404


def test_a_grant_begins_and_ends_at_once(filled: Sharing) -> None:
    client = filled.client(filled.recipients.issue("acme", DAY_MS))
    assert filled.recipients.grant(SUMS, "acme")
    assert not filled.recipients.grant(SUMS, "acme")
    address = address_in(client, "sums")
    assert HTTP.get(address).status_code == 200
    assert filled.recipients.withdraw(SUMS, "acme")
    assert is_error(client.query("sums"), 404)
    assert is_error(HTTP.get(address), 404)


@pytest.mark.long
def test_a_revoked_token_ends_the_pages_and_files_that_were_begun(
    lines: Lines, tmp_path: Path
) -> None:
    chance = random.Random(1)
    rows = [(f"{chance.getrandbits(256):x}", at) for at in range(30_000)]
    lines.write(BIG, 0, 1, {0: rows})
    limits = SharingLimits(bytes_per_s=400_000)
    with shared_home(lines, tmp_path / "shared", limits) as sharing:
        issued = sharing.token("acme", "big", "sums")
        client = sharing.client(issued)
        page = client.get("/shares/alpha/all-tables", params={"maxResults": 1}).json()
        address = address_in(client)
        size = int(HTTP.head(address).headers["Content-Length"])
        received = 0

        def receive() -> None:
            nonlocal received
            with HTTP.stream("GET", address) as answer:
                for piece in answer.iter_raw():
                    if not received:
                        assert sharing.recipients.revoke("acme", issued.token_id) == 1
                    received += len(piece)

        with pytest.raises(httpx.RemoteProtocolError):
            receive()
        assert 0 < received < size
        assert is_error(HTTP.get(address), 404)
        token = page["nextPageToken"]
        more = client.get("/shares/alpha/all-tables", params={"pageToken": token})
        assert is_error(more, 401)


def test_an_address_is_valid_for_its_token_stream_file_and_time_alone(filled: Sharing) -> None:
    first, second = filled.token("acme", "big", "sums"), filled.token("other", "big")
    address = address_in(filled.client(first))
    root, _, path = address.partition("/files/")
    path, _, signature = path.partition(".parquet?X-Amz-Signature=")
    expires, token, stream, key = path.split("/")
    other = address_in(filled.client(first), "sums").split("/")[-1].partition(".")[0]
    assert HTTP.get(address).status_code == 200
    altered = [
        (signature, expires, str(second.token_id), stream, key),
        (signature, expires, token, "sums", key),
        (signature, expires, token, stream, other),
        (signature, str(int(expires) + 9), token, stream, key),
        ("0" * 64, expires, token, stream, key),
        ("é" * 64, expires, token, stream, key),
        (signature.upper(), expires, token, stream, key),
        (signature, "9" * 30, token, stream, key),
        (signature, expires, token, stream, "..%2f..%2fkeys"),
        (signature, expires, "-1", stream, key),
    ]
    for signed, *words in altered:
        parameters = {"X-Amz-Signature": signed}
        answer = HTTP.get(f"{root}/files/{'/'.join(words)}.parquet", params=parameters)
        assert is_error(answer, 404), words
    for query in ("", "?X-Amz-Signature", f"?X-Amz-Signature={signature}&X-Amz-Signature=0"):
        assert HTTP.get(f"{root}/files/{path}.parquet{query}").status_code in (400, 404)


@pytest.mark.long
def test_ranges_and_headers_of_a_file_are_those_of_http(filled: Sharing) -> None:
    address = address_in(filled.client(filled.token()))
    whole = HTTP.get(address)
    size = len(whole.content)
    head = HTTP.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == str(size)
    assert head.headers["Accept-Ranges"] == "bytes"
    for named, part in (("0-3", slice(0, 4)), ("4-", slice(4, None)), ("2-999999", slice(2, None))):
        answer = HTTP.get(address, headers={"Range": f"bytes={named}"})
        assert (answer.status_code, answer.content) == (206, whole.content[part])
    assert HTTP.get(address, headers={"Range": f"bytes={size}-"}).status_code == 416
    for named in ("bytes=-4", "bytes=0-1,2-3", "items=0-1", "bytes=9-2", "x" * 100):
        assert HTTP.get(address, headers={"Range": named}).content == whole.content


@pytest.mark.long
def test_an_address_is_below_the_host_that_the_client_used(filled: Sharing) -> None:
    client = filled.client(filled.token())
    for host, forwarded, beginning in (
        ("shares.example.org:8443", "https", "https://shares.example.org:8443/"),
        ("[::1]:80", "", "http://[::1]:80/"),
    ):
        headers = {"Host": host, "X-Forwarded-Proto": forwarded}
        answer = client.get(f"{path_of('big')}/query", "POST", json={}, headers=headers)
        assert lines_of(answer)[2]["file"]["url"].startswith(f"{beginning}delta-sharing/files/")
    for host in ("a b", "evil/x", "<x>"):
        answer = client.get(f"{path_of('big')}/query", "POST", json={}, headers={"Host": host})
        assert answer.status_code == 400


def test_pages_are_continued_with_their_own_token_only(filled: Sharing) -> None:
    client, other = (
        filled.client(filled.token("acme", "big", "sums")),
        filled.client(filled.token("other", "big", "sums")),
    )
    path = "/shares/alpha/all-tables"
    names, token = [], ""
    while True:
        page = client.get(path, params={"maxResults": 1, "pageToken": token}).json()
        names += [one["name"] for one in page["items"]]
        token = page.get("nextPageToken", "")
        if not token:
            break
        # A table that goes meanwhile is neither shown nor in the way.
        filled.recipients.withdraw(SUMS, "acme")
    assert names == ["big", "big__all"]
    none = client.get(path, params={"maxResults": 0}).json()
    assert none["items"] == []
    token = none["nextPageToken"]
    assert len(client.get(path, params={"pageToken": token}).json()["items"]) == 2
    chance = random.Random(2)
    altered = list(token)
    altered[chance.randrange(len(altered))] = "_"
    wrong = ["".join(altered), token[:-2], token * 3, "x", "é", "%00", "=" * 9,
             base64.urlsafe_b64encode(b"big").decode()]  # fmt: skip
    for one in wrong:
        assert is_error(client.get(path, params={"pageToken": one}), 400)
    assert is_error(other.get(path, params={"pageToken": token}), 400)
    assert is_error(client.get("/shares", params={"pageToken": token}), 400)
    for wanted in ("-1", "x", "1.5", "9" * 30, ""):
        assert is_error(client.get(path, params={"maxResults": wanted}), 400)
    assert client.get(path, params={"maxResults": 10**17}).status_code == 200


@pytest.mark.long
def test_what_a_recipient_uses_is_counted_for_the_owner(filled: Sharing) -> None:
    client = filled.client(filled.token("acme", "big"))
    client.get("/shares")
    content = HTTP.get(address_in(client)).content

    def used() -> tuple[int, int, int]:
        (one,) = [r for r in filled.recipients.all() if r.recipient == "acme"]
        return one.requests, one.rows, one.bytes

    until(lambda: used()[:2] == (3, 2), "three requests and two rows are noted")
    assert used()[2] > len(content)
    (one,) = filled.recipients.all()
    assert (one.tokens, one.streams) == (1, ("big",))
    assert one.last_at is not None


@pytest.mark.long
def test_too_many_requests_are_told_to_wait_and_cost_no_other_recipient(
    lines: Lines, tmp_path: Path
) -> None:
    limits = SharingLimits(burst_max=5, requests_per_s=0.001)
    with shared_home(lines, tmp_path / "shared", limits) as sharing:
        client, other = sharing.client(sharing.token("acme")), sharing.client(sharing.token("b"))
        answers = [client.get("/shares") for _ in range(8)]
        assert [one.status_code for one in answers] == [200] * 5 + [429] * 3
        assert is_error(answers[-1], 429)
        assert answers[-1].headers["Retry-After"] == "1"
        assert other.get("/shares").status_code == 200


def test_a_recipient_is_looked_up_once_for_requests_that_follow_one_another(
    lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[bytes] = []
    real = SharedHome.recipient_of

    def counted(home: SharedHome, token_hash: bytes) -> TokenHolder | None:
        looked_up.append(token_hash)
        return real(home, token_hash)

    monkeypatch.setattr(SharedHome, "recipient_of", counted)
    limits = SharingLimits(burst_max=1, requests_per_s=0.001)
    now_s = [0.0]
    with shared_home(lines, tmp_path / "shared", limits) as sharing:
        monkeypatch.setattr(sharing.calls, "_recent", RecentHolders(lambda: now_s[0]))
        client = sharing.client(sharing.token("acme"))
        assert [client.get("/shares").status_code for _ in range(5)] == [200] + [429] * 4
        assert len(looked_up) == 1
        now_s[0] += RECENT_S
        assert client.get("/shares").status_code == 429
        assert len(looked_up) == 2


def test_the_token_of_a_known_recipient_is_looked_up_though_strangers_wait_for_theirs(
    sharing: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, goes_on, entered = sharing.token("acme").token, threading.Event(), threading.Semaphore(0)
    real = SharedHome.recipient_of

    def slow(home: SharedHome, token_hash: bytes) -> TokenHolder | None:
        if token_hash != hash_of(known):
            entered.release()
            assert goes_on.wait(120)
        return real(home, token_hash)

    with httpx.Client(trust_env=False, timeout=60) as connection, ThreadPoolExecutor(9) as threads:
        url = f"{sharing.url}/shares"
        headers = {"Authorization": f"Bearer {known}"}
        assert connection.get(url, headers=headers).status_code == 200
        monkeypatch.setattr(SharedHome, "recipient_of", slow)
        strangers = [threads.submit(sharing.client("x" * 43).get, "/shares") for _ in range(9)]
        try:
            assert entered.acquire(timeout=30)
            sharing.calls._recent = RecentHolders()  # half a second later
            assert connection.get(url, headers=headers, timeout=10).status_code == 200
        finally:
            goes_on.set()
        assert {one.result().status_code for one in strangers} == {401}


@pytest.mark.long
def test_a_file_that_was_removed_to_make_room_is_written_again(filled: Sharing) -> None:
    client = filled.client(filled.token())
    address = address_in(client)
    content = HTTP.get(address).content
    prepared = filled.calls._files._prepared
    assert prepared is not None
    prepared._bytes_max = 1
    assert filled.client(filled.token("acme", "sums")).snapshot("sums")
    (left,) = prepared._folder.iterdir()
    assert left.name not in address
    assert HTTP.get(address).content == content


def test_a_damaged_file_is_unavailable_and_nothing_of_it_is_sent(filled: Sharing) -> None:
    client = filled.client(filled.token())
    for path in (filled.lines.home.storage / "big").iterdir():
        path.write_bytes(b"damaged")
    assert is_error(client.query("big"), 503)


BODIES = (
    b"", b"null", b"[]", b"{", b'"x"', b"1", b"{}" * 2, b"[" * 100_000, b"\xff\xfe", b"NaN",
    b'{"version": 1e400}', b'{"version": NaN}', b'{"limitHint": ' + b"9" * 5_000 + b"}",
    b'{"timestamp": "\\ud800"}', b'{"version": {"a": 1}}', b"x" * 2_000_000,
    b'{"predicateHints": [' + b"{}," * 10_000 + b"{}]}",
)  # fmt: skip


@pytest.mark.long
def test_wrong_bodies_and_headers_are_refused_in_a_sentence(filled: Sharing) -> None:
    client = filled.client(filled.token())
    for body in BODIES:
        answer = client.get(f"{path_of('big')}/query", "POST", content=body)
        assert body == b"" or answer.status_code in (400, 413), body
    packed = {"Content-Encoding": "gzip"}
    answer = client.get(f"{path_of('big')}/query", "POST", content=b"{}", headers=packed)
    assert is_error(answer, 400)
    for form in ("responseformat=iceberg", "responseformat=", "responseformat=é".encode()):
        headers = {"delta-sharing-capabilities": form}
        answer = client.get(f"{path_of('big')}/metadata", headers=headers)
        assert is_error(answer, 400)
    for form in (";;;", "x", "responseformat=delta,parquet;readerfeatures=a,b"):
        headers = {"delta-sharing-capabilities": form}
        answer = client.get(f"{path_of('big')}/metadata", headers=headers)
        assert answer.status_code == 200


def test_the_functions_of_the_catalog_defend_the_grants_themselves(
    filled: Sharing, exchange: Callable[[str], list[tuple[object, ...]]]
) -> None:
    issued = filled.token("acme", "big")
    number = issued.token_id
    assert exchange(f"SELECT medusa.shared_table({number}, 'big') IS NULL") == [(False,)]
    for statement in (
        f"SELECT medusa.shared_table({number}, 'sums') IS NULL",
        f"SELECT medusa.shared_segments({number}, 'sums', 1, 0) = '[]'",
        f"SELECT medusa.shared_changes({number}, 'sums', 0, 9) = '[]'",
        f"SELECT medusa.shared_versions({number}, 'sums', 0, 9, 9) = '[]'",
        f"SELECT medusa.shared_table({number + 1}, 'big') IS NULL",
        "SELECT medusa.shared_table(NULL, NULL) IS NULL",
        "SELECT medusa_market.recipient_of('x') IS NULL",
        f"SELECT NOT medusa_market.is_shared({number}, 'sums')",
    ):
        assert exchange(statement) == [(True,)], statement
    assert filled.recipients.revoke("acme")
    assert exchange(f"SELECT medusa.shared_table({number}, 'big') IS NULL") == [(True,)]
    assert exchange(f"SELECT medusa.shared_segments({number}, 'big', 1, 0) = '[]'") == [(True,)]


def test_a_grant_to_a_name_without_a_token_says_that_none_was_issued(
    filled: Sharing, capsys: pytest.CaptureFixture[str]
) -> None:
    filled.token("acme")
    for name, warning in (("acme", ""), ("acne", "no valid token of acne was issued yet: if ")):
        options = argparse.Namespace(recipient=name, stream="big", participant=None)
        assert recipient_grant.run(options, filled.lines.settings) == 0
        printed = capsys.readouterr()
        assert printed.out == f"{name} may {'now' if warning else 'already'} read big\n"
        assert printed.err.startswith(warning)
        assert bool(printed.err) == bool(warning)


def test_the_owner_is_refused_what_makes_no_sense(filled: Sharing) -> None:
    recipients = filled.recipients
    for call in (
        lambda: recipients.issue("Acme", DAY_MS),
        lambda: recipients.issue("*", DAY_MS),
        lambda: recipients.issue("acme", 0),
        lambda: recipients.issue("acme", 400 * DAY_MS),
        lambda: recipients.grant(a.StreamName("nothing"), "acme"),
        lambda: recipients.grant(BIG, "*"),
        lambda: recipients.grant(BIG, "a b"),
    ):
        with pytest.raises(Refused):
            call()
    for _ in range(16):
        recipients.issue("many", DAY_MS)
    with pytest.raises(Refused, match="revoke one first"):
        recipients.issue("many", DAY_MS)
    assert recipients.revoke("many") == 16
