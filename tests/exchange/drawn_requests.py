"""Requests of every call that an OpenAPI document describes: drawn as it says, then altered.

A call that is added to the document is drawn by itself. Values that only a real partner has, such
as a signed assertion, are found by the name of their parameter or field, see `Real`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import jsonschema
from hypothesis import strategies as st

from tests.protocol import drawn_documents as drawn

Document = Mapping[str, Any]
Real = Mapping[str, Callable[[], Any]]
"""A value that counts, made when it is drawn, by the name of a parameter or of a field."""

JSON, FORM, PROBLEM = (
    "application/json",
    "application/x-www-form-urlencoded",
    "application/problem+json",
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "X")
KEYWORDS = {
    "$ref", "additionalProperties", "anyOf", "const", "contentEncoding", "default", "description",
    "enum", "format", "items", "maxItems", "maxLength", "maximum", "minLength", "minimum", "oneOf",
    "pattern", "properties", "required", "type",
}  # fmt: skip
INT64 = 2**63


@dataclass(frozen=True)
class Call:
    """One call of the document."""

    method: str
    path: str
    operation: Document

    @property
    def is_open(self) -> bool:
        """Whether it needs no token."""
        return self.operation.get("security") == []


@dataclass(frozen=True)
class DrawnRequest:
    """A request; `target` is the path with its query, as it is sent."""

    call: Call
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def calls_of(document: Document) -> list[Call]:
    return [
        Call(method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def values(schema: Document, document: Document, real: Real, name: str = "") -> Any:
    """Values that a schema allows."""
    unknown = schema.keys() - KEYWORDS
    assert not unknown, f"teach this generator the keyword {unknown} of the OpenAPI document"
    if "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return values(found, document, real, name)
    if name in real:
        made = st.builds(real[name])
        return made | _of_type(schema, document, real)
    return _of_type(schema, document, real)


def _of_type(schema: Document, document: Document, real: Real) -> Any:
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return st.one_of(*(values(one, document, real) for one in schema[several]))
    match schema.get("type"):
        case "object":
            fields = {
                name: values(inner, document, real, name)
                for name, inner in schema.get("properties", {}).items()
            }
            required = set(schema.get("required", ()))
            return st.fixed_dictionaries(
                {name: one for name, one in fields.items() if name in required},
                optional={name: one for name, one in fields.items() if name not in required},
            )
        case "array":
            items = values(schema["items"], document, real)
            return st.lists(items, max_size=min(schema.get("maxItems", 3), 3))
        case "integer":
            most = schema.get("maximum", INT64)
            return st.integers(schema.get("minimum", -INT64), most)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string" if "pattern" in schema:
            longest = schema.get("maxLength", 1_000)
            pattern = st.from_regex(schema["pattern"], fullmatch=True)
            return pattern.filter(lambda text: len(text) <= longest)
        case "string":
            return st.text(max_size=min(schema.get("maxLength", 20), 20))
    raise AssertionError(f"teach this generator the type of {schema}")


@st.composite
def requests(draw: st.DrawFn, call: Call, document: Document, real: Real) -> DrawnRequest:
    """A request of a call; of some parts another value than the document allows."""
    method = call.method if draw(st.integers(0, 9)) else draw(st.sampled_from(METHODS))
    path, query, headers = call.path, [], list(draw(_HEADERS))
    for parameter in call.operation.get("parameters", ()):
        name = parameter["name"]
        given = draw(_texts(values(parameter["schema"], document, real, name)))
        match parameter["in"]:
            case "path":
                path = path.replace(f"{{{name}}}", _quoted(given) or "x")
            case "query":
                least = 1 if parameter.get("required") else 0
                times = draw(st.sampled_from([least, 1, 1, 1, 0, 2]))
                query += [(name, given)] * times
            case "header":
                headers += [(name, _as_header(given))]
    query += draw(st.sampled_from([(), (), (), (("x", "1"),), (("", ""),)]))
    pairs = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in query)
    body, media_type = b"", None
    if "requestBody" in call.operation:
        body, media_type = draw(_bodies(call, document, real))
    elif not draw(st.integers(0, 9)):
        body = draw(st.binary(min_size=1, max_size=50))
    sent = {name.lower() for name, _ in headers}
    if media_type is not None and "content-type" not in sent:
        headers.append(("Content-Type", media_type))
    return DrawnRequest(call, method, f"{path}?{pairs}" if pairs else path, tuple(headers), body)


@st.composite
def _bodies(draw: st.DrawFn, call: Call, document: Document, real: Real) -> tuple[bytes, str]:
    content = call.operation["requestBody"]["content"]
    media_type = draw(st.sampled_from(sorted(content)))
    schema = content[media_type]["schema"]
    kind = draw(st.sampled_from(("valid", "valid", "altered", "altered", "bytes", "whole")))
    if kind == "bytes":
        return draw(st.binary(max_size=100) | st.sampled_from(_BODIES)), media_type
    known = real.get(schema.get("$ref", "").rpartition("/")[2])
    if kind == "whole" and known is not None:
        return known().encode(), media_type
    value = draw(values(schema, document, real))
    if media_type == FORM:
        fields = {name: str(text) for name, text in value.items()}
        if kind == "altered" and fields:
            fields[draw(st.sampled_from(sorted(fields)))] = draw(st.text(max_size=9))
        return urlencode(fields, errors="replace").encode(), media_type
    text = json.dumps(value).encode()
    return (draw(drawn.altered(text)) if kind == "altered" else text), media_type


@st.composite
def _texts(draw: st.DrawFn, valid: st.SearchStrategy[Any]) -> str:
    """A parameter as text."""
    if draw(st.integers(0, 3)):
        return str(draw(valid))
    return draw(st.sampled_from(_TEXTS) | st.text(max_size=8))


_TEXTS = (
    "", "0", "-1", "1.0", "1e3", "0x10", "٣", "²", "9" * 30, str(INT64), str(-INT64 - 1), "null",
    "true", "NaN", "\0", "\r\nX: y", "a\nb", "../../etc/passwd", "..%2f..", "%00", "' OR 1=1 --",
    "${env:HOME}", "{{7*7}}", "☃", "\ud800", "x" * 3_000,
)  # fmt: skip
_BODIES = (
    b"", b"null", b"[]", b"{}", b"[" * 30_000, b'{"a":' * 10_000, b"9" * 5_000, b"NaN", b"\xff\xfe",
    b"\x1f\x8b\x08\0", '{"stream":"a"}'.encode("utf-16"), b'{"a":1,"a":2}', b"=&=&=", b"a=%",
    b"&" * 70, b"a=1&" * 40, b"\xef\xbb\xbf{}", b" " * 70_000,
)  # fmt: skip
_HEADERS = st.lists(
    st.sampled_from(
        [
            ("Accept", "text/html"), ("Accept-Encoding", "gzip, br"), ("Connection", "close"),
            ("Connection", "Upgrade, HTTP2-Settings"), ("Content-Encoding", "gzip"),
            ("Content-Encoding", "identity"), ("Content-Type", "text/plain"),
            ("Content-Type", "application/json; charset=utf-16"), ("Content-Type", FORM),
            ("Content-Type", "multipart/form-data"), ("Cookie", "token=x"),
            ("Expect", "100-continue"), ("Forwarded", "for=127.0.0.1"), ("Host", "evil.example"),
            ("Host", "["), ("Host", "a b"), ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
            ("If-None-Match", "*"), ("If-Range", '"x"'), ("Range", "bytes=0-0"),
            ("Range", "bytes=9999999999999-"), ("Range", "bytes=" + "0-1," * 200),
            ("Upgrade", "h2c"), ("Upgrade", "websocket"), ("Via", "1.1 x"),
            ("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-Proto", "https"),
            ("X-HTTP-Method-Override", "DELETE"), ("X-Original-URL", "/v1/health"),
        ]
    ),
    max_size=3,
    unique_by=lambda pair: pair[0],
)  # fmt: skip


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _as_header(text: str) -> str:
    return "".join(c for c in text if " " <= c <= "~").strip()


# What an answer must be.

Headers = Mapping[str, str]


def conforms(call: Call | None, status: int, headers: Headers, body: bytes, doc: Document) -> str:
    """What is wrong with an answer to a call; "" if it is as the document says.

    `call` None: there is no such call, which is answered like everything that is not there.
    """
    media_type = headers.get("content-type", "").partition(";")[0]
    problem = doc["components"]["schemas"]["Problem"]
    if call is None:
        answers: Document = {"404": {"content": {PROBLEM: {"schema": problem}}}}
    else:
        answers = call.operation["responses"]
    if str(status) not in answers:
        return f"status {status} is not announced"
    content = answers[str(status)].get("content")
    if content is None:
        return f"{len(body)} bytes that are not announced" if body else ""
    if media_type not in content:
        return f"media type {media_type!r} is not announced"
    if media_type not in (JSON, PROBLEM):
        return ""
    value = json.loads(body)
    schema = {**content[media_type]["schema"], "components": doc["components"]}
    wrong = jsonschema.Draft202012Validator(schema).iter_errors(value)
    if (first := next(iter(wrong), None)) is not None:
        return f"not by its schema: {first.message[:200]}"
    if status >= 400 and value["status"] != status:
        return f"a problem of status {value['status']}"
    return ""


def names_inside(texts: Sequence[bytes], words: Sequence[str]) -> list[str]:
    """Those of the words that occur in one of the texts, however they are written."""
    all_of = b"\n".join(texts).lower()
    return [word for word in words if word.lower().encode() in all_of]
