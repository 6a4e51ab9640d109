"""Clients that misbehave cost an exchange server their own connections and budgets."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest

from medusa_core.names import Participant
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.catalog.server.role_bounds import CONNECTIONS_MAX
from pipelines.exchange.server.https_server import HttpsServer
from pipelines.exchange.server.partner_budgets import PartnerBudgets, ServerLimits
from pipelines.exchange.server_certificates import (
    pin_of_file,
)
from pipelines.sharing.recipient_limits import SharingLimits
from tests.catalog import building as a
from tests.exchange.published_home import ALPHA, GAMMA, stored, write
from tests.exchange.served import (
    LIMITS,
    POST,
    START,
    SUMS_FILE,
    address_of,
    asking,
    connected,
    is_answered,
    is_closed,
    served,
    token_of,
    until_closed,
)
from tests.sweeps import long_but
from tests.waiting import until

INVALID = {
    "nothing": b"",
    "half a line": b"GET /v1/hea",
    "half a header": START + b"A: ",
    "a large header": START + b"A: " + b"x" * 100_000,
    "TLS": b"\x16\x03\x01",
    "zeros": b"\0" * 100,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "a length and chunks": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n",
    "another encoding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
}


@pytest.mark.parametrize("sent", long_but(3, INVALID.values(), quick=True), ids=list(INVALID))
def test_a_request_that_is_not_complete_or_not_valid_ends_its_connection(
    hasty: HttpsServer, sent: bytes
) -> None:
    with closing(connected(hasty)) as connection:
        with suppress(ConnectionError):  # closed while it was being sent
            connection.sendall(sent)
        assert is_closed(connection)


@pytest.mark.long(quick=True)
def test_a_flood_of_connections_ends_the_oldest_of_nobody_and_no_partners(
    server: HttpsServer, tls_server: HttpsServer, home: ExchangeHome, certificate: Path
) -> None:
    for attacked, pin in ((server, None), (tls_server, pin_of_file(certificate))):
        with asking(address_of(attacked.url, pin)) as exchange, ExitStack() as stack:
            exchange.health(ALPHA)
            flood = [stack.enter_context(closing(connected(attacked))) for _ in range(60)]
            assert exchange.health(ALPHA).participant == ALPHA
            counted = attacked.connections.anonymous
            assert counted <= LIMITS.anonymous_connections_max
            for one in flood[: -LIMITS.anonymous_connections_max]:
                assert is_closed(one)
            assert exchange.health(ALPHA).participant == ALPHA


def test_tokens_that_are_tried_and_bodies_that_never_come_hold_up_no_partner(
    server: HttpsServer,
) -> None:
    ends = threading.Event()
    tries = START + b"Authorization: Bearer " + b"x" * 43 + b"\r\n\r\n"
    never = POST + b"Content-Length: 9\r\n\r\n"

    def attack(request: bytes) -> None:
        while not ends.is_set():
            with suppress(OSError), closing(connected(server)) as connection:
                connection.settimeout(1)
                connection.sendall(request)
                connection.recv(65_536)

    with asking(address_of(server.url)) as exchange, ThreadPoolExecutor(20) as threads:
        exchange.health(ALPHA)
        for _ in range(10):
            threads.submit(attack, tries)
            threads.submit(attack, never)
        try:
            for _ in range(25):
                assert exchange.health(ALPHA).participant == ALPHA
        finally:
            ends.set()


def test_a_body_of_a_request_for_a_token_is_waited_for_in_a_limited_time(
    home: ExchangeHome, storage: Path, urls: HomeUrls
) -> None:
    limits = replace(LIMITS, token_s_max=0.2)
    with (
        served(home, storage, urls.exchange, limits=limits) as server,
        closing(connected(server)) as connection,
    ):
        connection.sendall(POST + b"Content-Length: 9\r\n\r\n")
        answer = HTTPResponse(connection)
        answer.begin()
        assert answer.status == 503
        assert b"the body did not arrive in 0.2 s" in answer.read()


def narrow(server: HttpsServer) -> socket.socket:
    """A connection on which the system takes nearly nothing that the client does not read."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    opened.settimeout(30)
    opened.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
    return opened


