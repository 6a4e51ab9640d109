"""What requests leave behind in a home: no lock, no transaction, and rows of a limited number."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import psycopg2
import pytest
from sqlalchemy import Engine, text

from medusa_core.errors import Refused
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, Version
from medusa_core.protocol.introductions import Introduction
from medusa_core.protocol.invitations import hash_of_secret
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.catalog.server.roles import role_name
from pipelines.exchange.notification_listener import CHANNEL
from pipelines.exchange.server import application
from pipelines.exchange.server.application import ExchangeServer
from pipelines.exchange.server.home_progress import HomeProgress
from pipelines.exchange.server.openapi import openapi_document
from pipelines.exchange.server.partner_budgets import ServerLimits
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of
from tests.exchange.drawn_requests import calls_of, conforms, names_inside
from tests.exchange.guarded_home import an_envelope, assertion_of
from tests.exchange.published_home import ALPHA, BETA, GAMMA, ROWS, KeyIdentity
from tests.exchange.served import LIMITS, POST, connected, served, token_of
from tests.waiting import until


@pytest.fixture(scope="module")
def watcher(postgres_server: EmbeddedServer, urls: HomeUrls) -> Iterator[Engine]:
    """A superuser on the home."""
    with watcher_of(postgres_server.superuser_url(urls.database)) as engine:
        yield engine


def run(watcher: Engine, statement: str, **values: object) -> list[Any]:
    with watcher.connect() as connection:
        answer = connection.execute(text(statement), values)
        return list(answer.scalars()) if answer.returns_rows else []


SESSIONS = "FROM pg_stat_activity AS a WHERE a.usename = :role"


def test_requests_that_wait_or_are_broken_off_hold_no_lock_and_no_transaction(
    home: ExchangeHome, storage: Path, urls: HomeUrls, watcher: Engine
) -> None:
    role = role_name(urls.database, "exchange")
    limits = replace(LIMITS, connections_max=64, anonymous_connections_max=64)
    with served(home, storage, urls.exchange, limits=limits) as server, ExitStack() as stack:
        bearer = f"Authorization: Bearer {token_of(server, home)}\r\n"
        known = httpx.get(
            f"{server.url}/v1/progress", trust_env=False, timeout=60,
            headers=dict([bearer.strip().split(": ")]),
        ).headers["etag"].strip('"')  # fmt: skip
        requests = [
            f"GET /v1/progress?wait_ms=30000&known={known} HTTP/1.1\r\nHost: a\r\n{bearer}\r\n",
            f"GET /v1/files/{sha256(ROWS).hexdigest()} HTTP/1.1\r\nHost: a\r\n{bearer}\r\n",
            f"POST /v1/envelopes HTTP/1.1\r\nHost: a\r\n{bearer}Content-Length: 9\r\n\r\n{{",
            f"POST /v1/acknowledgements HTTP/1.1\r\nHost: a\r\n{bearer}Content-Length: 9\r\n\r\n",
            POST.decode() + "Content-Length: 9\r\n\r\n",
        ]
        for at, request in enumerate(requests * 4):
            connection = connected(server)
            connection.sendall(request.encode())
            if at % 2:
                connection.close()
            else:
                stack.enter_context(closing(connection))

        def is_free() -> bool:
            (busy,) = run(watcher, f"SELECT count(*) {SESSIONS} AND (a.xact_start IS NOT NULL "
                          "OR a.state <> 'idle' AND a.state IS NOT NULL)", role=role)  # fmt: skip
            (locks,) = run(watcher, "SELECT count(*) FROM pg_locks AS l WHERE l.pid IN "
                           f"(SELECT a.pid {SESSIONS})", role=role)  # fmt: skip
            return bool(busy == locks == 0)

        until(is_free, "no request holds anything", 60)
        (sessions,) = run(watcher, f"SELECT count(*) {SESSIONS}", role=role)
        assert sessions <= 16
        assert run(watcher, "SELECT pg_notification_queue_usage()") == [0]


def test_only_what_is_new_wakes_those_who_wait(home: ExchangeHome, urls: HomeUrls) -> None:
    with closing(psycopg2.connect(urls.owner.replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}")
            one = an_envelope(BETA)

            def notified(*envelopes: Any) -> int:
                connection.poll()
                connection.notifies.clear()
                home.deliver(BETA, envelopes)
                cursor.execute("SELECT 1")
                connection.poll()
                return len(connection.notifies)

            assert notified(one, an_envelope(BETA)) == 1
            assert [notified(), notified(one), notified(one, one)] == [0, 0, 0]


@pytest.mark.long
def test_partners_that_fill_their_part_of_the_inbox_leave_room_for_others(
    home: ExchangeHome, watcher: Engine
) -> None:
    hostile = [Participant(f"hostile_{n}") for n in range(10)]
    for name in hostile:
        key = sha256(name.encode()).hexdigest()
        run(watcher, "SELECT medusa_api.learn_key(:name, :key)", name=name, key=key)
    for name in hostile:
        answers = [
            answer for _ in range(5)
            for answer in home.deliver(name, [an_envelope(name) for _ in range(64)])
        ]  # fmt: skip
        assert answers == ["taken"] * 256 + ["full: send it again later"] * 64
    assert home.deliver(GAMMA, [an_envelope(GAMMA)]) == ("taken",)
    run(watcher, "DELETE FROM medusa_market.inbox WHERE sender LIKE 'hostile%'")


def counted(watcher: Engine, subject: str) -> list[int]:
    """Lines of the audit about a partner, and its keys."""
    return [
        *run(watcher, "SELECT count(*) FROM medusa_market.audit WHERE subject = :of", of=subject),
        *run(watcher, "SELECT count(*) FROM medusa_market.party_key WHERE participant = :of",
             of=subject),
    ]  # fmt: skip


def introduced(partner: Participant, n: int, key: bytes) -> Introduction:
    url = f"https://{n}.example"
    return Introduction(participant=partner, public_key=key, url=url, pin=None)


@pytest.mark.long(quick=True)
def test_a_partner_that_moves_and_joins_again_and_again_leaves_a_limited_number_of_rows(
    home: ExchangeHome, watcher: Engine
) -> None:
    """Nothing of it needs a new assertion, so that no limit of tokens counts."""
    partner = Participant("mover")
    key, secret_hash = sha256(b"0").digest(), hash_of_secret("s" * 43)
    run(watcher, "SELECT medusa_api.invite_partner('mover', :hash, now() + interval '1 hour')",
        hash=secret_hash.hex())  # fmt: skip
    for n in range(64):
        home.join_partner(secret_hash, introduced(partner, n, key))
    with pytest.raises(Refused, match="has joined or moved 64 times within a day"):
        home.join_partner(secret_hash, introduced(partner, 64, key))
    for n in range(40):
        home.note_introduction(key, introduced(partner, -n, key))
    lines, keys = counted(watcher, partner)
    assert (lines, keys) == (64 + 2, 1), "64 times joined, invited, and one key"
    for n in range(40):
        next_key = sha256(str(n + 1).encode()).digest()
        home.note_introduction(key, introduced(partner, 0, next_key))
        if home.partner_keys(partner)[0] == next_key:
            key = next_key
    lines, keys = counted(watcher, partner)
    assert (lines, keys) == (64 + 2 + 16, 1 + 16)


class Witness(bytearray):
    """A document whose end can be seen."""


def test_a_request_that_waits_holds_no_news_in_memory(
    home: ExchangeHome, storage: Path, urls: HomeUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[weakref.ref[Witness]] = []
    real = application.write_news

    def witnessed(news: LineNews) -> Witness:
        content = Witness(real(news))
        written.append(weakref.ref(content))
        return content

    monkeypatch.setattr(application, "write_news", witnessed)
    current = home.published_news(BETA, a.SUMS, 0, Version(0), segments_max=1_024)
    assert current is not None
    progress = HomeProgress(urls.exchange)
    server = ExchangeServer(home, storage, KeyIdentity(ALPHA), "0", progress)
    token = f"Bearer {server._tokens.issue(assertion_of(BETA, home)).token}"

    async def wait() -> None:
        transport = httpx.ASGITransport(server.application)
        async with httpx.AsyncClient(transport=transport, base_url="https://alpha") as client:
            query: dict[str, str | int] = {
                "stream": "sums", "after": 0, "wait_ms": 30_000, "known": current.key,
            }  # fmt: skip
            headers = {"Authorization": token}
            waiting = asyncio.create_task(client.get("/v1/news", params=query, headers=headers))
            while not written or any(one() is not None for one in written):
                await asyncio.sleep(0.01)
                assert not waiting.done()
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting

    async def in_time() -> None:
        async with asyncio.timeout(60):
            await wait()

    asyncio.run(in_time())


@contextmanager
def nobody_logs_in(watcher: Engine, role: str) -> Iterator[None]:
    run(watcher, f"ALTER ROLE {role} NOLOGIN")
    try:
        run(watcher, f"SELECT pg_terminate_backend(a.pid) {SESSIONS}", role=role)
        yield
    finally:
        run(watcher, f"ALTER ROLE {role} LOGIN")


@pytest.mark.long(quick=True)
def test_while_the_catalog_is_away_no_answer_says_what_is_inside(
    home: ExchangeHome, storage: Path, urls: HomeUrls, watcher: Engine,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    role, document = role_name(urls.database, "exchange"), openapi_document(ServerLimits())
    with served(home, storage, urls.exchange, limits=LIMITS) as server:
        token = token_of(server, home)
        form = {"grant_type": "client_credentials",
                "client_assertion_type":
                "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "client_assertion": assertion_of(BETA, home)}  # fmt: skip
        statuses = set()
        with nobody_logs_in(watcher, role):
            for call in calls_of(document):
                path = call.path.replace("{sha256}", sha256(ROWS).hexdigest())
                for bearer in ({"Authorization": f"Bearer {token}"}, {}):
                    answer = httpx.request(
                        call.method, f"{server.url}{path}", headers=bearer, trust_env=False,
                        params={"stream": "sums", "after": 0}, timeout=60,
                        data=form if "token" in path else None,
                        content=None if "token" in path else b"{}",
                    )  # fmt: skip
                    wrong = conforms(
                        call, answer.status_code, answer.headers, answer.content, document
                    )
                    assert not wrong, f"{call.path}: {wrong}"
                    statuses.add(answer.status_code)
                    inside = ("psycopg", "127.0.0.1", "FATAL", role, urls.database, "migrate")
                    assert not names_inside([answer.content], inside), answer.text
        assert statuses >= {503, 401}
        until(
            lambda: httpx.get(
                f"{server.url}/v1/health", headers={"Authorization": f"Bearer {token}"},
                trust_env=False, timeout=60,
            ).status_code == 200,
            "the home is reached again", 60,
        )  # fmt: skip
    assert not caplog.records
