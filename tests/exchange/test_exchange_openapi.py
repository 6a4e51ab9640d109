"""The OpenAPI document in docs/ is what the exchange server serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from medusa_core.errors import Refused
from medusa_core.exchange import LineNews
from medusa_core.protocol.news_documents import NEWS, write_news
from pipelines.base.settings import REPOSITORY
from pipelines.exchange.server.application import ExchangeServer
from pipelines.exchange.server.openapi import DOCUMENTS, openapi_document
from pipelines.exchange.server.partner_budgets import ServerLimits
from tests.exchange.published_home import ALPHA, KeyIdentity
from tests.protocol import drawn_documents as drawn
from tests.sweeps import examples

PAGE = REPOSITORY / "docs" / "exchange.openapi.json"
SCHEMAS = openapi_document(ServerLimits())["components"]["schemas"]


def test_the_document_in_docs_is_the_one_of_this_program() -> None:
    """After a change of the protocol: python -m tests.exchange.test_exchange_openapi"""
    assert json.loads(PAGE.read_text()) == openapi_document(ServerLimits())


def test_every_call_that_is_served_is_documented_and_no_other() -> None:
    server = ExchangeServer(cast(Any, None), Path(), KeyIdentity(ALPHA), "0", cast(Any, None))
    served = {
        (route.path, method.lower())
        for route in server.application.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    paths = openapi_document(ServerLimits())["paths"]
    assert served == {(path, method) for path, calls in paths.items() for method in calls}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_of_the_document_is_a_json_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.long(quick=True)
@settings(max_examples=25, deadline=None)
@given(drawn.news())
def test_news_that_is_sent_is_as_its_schema_says(news: LineNews) -> None:
    jsonschema.validate(json.loads(write_news(news)), SCHEMAS["News"])


@pytest.mark.sweep
@settings(max_examples=examples(8, 25), deadline=None)
@given(st.data())
def test_what_the_schema_refuses_the_program_refuses(data: st.DataObject) -> None:
    content = data.draw(drawn.altered(write_news(data.draw(drawn.news()))))
    try:
        jsonschema.validate(json.loads(content), SCHEMAS["News"])
    except jsonschema.ValidationError:
        with pytest.raises(Refused):
            NEWS.read(content)


def main() -> None:
    PAGE.write_text(json.dumps(openapi_document(ServerLimits()), indent=1) + "\n")


if __name__ == "__main__":
    main()