def test_an_answer_that_is_not_taken_in_time_ends_its_connection(
    server: HttpsServer, home: ExchangeHome, storage: Path, urls: HomeUrls
) -> None:
    file = stored(storage, "not_taken.parquet", random.Random(8).randbytes(20_000_000))
    with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
        write(catalog, a.MAIN, 3, file)
    request = f"GET /v1/files/{file.sha256} HTTP/1.1\r\nHost: a\r\n"
    request += f"Authorization: Bearer {token_of(server, home)}\r\n\r\n"
    limits = replace(LIMITS, request_s_max=1.0, connections_max=1)
    with (
        served(home, storage, urls.exchange, limits=limits) as short,
        closing(narrow(short)) as connection,
        asking(address_of(short.url)) as exchange,
    ):
        connection.sendall(request.encode())
        begun = connection.recv(12)
        # Nothing where this machine paused for longer than the request may take.
        assert begun in (b"HTTP/1.1 200", b"")
        until(lambda: is_answered(exchange), "its only connection is given back", 60)
        assert len(begun) + len(until_closed(connection)) < file.size_bytes


@pytest.mark.long(quick=True)
def test_a_client_that_leaves_while_it_waits_gives_its_request_back(
    home: ExchangeHome, storage: Path, urls: HomeUrls
) -> None:
    limits = ServerLimits(requests_max=3)
    with served(home, storage, urls.exchange, limits=limits) as server:
        token = token_of(server, home)
        with asking(address_of(server.url)) as exchange:
            key, _ = exchange.progress(ALPHA)
            request = f"GET /v1/progress?wait_ms=30000&known={key} HTTP/1.1\r\nHost: a\r\n"
            request += f"Authorization: Bearer {token}\r\n\r\n"
            for _ in range(6):
                with closing(connected(server)) as connection:
                    connection.sendall(request.encode())
            until(lambda: is_answered(exchange), "the requests have ended", 20)


