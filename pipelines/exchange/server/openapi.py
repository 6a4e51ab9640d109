"""The OpenAPI document of the exchange server, made from the declarations of the protocol.

`docs/exchange.openapi.json` holds it; a test compares the two, and each call with what is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.assertions import ASSERTION_TYPE, GRANT_TYPE
from medusa_core.protocol.document_fields import Document, IntegerField, Schema
from medusa_core.protocol.envelope_documents import DELIVERIES, ENVELOPES
from medusa_core.protocol.file_batches import BATCH_BYTES_MAX, FILE_BYTES_MAX, FILES
from medusa_core.protocol.introductions import INTRODUCTION, SIGNED_INTRODUCTION
from medusa_core.protocol.invitations import JOINING
from medusa_core.protocol.news_documents import HASH, NEWS, REPLICA, STREAM, VERSION
from medusa_core.protocol.problems import MEDIA_TYPE, PROBLEM, ProblemKind
from pipelines.exchange.server.partner_budgets import ServerLimits
from pipelines.exchange.server.request_parts import NumberParameter
from pipelines.exchange.server.responses import FILE_BATCH, PARQUET

JSON = "application/json"
SEGMENTS_MAX = 1_024
DOCUMENTS = {
    "Acknowledgement": calls.ACKNOWLEDGEMENT,
    "Deliveries": DELIVERIES,
    "Envelopes": ENVELOPES,
    "Files": FILES,
    "Health": calls.HEALTH,
    "Introduction": INTRODUCTION,
    "Joining": JOINING,
    "News": NEWS,
    "Offers": calls.OFFERS,
    "Problem": PROBLEM,
    "Progress": calls.PROGRESS,
    "Token": calls.TOKEN,
}


def news_numbers(limits: ServerLimits) -> dict[str, NumberParameter]:
    """The whole numbers that a request of news names."""
    return {
        "after": NumberParameter(VERSION),
        "replica": NumberParameter(REPLICA, 0),
        "segments_max": NumberParameter(IntegerField(1, SEGMENTS_MAX), SEGMENTS_MAX),
        **wait_numbers(limits),
    }


def wait_numbers(limits: ServerLimits) -> dict[str, NumberParameter]:
    """The whole numbers of a request that may wait."""
    return {"wait_ms": NumberParameter(IntegerField(0, limits.wait_ms_max), 0)}


def openapi_document(limits: ServerLimits) -> dict[str, Any]:
    """Every call with its parameters, its bodies and its answers."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Medusa exchange",
            "version": "1",
            "description": "What a participant's home publishes to its partners. What is not "
            "granted and what does not exist have one answer, 404. Every answer has a header "
            "Server-Timing with durations in ms: inside, how long it took; for answers that may "
            "wait also read, how long after the arrival of the request the home was read.",
        },
        "paths": {
            "/v1/token": {"post": _token()},
            "/v1/introduction": {
                "get": {
                    **_call("What this server says of itself, signed.", "Introduction"),
                    "security": [],
                }
            },
            "/v1/partners": {"post": _join()},
            "/v1/streams": {"get": _call("Streams that this partner may read.", "Offers")},
            "/v1/progress": {"get": _progress(limits)},
            "/v1/news": {"get": _news(limits)},
            "/v1/files/{sha256}": {"get": _file()},
            "/v1/files": {"post": _files()},
            "/v1/acknowledgements": {"post": _acknowledge()},
            "/v1/envelopes": {
                "post": {
                    **_call("Put envelopes of this partner into the inbox.", "Deliveries"),
                    "requestBody": _body("Envelopes"),
                }
            },
            "/v1/health": {"get": _call("Whose home this is, and its clock.", "Health")},
        },
        "components": {
            "schemas": {name: one.record.schema for name, one in DOCUMENTS.items()},
            "securitySchemes": {
                "token": {
                    "type": "oauth2",
                    "flows": {"clientCredentials": {"tokenUrl": "/v1/token", "scopes": {}}},
                }
            },
        },
        "security": [{"token": []}],
    }


def _call(summary: str, answer: str) -> dict[str, Any]:
    """A call that is answered with a document."""
    return {"summary": summary, "responses": {"200": _answer(answer), **_problems()}}


