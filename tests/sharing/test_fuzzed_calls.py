"""Every call of Delta Sharing, drawn as its protocol says and then altered, by all who may try.

Each answer is announced, is no fault, and holds nothing of what its reader is not granted; nor does
the log of the server, which holds no token either.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.sharing.file_calls import FILE_PATH, PREFIX
from pipelines.sharing.recipient_limits import SharingLimits
from pipelines.sharing.sharing_calls import BODY_BYTES_MAX
from tests.changes.building import BIG, SUMS, some_lines
from tests.exchange.drawn_requests import JSON, calls_of, names_inside, requests
from tests.exchange.test_fuzzed_calls import INSIDE, sent
from tests.sharing.building import Sharing, lines_of, path_of, shared_home
from tests.sweeps import IS_LONG, PART, examples, long_but

TEXT: Mapping[str, Any] = {"type": "string"}
NUMBER: Mapping[str, Any] = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
TIME = {"type": "string", "pattern": r"20[0-9]{2}-0[1-9]-[0-2][1-9]T[0-2][0-3]:00:00Z"}
PAGES = {"maxResults": NUMBER, "pageToken": TEXT}
FORMS = {"type": "string", "pattern": "(responseformat=(delta|parquet|delta,parquet);?)?"}
QUERY = {
    "type": "object",
    "properties": {
        "version": NUMBER, "timestamp": TIME, "limitHint": NUMBER, "jsonPredicateHints": TEXT,
        "predicateHints": {"type": "array", "items": TEXT}, "startingVersion": NUMBER,
    },
}  # fmt: skip
STATUSES = {200, 206, 400, 401, 404, 413, 416, 429}
CLIENTS = ("httpcore", "httpx")
CANARIES = ("canary_row", "canary_other")
NAMED: Mapping[str, Any] = {"share": "alpha", "schema": "streams", "table": "big"}
SHARE = "/shares/{share}"
TABLE = f"{SHARE}/schemas/{{schema}}/tables/{{table}}"
QUERIES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "/shares": PAGES,
    SHARE: {},
    f"{SHARE}/schemas": PAGES,
    f"{SHARE}/schemas/{{schema}}/tables": PAGES,
    f"{SHARE}/all-tables": PAGES,
    f"{TABLE}/version": {"startingTimestamp": TIME},
    f"{TABLE}/metadata": {},
    f"{TABLE}/query": {},
    f"{TABLE}/changes": {
        "startingVersion": {"enum": [0, 1, 2]}, "endingVersion": NUMBER, "endingTimestamp": TIME,
        "startingTimestamp": TIME, "includeHistoricalMetadata": TEXT,
    },
    FILE_PATH: {"X-Amz-Signature": TEXT},
}  # fmt: skip
"""The calls, each with the parameters of its query."""


def document_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The protocol as an OpenAPI document; `values` are those that count, by their names."""
    paths: dict[str, Any] = {}
    for path, queries in QUERIES.items():
        named = [part[1:].partition("}")[0] for part in path.split("/") if part.startswith("{")]
        places = {
            "path": dict.fromkeys(named, TEXT),
            "query": queries,
            "header": {"delta-sharing-capabilities": FORMS},
        }
        its: dict[str, Any] = {
            "parameters": [
                {
                    "name": name,
                    "in": place,
                    "required": place == "path",
                    "schema": {"enum": [values[name]]} if name in values else schema,
                }
                for place, of_place in places.items()
                for name, schema in of_place.items()
            ]
        }
        is_query = path.endswith("/query")
        if is_query:
            its["requestBody"] = {"content": {JSON: {"schema": QUERY}}}
        paths[f"{PREFIX}{path}"] = {"post" if is_query else "get": its}
    return {"paths": paths}


PATHS = sorted(QUERIES, key=lambda path: (not path.endswith("/query"), path))


@dataclass(frozen=True)
class Attacked:
    """A served home, what each of those sends who may try, and the calls with values that count."""

    sharing: Sharing
    tokens: Mapping[str, str | None]
    document: Mapping[str, Any]


