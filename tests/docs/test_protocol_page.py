"""The page on the protocol: its examples fit the OpenAPI document, its SQL runs in a home."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import psycopg2
import pytest

from medusa_core.protocol.document_fields import ARRAYS_MAX, ELEMENTS_MAX
from medusa_core.protocol.news_documents import NEWS_BYTES_MAX
from medusa_core.protocol.problems import ProblemKind
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.client.https_exchange import WATCH_MS
from pipelines.exchange.link_recorder import LinkRecorder
from pipelines.exchange.server.openapi import openapi_document
from pipelines.exchange.server.partner_budgets import ServerLimits
from tests.docs.pages import page
from tests.exchange.published_home import ALPHA, BETA, published_home
from tests.exchange.served import LIMITS, served, token_of

LIMITS_OF_SERVER = ServerLimits()
OPENAPI = openapi_document(LIMITS_OF_SERVER)
CALL = re.compile(r"^### `(GET|POST) (/v1/\S+)`$", re.MULTILINE)
BLOCK = re.compile(r"```(http|json)\n(.*?)```", re.DOTALL)
ROW = re.compile(r"^\| ([a-z][a-z ,]+?) \| (\d+) \|$", re.MULTILINE)
PROBLEM_ROW = re.compile(r"^\| (\d{3}) \| ([a-z-]+) \|", re.MULTILINE)
TEXT = page("protocol")


@dataclass(frozen=True)
class Example:
    """A call of the page, with its blocks."""

    method: str
    path: str
    request: str
    answers: tuple[str, ...]

    @property
    def call(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = OPENAPI["paths"][self.path][self.method]
        return found


def examples() -> Iterator[Example]:
    begins = [*CALL.finditer(TEXT)]
    ends = [found.start() for found in begins[1:]] + [TEXT.index("\n## Errors")]
    for begin, end in zip(begins, ends, strict=True):
        blocks = BLOCK.findall(TEXT[begin.end() : end])
        requests = [text for kind, text in blocks if kind == "http"]
        yield Example(
            begin[1].lower(),
            begin[2],
            requests[0] if requests else "",
            tuple(text for kind, text in blocks if kind == "json"),
        )


def check(value: object, schema: Mapping[str, Any]) -> None:
    jsonschema.validate(value, {**schema, "components": OPENAPI["components"]})


def schema_of(described: Mapping[str, Any]) -> Mapping[str, Any]:
    ((_, content),) = described["content"].items()
    found: Mapping[str, Any] = content["schema"]
    return found


def test_every_call_has_an_example_and_no_other_call_is_shown() -> None:
    shown = [(example.path, example.method) for example in examples()]
    calls = {(path, method) for path, of in OPENAPI["paths"].items() for method in of}
    assert set(shown) == calls
    assert len(shown) == len(calls)


@pytest.mark.parametrize("example", [*examples()], ids=lambda e: f"{e.method} {e.path}")
def test_an_example_is_as_the_openapi_document_says(example: Example) -> None:
    responses = example.call["responses"]
    is_document = "204" not in responses and "application/json" in responses["200"]["content"]
    if not is_document:
        assert not example.answers
    else:
        (answer,) = example.answers
        check(json.loads(answer), schema_of(responses["200"]))
    has_parts = "requestBody" in example.call or any(
        one["required"] for one in example.call.get("parameters", ())
    )
    assert bool(example.request) or not has_parts
    if example.request:
        check_request(example)


def check_request(example: Example) -> None:
    head, _, body = example.request.partition("\n\n")
    method, target, version = head.splitlines()[0].split(" ")
    assert (method.lower(), version) == (example.method, "HTTP/1.1")
    pattern = re.sub(r"\\\{\w+\\\}", "([^/]+)", re.escape(example.path))
    found = re.fullmatch(pattern, urlsplit(target).path)
    assert found, target
    given: dict[str, Any] = {k: v for k, (v,) in parse_qs(urlsplit(target).query).items()}
    declared = {one["name"]: one for one in example.call.get("parameters", ())}
    in_path = [name for name, one in declared.items() if one["in"] == "path"]
    given |= dict(zip(in_path, found.groups(), strict=True))
    given |= {k: v for k, v in (line.split(": ") for line in head.splitlines()[1:]) if k == "Range"}
    assert given.keys() <= declared.keys()
    assert {name for name, one in declared.items() if one["required"]} <= given.keys()
    for name, value in given.items():
        schema = declared[name]["schema"]
        check(int(value) if schema["type"] == "integer" else value, schema)
    if "requestBody" in example.call:
        form = {k: v for k, (v,) in parse_qs(body.strip()).items()}
        check(
            json.loads(body) if body.startswith("{") else form,
            schema_of(example.call["requestBody"]),
        )


def test_the_example_of_an_error_and_the_table_have_every_problem() -> None:
    errors = TEXT[TEXT.index("\n## Errors") : TEXT.index("\n## Limits")]
    ((_, problem),) = BLOCK.findall(errors)
    check(json.loads(problem), {"$ref": "#/components/schemas/Problem"})
    shown = {(int(status), kind) for status, kind in PROBLEM_ROW.findall(errors)}
    assert shown == {(kind.status, kind.value) for kind in ProblemKind}


def test_the_limits_are_those_of_the_server() -> None:
    limits = TEXT[TEXT.index("\n## Limits") : TEXT.index("\n## What a firewall")]
    shown = {name: int(figure) for name, figure in ROW.findall(limits)}
    of = LIMITS_OF_SERVER
    assert shown == {
        "connections": of.connections_max,
        "open requests": of.requests_max,
        "of these at work at a time": of.calls_max,
        "bytes of answers in memory": of.memory_bytes_max,
        "connections of clients without a token, all together": of.anonymous_connections_max,
        "bytes of the header of a request": of.header_bytes_max,
        "seconds for the header of a request": of.header_s_max,
        "seconds for the body of a request": of.body_s_max,
        "seconds for a request with its answer": of.request_s_max,
        "seconds for which an idle connection stays open": of.idle_s_max,
        "milliseconds for which a request may wait for news": of.wait_ms_max,
        "bytes of the news of a line": NEWS_BYTES_MAX,
        "elements of a document": ELEMENTS_MAX,
        "arrays of a document": ARRAYS_MAX,
    }
    assert f"silent for {WATCH_MS // 1_000} s" in TEXT


@pytest.fixture(scope="module")
def urls(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HomeUrls]:
    storage = tmp_path_factory.mktemp("storage")
    with published_home(postgres_server, storage) as found:
        links = LinkRecorder()
        with closing(ExchangeHome(found.exchange, ALPHA)) as home:
            with served(home, storage, found.exchange, limits=LIMITS, links=links) as server:
                token_of(server, home)
            links.note_answer(BETA, took_s=0.004)
            links.report(home.report_links)
        yield found


def test_the_auditors_questions_are_answered_by_a_home(urls: HomeUrls) -> None:
    statements = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    answers: dict[str, list[tuple[Any, ...]]] = {}
    url = urls.owner.replace("+psycopg2", "")
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            found = re.search(r"FROM ([\w.]+)|SELECT ([\w.]+)\(\)", statement)
            assert found
            answers[found[1] or found[2]] = cursor.fetchall()
    ((partner, stream, reason, contract, _, granted_by),) = answers["medusa_api.stream_grants"]
    assert (partner, stream, reason, contract) == ("beta", "sums", "owner", None)
    assert granted_by.endswith("_owner")
    assert [row[2:4] for row in answers["medusa_api.audit"]] == [("granted stream", "sums")]
    assert [row[:2] for row in answers["medusa_api.partners"]] == [
        ("beta", "partner"), ("gamma", "partner"),
    ]  # fmt: skip
    assert {row[0] for row in answers["medusa_api.party_keys"]} == {"alpha", "beta", "gamma"}
    assert [row[0] for row in answers["medusa_market.access_token"]] == ["beta"]
    assert [row[:3] for row in answers["medusa_api.links"]] == [("beta", 1, 0)]
    assert answers["medusa_api.holds"] == []
    assert answers["medusa_market.verify_audit"] == [(None,)]
    assert len(answers) == len(statements)
