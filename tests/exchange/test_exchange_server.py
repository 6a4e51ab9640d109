"""The calls of the exchange server: what a partner may, and that nobody else learns of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import httpx
import psycopg2
import pytest

from medusa_core.names import Participant, Version
from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.news_documents import read_news
from medusa_core.protocol.problems import read_problem
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.server.application import ExchangeServer
from pipelines.exchange.server.home_progress import HomeProgress
from pipelines.exchange.server.partner_budgets import ServerLimits
from tests.catalog import building as a
from tests.exchange.published_home import (
    ALPHA,
    BETA,
    CANARY,
    GAMMA,
    ROWS,
    KeyIdentity,
    form_for,
    stored,
    write,
)
from tests.sweeps import long_but

LIMITS = ServerLimits(body_s_max=0.3, requests_max=8)

Test = Callable[[httpx.AsyncClient], Awaitable[None]]


def serving(
    home: ExchangeHome, storage: Path, url: str, test: Test, limits: ServerLimits = LIMITS
) -> None:
    """Run a test against the server, without a network."""
    progress = HomeProgress(url)
    server = ExchangeServer(home, storage, KeyIdentity(ALPHA), "0.1.0", progress, limits)

    async def run() -> None:
        transport = httpx.ASGITransport(server.application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="https://alpha") as client:
            await test(client)

    with progress.listening():
        asyncio.run(run())


Serve = Callable[[Test], None]


@pytest.fixture
def serve(home: ExchangeHome, storage: Path, urls: HomeUrls) -> Serve:
    return lambda test: serving(home, storage, urls.exchange, test)


async def log_in(client: httpx.AsyncClient, home: ExchangeHome, who: Participant = BETA) -> None:
    """Send the token of a partner with each request from now on."""
    answer = await client.post("/v1/token", data=form_for(home, who))
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    client.headers["Authorization"] = f"Bearer {calls.read_token(answer.content).token}"


def test_a_partner_reads_news_and_the_files_that_it_names(
    serve: Serve, home: ExchangeHome, urls: HomeUrls
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        answer = await client.get("/v1/news", params={"stream": "sums", "after": 0})
        assert answer.status_code == 200, answer.text
        assert answer.headers["server-timing"].startswith("inside;dur=")
        news = read_news(answer.content)
        expected = home.published_news(BETA, a.SUMS, 0, Version(0), segments_max=10)
        assert expected is not None
        assert news.key == expected.key
        (segment,) = news.segments
        (file,) = segment.segment.files
        assert "sums.parquet" not in answer.text, "a path is no partner's business"
        content = await client.get(f"/v1/files/{file.sha256}")
        assert content.content == ROWS
        assert content.headers["etag"] == f'"{file.sha256}"'

    serve(test)


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    long_but(
        4,
        [
            ("bytes=0-9", 206, slice(0, 10)),
            ("bytes=300000-", 206, slice(300_000, None)),
            ("bytes=699999-800000", 206, slice(699_999, None)),
            ("bytes=5-4", 200, slice(None)),
            ("bytes=0-1,5-6", 200, slice(None)),
            ("bytes=-5", 200, slice(None)),
            ("lines=0-5", 200, slice(None)),
            ("bytes=700000-", 416, slice(0, 0)),
        ],
        quick=True,
    ),
)
def test_a_file_is_resumed_by_a_range(
    serve: Serve, home: ExchangeHome, asked: str, status: int, part: slice
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        url = f"/v1/files/{sha256(ROWS).hexdigest()}"
        answer = await client.get(url, headers={"Range": asked})
        assert (answer.status_code, answer.content) == (status, ROWS[part])
        assert int(answer.headers["content-length"]) == len(ROWS[part])

    serve(test)


PLACES = (
    "/v1/news?stream=big&after=0",
    "/v1/news?stream=src&after=0",
    "/v1/news?stream=none&after=0",
    "/v1/news?stream=sums&after=0&replica=1",
    "/v1/news?stream=sums&after=0&replica=-1",
    f"/v1/files/{sha256(CANARY).hexdigest()}",
    f"/v1/files/{'0' * 64}",
    "/v1/files/..%2f..%2fetc%2fpasswd",
    "/v1/files/big.parquet",
    "/v1/",
    "/v2/news",
    "/",
    "/docs",
    "/openapi.json",
)


def test_what_is_not_granted_and_what_does_not_exist_have_one_answer(
    serve: Serve, home: ExchangeHome
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        answers = [await client.get(place) for place in PLACES]
        body = calls.write_acknowledgement(
            calls.Acknowledgement(
                stream=a.BIG, replica=0, version=Version(0), through_us=0, limit_ms=1, path_ms=0
            )
        )
        answers.append(await client.post("/v1/acknowledgements", content=body))
        answers.append(await client.delete("/v1/news"))
        assert {answer.status_code for answer in answers} == {404}
        assert len({answer.content for answer in answers}) == 1
        assert len({tuple(sorted(answer.headers.keys() - {"server-timing"}))
                    for answer in answers}) == 1  # fmt: skip

    serve(test)


@pytest.mark.parametrize("place", ["/v1/streams", "/v1/progress",
                                   "/v1/news?stream=sums&after=0", "/v1/health",
                                   f"/v1/files/{sha256(ROWS).hexdigest()}"])  # fmt: skip
@pytest.mark.parametrize(
    "header", long_but(2, ["", "Bearer " + "x" * 43, "Bearer x", "Basic YWxwaGE6"], quick=True)
)
def test_without_a_valid_token_nothing_is_answered(serve: Serve, place: str, header: str) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        answer = await client.get(place, headers={"Authorization": header} if header else {})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "no valid access token" in str(read_problem(answer.content, 401, "alpha"))

    serve(test)


def test_each_partner_sees_its_own_streams(serve: Serve, home: ExchangeHome) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        for who, expected in ((BETA, [a.SUMS]), (GAMMA, [])):
            await log_in(client, home, who)
            offered = calls.read_offers((await client.get("/v1/streams")).content)
            assert (offered[0], [one.name for one in offered[1]]) == (ALPHA, expected)

    serve(test)


def test_an_acknowledgement_and_the_health_of_the_home(serve: Serve, home: ExchangeHome) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        body = calls.write_acknowledgement(
            calls.Acknowledgement(
                stream=a.SUMS,
                replica=0,
                version=Version(0),
                through_us=0,
                limit_ms=1_000,
                path_ms=0,
            )
        )
        assert (await client.post("/v1/acknowledgements", content=body)).status_code == 204
        health = calls.read_health((await client.get("/v1/health")).content)
        assert (health.participant, health.version) == (ALPHA, "0.1.0")

    serve(test)


def test_an_acknowledgement_counts_for_the_partner_of_the_token_whatever_name_it_has(
    serve: Serve, home: ExchangeHome, urls: HomeUrls
) -> None:
    """Acknowledged in another reader's name, that one would lose what is trimmed behind it."""
    names = ["gamma", "alpha", *(f"invented_{n}" for n in range(50))]
    claims = ("reader", "partner", "holder", "participant", "iss")
    body = {
        "stream": "sums",
        "replica": 0,
        "version": 0,
        "through_us": 0,
        "limit_ms": 60_000,
        "path_ms": 0,
    }
    path = "/v1/acknowledgements"

    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        for name in names:
            headers = {f"X-{claim}": name for claim in claims}
            assert (await client.post(path, json=body, headers=headers)).status_code == 204
        for claim in claims:
            for wrong in (
                await client.post(path, json={**body, claim: "gamma"}),
                await client.post(path, json=body, params={claim: "gamma"}),
            ):
                assert wrong.status_code in (204, 400)
        del client.headers["Authorization"]
        assert (await client.post(path, json=body)).status_code == 401

    serve(test)
    login = psycopg2.connect(urls.owner.replace("+psycopg2", ""))
    with closing(login), login.cursor() as cursor:
        cursor.execute("SELECT holder FROM medusa_api.holds WHERE purpose = 'import'")
        assert cursor.fetchall() == [("beta",)]