def _answer(name: str) -> dict[str, Any]:
    return {"description": DOCUMENTS[name].what, "content": _content(name)}


def _content(name: str, media_type: str = JSON) -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _body(name: str) -> dict[str, Any]:
    """A body of a limited size."""
    document: Document = DOCUMENTS[name]
    return {
        "required": True,
        "description": f"{document.bytes_max} bytes at most",
        "content": _content(name),
    }


def _problems() -> dict[str, Any]:
    """The problems that each call may be answered with, by status."""
    return {
        str(kind.status): {"description": kind.value, "content": _content("Problem", MEDIA_TYPE)}
        for kind in sorted(ProblemKind, key=lambda kind: kind.status)
    }


def _parameter(name: str, schema: Schema, place: str = "query", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, "required": False, **more}


def _token() -> dict[str, Any]:
    fields = {
        "grant_type": {"const": GRANT_TYPE},
        "client_assertion_type": {"const": ASSERTION_TYPE},
        "client_assertion": {"type": "string"},
    }
    known = {**fields, "introduction": SIGNED_INTRODUCTION.schema}
    schema = {"type": "object", "properties": known, "required": list(fields)}
    return {
        **_call("An access token for a signed assertion (RFC 7523).", "Token"),
        "security": [],
        "requestBody": {
            "required": True,
            "content": {"application/x-www-form-urlencoded": {"schema": schema}},
        },
    }


def _progress(limits: ServerLimits) -> dict[str, Any]:
    what = "Lines that this partner may read, each with a mark that changes when its news do."
    return {**_call(what, "Progress"), "parameters": _waiting(wait_numbers(limits))}


def _news(limits: ServerLimits) -> dict[str, Any]:
    stream = _parameter("stream", STREAM.schema, required=True)
    return {
        **_call("What happened to a line of this home after a version.", "News"),
        "parameters": [stream, *_waiting(news_numbers(limits))],
    }


def _waiting(given: Mapping[str, NumberParameter]) -> list[dict[str, Any]]:
    """The parameters of a call that may wait."""
    numbers = {
        name: _parameter(name, one.schema, required=one.default is None)
        for name, one in given.items()
    }
    numbers["wait_ms"]["description"] = (
        "How long to wait while the answer is what the parameter known names."
    )
    known = "The ETag of an earlier answer."
    return [*numbers.values(), _parameter("known", {"type": "string"}, description=known)]


def _file() -> dict[str, Any]:
    content = {PARQUET: {"schema": {"type": "string", "format": "binary"}}}
    return {
        "summary": "The file with a SHA-256, or one range of its bytes.",
        "parameters": [
            _parameter("sha256", HASH.schema, "path", required=True),
            _parameter("Range", {"type": "string"}, "header"),
            _parameter(
                calls.OBJECTS_HEADER,
                {"type": "string"},
                "header",
                description="The object store to which the answer may be a redirect.",
            ),
        ],
        "responses": {
            "200": {"description": "the whole file", "content": content},
            "206": {"description": "the requested bytes", "content": content},
            "307": {"description": "where the file is for a minute, at the named object store"},
            "416": {"description": "the file ends before the requested bytes"},
            **_problems(),
        },
    }


def _files() -> dict[str, Any]:
    content = {FILE_BATCH: {"schema": {"type": "string", "format": "binary"}}}
    what = (
        f"Files of {FILE_BYTES_MAX} bytes at most, {BATCH_BYTES_MAX} bytes together, one after the "
        "other: the SHA-256 (32 bytes), the length (8 bytes, the most significant first), the "
        "content. A file that is missing may be requested by itself."
    )
    return {
        "summary": "Small files with these SHA-256, in one answer.",
        "requestBody": _body("Files"),
        "responses": {"200": {"description": what, "content": content}, **_problems()},
    }


def _join() -> dict[str, Any]:
    return {
        "summary": "Join as a partner, with the secret of an invitation.",
        "security": [],
        "requestBody": _body("Joining"),
        "responses": {"204": {"description": "the participant has joined"}, **_problems()},
    }


def _acknowledge() -> dict[str, Any]:
    return {
        "summary": "Note up to where the partner's copy of a stream is durable.",
        "requestBody": _body("Acknowledgement"),
        "responses": {"204": {"description": "the acknowledgement is noted"}, **_problems()},
    }