def test_clients_that_leave_before_they_are_known_do_not_count_for_their_partner(
    home: ExchangeHome, storage: Path, urls: HomeUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ServerLimits(connections_max=3)
    with served(home, storage, urls.exchange, limits=limits) as server:
        token = token_of(server, home)
        real, entered, goes_on = home.token_holder, threading.Semaphore(0), threading.Event()

        def slow(token_hash: bytes) -> Participant | None:
            entered.release()
            assert goes_on.wait(120)
            return real(token_hash)

        monkeypatch.setattr(home, "token_holder", slow)
        request = START + f"Authorization: Bearer {token}\r\n\r\n".encode()
        for _ in range(3):
            with closing(connected(server)) as connection:
                connection.sendall(request)
                assert entered.acquire(timeout=30)
        until(lambda: server.connections.anonymous == 0, "they have left")
        goes_on.set()
        monkeypatch.undo()
        with asking(address_of(server.url)) as exchange:
            assert exchange.health(ALPHA).participant == ALPHA


@pytest.mark.long(quick=True)
def test_a_file_that_becomes_shorter_while_it_is_sent_ends_its_connection(
    home: ExchangeHome, storage: Path, urls: HomeUrls, caplog: pytest.LogCaptureFixture
) -> None:
    file = stored(storage, "shrinks.parquet", random.Random(6).randbytes(20_000_000))
    with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
        write(catalog, a.MAIN, 2, file)
    with served(home, storage, urls.exchange) as server, closing(connected(server)) as connection:
        head = f"GET /v1/files/{file.sha256} HTTP/1.1\r\nHost: a\r\n"
        head += f"Authorization: Bearer {token_of(server, home)}\r\n\r\n"
        connection.sendall(head.encode())
        received = len(connection.recv(10_000))
        os.truncate(storage / "shrinks.parquet", 9_000_000)
        received += len(until_closed(connection))
        assert received < file.size_bytes
    assert not caplog.records


@pytest.mark.parametrize("pause", [False, True])
def test_a_body_that_is_not_valid_ends_its_connection_and_is_no_fault(
    server: HttpsServer, pause: bool, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with closing(connected(server)) as connection:
        connection.sendall(head if pause else head + b"ZZ\r\n")
        if pause:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 404 ")
            connection.sendall(b"ZZ\r\n")
        until_closed(connection)
    assert not caplog.records


def test_four_partners_with_slow_calls_leave_a_fifth_an_answer(urls: HomeUrls) -> None:
    limits = ServerLimits()
    goes_on = threading.Event()
    connections_max = limits.catalog_connections_max
    with closing(ExchangeHome(urls.exchange, ALPHA, connections_max=connections_max)) as home:

        def slow() -> None:
            with home.engine.connect():
                assert goes_on.wait(120)

        async def clock_of_fifth() -> int:
            budgets = PartnerBudgets(limits)
            slow_calls = [
                asyncio.create_task(budgets.call(Participant(name), slow))
                for name in ("one", "two", "three", "four")
                for _ in range(limits.calls_max)
            ]
            await asyncio.sleep(0)  # each of them has begun
            try:
                return await asyncio.wait_for(
                    budgets.call(Participant("five"), home.read_clock_ms), 10
                )
            finally:
                goes_on.set()
                await asyncio.gather(*slow_calls)

        assert asyncio.run(clock_of_fifth()) > 0


def test_a_partner_whose_calls_have_ended_waits_for_no_further_call_of_others() -> None:
    ends = {name: threading.Event() for name in ("other", "first", "second")}

    async def calls() -> None:
        budgets = PartnerBudgets(ServerLimits(threads_max=4))
        others, partner = Participant("others"), Participant("partner")
        slow = [
            asyncio.create_task(budgets.call(others, ends["other"].wait, 120)) for _ in range(4)
        ]
        first, second = (
            asyncio.create_task(budgets.call(partner, ends[name].wait, 120))
            for name in ("first", "second")
        )
        try:
            ends["first"].set()
            assert await asyncio.wait_for(first, 10)
            ends["second"].set()
            assert await asyncio.wait_for(second, 10)
        finally:
            for end in ends.values():
                end.set()
            await asyncio.gather(*slow, second)

    asyncio.run(calls())


def test_the_login_of_the_server_may_have_all_connections_that_its_parts_use() -> None:
    parts = (ServerLimits(), SharingLimits().server)
    connections = sum(limits.catalog_connections_max for limits in parts) + 1  # one listens
    assert connections <= CONNECTIONS_MAX["exchange"]


def test_a_head_request_is_no_call(server: HttpsServer, home: ExchangeHome) -> None:
    url = f"{server.url}/v1/files/{SUMS_FILE.sha256}"
    headers = {"Authorization": f"Bearer {token_of(server, home)}"}
    answer = httpx.head(url, headers=headers, trust_env=False, timeout=60)
    assert answer.status_code == 404


def test_a_partner_has_a_number_of_connections(server: HttpsServer, home: ExchangeHome) -> None:
    token = token_of(server, home)
    request = f"GET /v1/health HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    with ExitStack() as stack:
        answers = []
        for _ in range(LIMITS.connections_max + 2):
            one = stack.enter_context(closing(connected(server)))
            one.sendall(request.encode())
            answers.append(one.recv(65_536).split()[1])
        assert answers == [b"200"] * LIMITS.connections_max + [b"429"] * 2


@pytest.mark.long(quick=True)
def test_a_partner_that_does_not_read_its_answers_costs_its_own_memory(
    home: ExchangeHome, storage: Path, urls: HomeUrls
) -> None:
    file = stored(storage, "large.parquet", random.Random(5).randbytes(20_000_000))
    with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
        write(catalog, a.MAIN, 1, file)
    limits = ServerLimits(memory_bytes_max=2_000_000)
    with served(home, storage, urls.exchange, limits=limits) as server:
        token = token_of(server, home)
        path = f"/v1/files/{file.sha256}"
        request = f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
        with ExitStack() as stack:
            answers = []
            for _ in range(8):
                one = stack.enter_context(closing(narrow(server)))
                one.sendall(request.encode())
                answers.append(one.recv(12).split()[1])
            assert set(answers) == {b"200", b"429"}
            with asking(address_of(server.url), GAMMA) as other:
                other.health(ALPHA)
        with asking(address_of(server.url)) as exchange:
            until(lambda: is_answered(exchange), "the budget is given back")