@contextmanager
def attacked_home(sharing: Sharing) -> Iterator[Attacked]:
    """`big` is shared with acme, `sums` with another recipient, whose rows are canaries."""
    sharing.lines.write(BIG, 0, 2, {0: [("a", 1)], 1: [("b", 2)]})
    sharing.lines.write(SUMS, 0, 1, {0: [(CANARIES[0], 77)]})
    acme, revoked = sharing.token("acme", "big").token, sharing.token("past", "big").token
    sharing.token("canary_other", "sums")
    sharing.recipients.revoke("past")
    url = str(lines_of(sharing.client(acme).query("big"))[2]["file"]["url"])
    _, _, _, expires, token, stream, file = urlsplit(url).path.split("/")
    values = {
        **NAMED, "expires": expires, "token": token, "stream": stream,
        "key": file.removesuffix(".parquet"),
        "X-Amz-Signature": parse_qs(urlsplit(url).query)["X-Amz-Signature"][0],
    }  # fmt: skip
    tokens = {"acme": acme, "past": revoked, "stranger": "q" * 43, "wrong": "a b", "nobody": None}
    yield Attacked(sharing, tokens, document_of(values))


@pytest.fixture(scope="module")
def attacked(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Attacked]:
    folder, limits = tmp_path_factory.mktemp("sharing"), SharingLimits(burst_max=1_000_000)
    with (
        some_lines(postgres_server, folder / "home") as lines,
        shared_home(lines, folder / "shared", limits) as sharing,
        attacked_home(sharing) as found,
    ):
        yield found


@pytest.mark.sweep
@pytest.mark.parametrize("path", long_but(1, PATHS, quick=True))
def test_no_recipient_receives_a_fault_or_what_is_not_shared_with_it(
    attacked: Attacked, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    base = attacked.sharing.url.removesuffix(PREFIX)
    (call,) = [one for one in calls_of(attacked.document) if one.path == f"{PREFIX}{path}"]
    answered = set()

    @settings(
        max_examples=examples(15, 500), deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def check(data: st.DataObject) -> None:
        request = data.draw(requests(call, attacked.document, {}))
        who = data.draw(st.sampled_from(["acme", "acme", *sorted(attacked.tokens)]))
        try:
            answer = sent(client, request, attacked.tokens[who])
        except httpx.NetworkError:
            assert request.body, f"{request} is not answered"
            return
        said = [answer.content, str(answer.headers.raw).encode()]
        answered.add(answer.status_code)
        assert answer.status_code in STATUSES, f"{who} {request}: {answer.content[:300]!r}"
        assert len(request.body) <= BODY_BYTES_MAX or answer.status_code >= 400
        is_signed = path == FILE_PATH
        if answer.status_code == 200 and who != "acme":
            assert is_signed, f"{who} {request}"
        if answer.status_code >= 400 and answer.content:
            assert set(answer.json()) == {"errorCode", "message"}, f"{who} {request}"
        if not is_signed or answer.status_code >= 400:
            assert not names_inside(said, INSIDE[:-2]), f"{who} {request}: {answer.text[:300]}"
        assert not names_inside(said, CANARIES), f"{who} {request}"

    with httpx.Client(base_url=base, trust_env=False, timeout=60) as client:
        check()
    # Most parameters of changes exclude one another, and among few examples none may be valid.
    is_seldom_valid = path.endswith("/changes") or PART > 1
    assert 200 in answered or is_seldom_valid or not IS_LONG, "some requests are accepted"
    logged = [one for one in caplog.records if one.name.partition(".")[0] not in CLIENTS]
    assert not [one for one in logged if one.levelno >= logging.WARNING]
    secret = [token for name, token in attacked.tokens.items() if token and name != "wrong"]
    assert not names_inside([one.getMessage().encode() for one in logged], [*CANARIES, *secret])


def test_a_table_whose_name_holds_a_line_break_is_not_there(attacked: Attacked) -> None:
    token = attacked.tokens["acme"]
    assert token is not None
    answer = attacked.sharing.client(token).get(f"{path_of('%0A')}/version")
    assert (answer.status_code, set(answer.json())) == (404, {"errorCode", "message"})
