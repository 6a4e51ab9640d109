"""Every call of the OpenAPI document, drawn as it says and then altered, by everybody who may try.

Each answer is as the document says, is no fault, arrives in its time, and holds nothing of what
nobody is granted. A call that is added to the document is attacked by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx
import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.server.https_server import HttpsServer
from pipelines.exchange.server.openapi import openapi_document
from tests.exchange.drawn_requests import (
    Call,
    DrawnRequest,
    calls_of,
    conforms,
    names_inside,
    requests,
)
from tests.exchange.guarded_home import (
    BETA,
    CANARIES,
    GAMMA,
    HIDDEN_NAMES,
    LAPSED,
    REMOVED,
    hidden_streams,
    real_values,
    token_for,
)
from tests.exchange.published_home import ALPHA
from tests.exchange.served import LIMITS, served
from tests.sweeps import examples, long_but

DRAWN_LIMITS = replace(LIMITS, wait_ms_max=20, connections_max=64)
"""Nothing is waited for: what is drawn may wait for nothing."""
DOCUMENT = openapi_document(DRAWN_LIMITS)
CALLS = calls_of(DOCUMENT)
SECONDS_MAX = 60.0
INSIDE = (
    "Traceback", 'File "', "psycopg", "sqlalchemy", "postgres", "medusa_market.", "medusa_api.",
    "relation", "constraint", "127.0.0.1", "SELECT ",
)  # fmt: skip
"""What an answer says of its inside if it says too much."""

Tokens = Mapping[str, str | None]


@pytest.fixture(scope="module")
def guarded(urls: HomeUrls, storage: Path) -> Iterator[ExchangeHome]:
    """The home with what nobody is granted."""
    with hidden_streams(urls, storage), closing(ExchangeHome(urls.exchange, ALPHA)) as home:
        yield home


@pytest.fixture(scope="module")
def attacked(guarded: ExchangeHome, storage: Path, urls: HomeUrls) -> Iterator[HttpsServer]:
    with served(guarded, storage, urls.exchange, limits=DRAWN_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def tokens(attacked: HttpsServer, guarded: ExchangeHome, urls: HomeUrls) -> Tokens:
    """What each of those sends who may try."""
    names = (BETA, GAMMA, REMOVED, LAPSED)
    found: dict[str, str | None] = {name: token_for(attacked.url, name, guarded) for name in names}
    with closing(psycopg2.connect(urls.owner.replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT medusa_api.remove_partner(%s)", (REMOVED,))
            cursor.execute("SELECT medusa_api.revoke_tokens(%s)", (LAPSED,))
    return {**found, "nobody": None, "a stranger": "x" * 43, "no token": "Basic"}


@pytest.fixture(scope="module")
def client(attacked: HttpsServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=attacked.url, trust_env=False, timeout=SECONDS_MAX) as client:
        yield client


def sent(client: httpx.Client, request: DrawnRequest, token: str | None) -> httpx.Response:
    headers = [*request.headers]
    if token is not None:
        headers.append(("Authorization", f"Bearer {token}"))
    url = httpx.URL(str(client.base_url), raw_path=request.target.encode("ascii"))
    built = client.build_request(request.method, url, headers=headers, content=request.body)
    return client.send(built)


def call_at(request: DrawnRequest) -> Call | None:
    """The call that a request names; None if it names none."""
    path = request.target.partition("?")[0]
    for call in CALLS:
        first, _, last = call.path.partition("{")
        fits = path == call.path if not last else path.startswith(first) and path != first
        if fits and request.method == call.method:
            return call
    return None


def is_announced_wait(answer: httpx.Response) -> bool:
    """A partner that has requested 1,000 tokens waits until the first of them are stale."""
    return answer.status_code == 503 and "has requested too many tokens" in answer.text


@pytest.mark.sweep
@pytest.mark.parametrize(
    "call", long_but(2, CALLS, quick=True), ids=lambda call: f"{call.method} {call.path}"
)
def test_no_request_is_answered_with_a_fault_or_with_what_nobody_is_granted(
    client: httpx.Client, tokens: Tokens, guarded: ExchangeHome, call: Call,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    real = real_values(guarded)

    @settings(
        max_examples=examples(10, 1_000), deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def check(data: st.DataObject) -> None:
        request = data.draw(requests(call, DOCUMENT, real))
        who = data.draw(st.sampled_from([BETA, BETA, GAMMA, *sorted(tokens)]))
        try:
            answer = sent(client, request, tokens[who])
        except httpx.NetworkError:
            # Who has no token is answered, and sends the rest of a body to a closed connection.
            assert request.body, f"{request} is not answered"
            return
        body = b"" if request.method == "HEAD" else answer.content
        if not is_announced_wait(answer) and request.method != "HEAD":
            wrong = conforms(call_at(request), answer.status_code, answer.headers, body, DOCUMENT)
            assert not wrong, f"{who} {request}: {wrong}: {body[:300]!r}"
            assert answer.status_code < 500, f"{who} {request}: {body[:300]!r}"
        said = [body, str(answer.headers.raw).encode()]
        if answer.headers.get("content-type", "").endswith("json"):
            assert not names_inside(said, INSIDE), f"{request}: {body[:300]!r}"
        assert not names_inside(said, CANARIES), f"{who} {request}"
        asked = [request.target.encode(), request.body, str(request.headers).encode()]
        asked_for = names_inside(asked, HIDDEN_NAMES)
        assert set(names_inside(said, HIDDEN_NAMES)) <= set(asked_for), f"{who} {request}"

    check()
    assert not caplog.records