def test_a_request_that_waits_is_answered_by_the_next_commit(
    serve: Serve, home: ExchangeHome, urls: HomeUrls, storage: Path
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        now = await client.get("/v1/news", params={"stream": "sums", "after": 0})
        version = read_news(now.content).version
        query: dict[str, str | int] = {"stream": "sums", "after": version}
        known = (await client.get("/v1/news", params=query)).headers["etag"].strip('"')
        query |= {"wait_ms": 30_000, "known": known}
        waiting = asyncio.create_task(client.get("/v1/news", params=query))
        for _ in range(3):  # it does not answer by itself
            await client.get("/v1/health")
        assert not waiting.done()
        with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
            at = version
            await asyncio.to_thread(
                write, catalog, a.MAIN, at, stored(storage, f"{at}.parquet", b"later")
            )
        answer = await asyncio.wait_for(waiting, 25)
        assert read_news(answer.content).version > version

    serve(test)


def test_one_request_waits_for_whatever_happens_to_a_partners_lines(
    serve: Serve, home: ExchangeHome, urls: HomeUrls, storage: Path
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home, GAMMA)
        assert calls.read_progress((await client.get("/v1/progress")).content) == ()
        await log_in(client, home)
        first = await client.get("/v1/progress")
        (line,) = calls.read_progress(first.content)
        assert (line.stream, line.replica) == (a.SUMS, 0)
        query: dict[str, str | int] = {"known": first.headers["etag"].strip('"'), "wait_ms": 50}
        assert (await client.get("/v1/progress", params=query)).content == first.content
        waiting = asyncio.create_task(
            client.get("/v1/progress", params={**query, "wait_ms": 30_000})
        )
        await client.get("/v1/health")
        assert not waiting.done()
        at = home.published_news(BETA, a.SUMS, 0, Version(0), segments_max=100)
        assert at is not None
        with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
            file = stored(storage, f"{at.version}.parquet", b"later")
            await asyncio.to_thread(write, catalog, a.MAIN, at.version, file)
        (later,) = calls.read_progress((await asyncio.wait_for(waiting, 25)).content)
        assert later.mark != line.mark

    serve(test)


def test_a_request_that_waits_for_nothing_is_answered_with_the_same(
    serve: Serve, home: ExchangeHome
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        first = await client.get("/v1/news?stream=sums&after=0")
        known = first.headers["etag"].strip('"')
        again = await client.get(f"/v1/news?stream=sums&after=0&wait_ms=50&known={known}")
        assert again.headers["etag"] == first.headers["etag"]

    serve(test)


WRONG = (
    ("GET", "/v1/news?stream=sums", b"", 400),
    ("GET", "/v1/news?stream=sums&after=x", b"", 400),
    ("GET", "/v1/news?stream=sums&after=0&after=1", b"", 400),
    ("GET", "/v1/news?stream=sums&after=-1", b"", 400),
    ("GET", "/v1/news?stream=sums&after=9223372036854775808", b"", 400),
    ("GET", "/v1/news?stream=sums&after=0&replica=99999999999", b"", 400),
    ("GET", "/v1/news?stream=sums&after=0&segments_max=0", b"", 400),
    ("GET", "/v1/news?stream=sums&after=0&wait_ms=9999999", b"", 400),
    ("GET", "/v1/news?stream=sums&after=999", b"", 422),
    ("GET", "/v1/news?after=0", b"", 400),
    ("GET", "/v1/progress?wait_ms=x", b"", 400),
    ("GET", "/v1/progress?wait_ms=99999999", b"", 400),
    ("GET", "/v1/news?stream=%00&after=0", b"", 404),
    ("GET", "/v1/news?stream=%ff%ed%a0%80&after=0", b"", 404),
    ("GET", "/v1/files/%00", b"", 404),
    ("POST", "/v1/acknowledgements", b"", 400),
    ("POST", "/v1/acknowledgements", b"[" * 1_000, 400),
    ("POST", "/v1/acknowledgements", b" " * 70_000, 413),
    ("POST", "/v1/envelopes", b'{"envelopes":[1]}', 400),
    ("POST", "/v1/token", b"", 400),
    ("POST", "/v1/token", b"x" * 70_000, 413),
)


@pytest.mark.parametrize(("method", "place", "body", "status"), long_but(6, WRONG, quick=True))
def test_a_wrong_request_is_refused_in_one_sentence(
    serve: Serve, home: ExchangeHome, method: str, place: str, body: bytes, status: int
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        answer = await client.request(method, place, content=body)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        sentence = str(read_problem(answer.content, status, "alpha"))
        assert sentence.isprintable()
        assert "without a reason" not in sentence

    serve(test)


@pytest.mark.parametrize("change", ["grant_type", "client_assertion_type", "client_assertion"])
def test_a_token_request_of_another_form_is_refused(
    serve: Serve, home: ExchangeHome, change: str
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        for value in ("", "password", "%00&x"):
            form = {**form_for(home, BETA), change: value}
            answer = await client.post("/v1/token", data=form)
            assert answer.status_code == 400
        as_json = json.dumps(form_for(home, BETA))
        assert (await client.post("/v1/token", content=as_json)).status_code == 400

    serve(test)


def test_a_body_that_is_compressed_or_never_ends_is_refused(
    serve: Serve, home: ExchangeHome
) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        packed = await client.post(
            "/v1/envelopes", content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}
        )
        assert packed.status_code == 400
        assert "content encoding" in packed.text
        endless = await client.post("/v1/envelopes", content=slow())
        assert endless.status_code == 503
        assert "did not arrive in 0.3 s" in endless.text

    serve(test)


def test_a_partner_that_floods_uses_up_its_own_budget(
    serve: Serve, home: ExchangeHome, urls: HomeUrls, storage: Path
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        now = await client.get("/v1/news?stream=sums&after=0")
        known, at = now.headers["etag"].strip('"'), read_news(now.content).version
        place = f"/v1/news?stream=sums&after=0&wait_ms=30000&known={known}"
        flood = [asyncio.create_task(client.get(place)) for _ in range(20)]
        refused: set[asyncio.Task[httpx.Response]] = set()
        while len(refused) < 20 - LIMITS.requests_max:
            done, _ = await asyncio.wait({*flood} - refused, return_when=asyncio.FIRST_COMPLETED)
            refused |= done
        assert {task.result().status_code for task in refused} == {429}
        # Those that were let in wait until there is something new.
        with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
            file = stored(storage, f"{at}.parquet", b"later")
            await asyncio.to_thread(write, catalog, a.MAIN, at, file)
        waited = [(await task).status_code for task in flood if task not in refused]
        assert waited == [200] * LIMITS.requests_max
        assert (await client.get("/v1/health")).status_code == 200
        await log_in(client, home, GAMMA)
        assert (await client.get("/v1/health")).status_code == 200

    serve(test)


def test_large_bodies_of_one_partner_are_read_one_at_a_time_and_those_of_another_meanwhile(
    home: ExchangeHome, storage: Path, urls: HomeUrls
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        read: list[str] = []
        may_end = asyncio.Event()

        async def body(name: str) -> AsyncIterator[bytes]:
            read.append(name)
            yield b'{"envelopes":'
            await may_end.wait()
            read.append(f"{name} ends")
            yield b"[]}"

        async def send(name: str) -> int:
            return (await client.post("/v1/envelopes", content=body(name))).status_code

        async def until_read(names: list[str]) -> None:
            async with asyncio.timeout(30):
                while read != names:
                    assert (await client.get("/v1/health")).status_code == 200

        await log_in(client, home)
        first = asyncio.create_task(send("first"))
        await until_read(["first"])
        second = asyncio.create_task(send("second"))
        for _ in range(3):  # each gives the second request its turns
            assert (await client.get("/v1/health")).status_code == 200
        await log_in(client, home, GAMMA)
        other = asyncio.create_task(send("other"))
        await until_read(["first", "other"])
        may_end.set()
        assert [await task for task in (first, second, other)] == [200] * 3
        assert read.index("first ends") < read.index("second")

    serving(home, storage, urls.exchange, test, replace(LIMITS, body_s_max=60))


def test_a_damaged_file_is_unavailable(serve: Serve, home: ExchangeHome, storage: Path) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        await log_in(client, home)
        (storage / "sums.parquet").rename(storage / "away")
        try:
            answer = await client.get(f"/v1/files/{sha256(ROWS).hexdigest()}")
            assert answer.status_code == 503
            assert "sums.parquet" not in answer.text
            assert str(storage) not in answer.text
        finally:
            (storage / "away").rename(storage / "sums.parquet")

    serve(test)
