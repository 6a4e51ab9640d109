"""What a participant sends is what its partner reads; anything else is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Diverged, MedusaError, Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol import (
    assertions,
    envelope_documents,
    introductions,
    invitations,
    news_documents,
    problems,
)
from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.document_fields import Document, RecordField, has_more_elements
from tests.protocol import drawn_documents as drawn
from tests.sweeps import examples


@dataclass(frozen=True)
class Kind:
    """A kind of document: how it is drawn, written and read."""

    document: Document
    values: st.SearchStrategy[Any]
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


def _fields_of(document: Document, content: bytes) -> dict[str, Any]:
    """The fields that are declared."""
    fields = document.read(content)
    return {name: fields[name] for name in document.record.fields}


KINDS: Mapping[str, Kind] = {
    "news": Kind(
        news_documents.NEWS,
        drawn.news(),
        news_documents.write_news,
        news_documents.read_news,
    ),
    "acknowledgement": Kind(
        calls.ACKNOWLEDGEMENT,
        drawn.ACKNOWLEDGEMENTS,
        calls.write_acknowledgement,
        calls.read_acknowledgement,
    ),
    "envelopes": Kind(
        envelope_documents.ENVELOPES,
        st.lists(drawn.envelopes(), max_size=3).map(tuple),
        envelope_documents.write_envelopes,
        envelope_documents.read_envelopes,
    ),
    "offers": Kind(
        calls.OFFERS,
        drawn.offers(),
        lambda streams: calls.write_offers(Participant("alpha"), streams),
        lambda content: calls.read_offers(content)[1],
    ),
    "progress": Kind(calls.PROGRESS, drawn.PROGRESS, calls.write_progress, calls.read_progress),
    "token": Kind(calls.TOKEN, drawn.TOKENS, calls.write_token, calls.read_token),
    "joining": Kind(
        invitations.JOINING,
        drawn.JOININGS,
        invitations.write_joining,
        invitations.read_joining,
    ),
    "answers about envelopes": Kind(
        envelope_documents.DELIVERIES,
        drawn.DELIVERIES,
        envelope_documents.write_deliveries,
        lambda content: envelope_documents.read_deliveries(content, 2),
    ),
    **{
        name: Kind(document, values, document.write, partial(_fields_of, document))
        for name, document, values in (
            ("claims of an assertion", assertions.CLAIMS, drawn.ASSERTION_CLAIMS),
            ("claims of an introduction", introductions.CLAIMS, drawn.INTRODUCTION_CLAIMS),
            ("a succession", introductions.SUCCESSION, drawn.SUCCESSION_CLAIMS),
            ("introduction", introductions.INTRODUCTION, drawn.SIGNED_INTRODUCTIONS),
        )
    },
    "health": Kind(calls.HEALTH, drawn.HEALTHS, calls.write_health, calls.read_health),
}


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_written_is_read_again(kind: Kind) -> None:
    @settings(max_examples=examples(8, 300), deadline=None)
    @given(kind.values)
    def check(value: Any) -> None:
        read = kind.read(kind.write(value))
        assert read == value

    check()


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_altered_document_is_refused_in_one_sentence_or_says_what_was_read(kind: Kind) -> None:
    @settings(max_examples=examples(15, 500), deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        content = data.draw(drawn.altered(kind.write(data.draw(kind.values))))
        try:
            read = kind.read(content)
        except (Refused, Diverged) as error:
            assert_is_one_sentence(error)
        else:
            again = json.loads(kind.write(read))
            fields = _known(json.loads(content), kind.document.record)
            assert json.dumps(again, sort_keys=True) == json.dumps(fields, sort_keys=True) or (
                # Who offers is read apart.
                kind.document is calls.OFFERS and again["streams"] == fields["streams"]
            )

    check()


def assert_is_one_sentence(error: MedusaError) -> None:
    text = str(error)
    assert text.isprintable()
    assert len(text) < 600
    assert "Traceback" not in text


def _known(value: Any, field: Any) -> Any:
    """A document without the fields that are not declared, which are ignored."""
    if isinstance(field, RecordField):
        return {name: _known(value[name], inner) for name, inner in field.fields.items()}
    item = getattr(field, "item", None)
    return [_known(one, item) for one in value] if item is not None else value


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"nul",
        b"[" * 100_000,
        b'{"a":1,"a":2}',
        b'{"after":NaN}',
        b"9" * 5_000,
        '{"stream":"a"}'.encode("utf-16"),
    ],
    ids=lambda content: ascii(content[:12]),
)
def test_what_is_no_json_object_is_refused(kind: Kind, content: bytes) -> None:
    with pytest.raises(Refused) as caught:
        kind.read(content)
    assert_is_one_sentence(caught.value)


def test_a_document_above_its_size_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(Refused, match="bytes, not 65536 at most"):
        calls.read_health(b"[" * (calls.SMALL_BYTES_MAX + 1))


TEXTS = st.text(st.sampled_from('ab"\\[]{},\n\u00e9'), max_size=8)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


def _counted(value: Any) -> tuple[int, int]:
    """The elements and the arrays of a value, as they were parsed."""
    if not isinstance(value, list | dict):
        return 0, 0
    inner = [_counted(one) for one in (value.values() if isinstance(value, dict) else value)]
    elements = 1 + max(len(inner) - 1, 0) + sum(e for e, _ in inner)
    return elements, isinstance(value, list) + sum(a for _, a in inner)


@settings(max_examples=examples(100, 2_000), deadline=None)
@given(VALUES, st.booleans())
def test_elements_are_counted_without_parsing_as_a_parser_finds_them(
    value: Any, is_ascii: bool
) -> None:
    content = json.dumps(value, ensure_ascii=is_ascii).encode()
    elements, arrays = _counted(value)
    assert not has_more_elements(content, elements, arrays)
    assert not elements or has_more_elements(content, elements - 1, arrays)
    assert not arrays or has_more_elements(content, elements, arrays - 1)


@pytest.mark.parametrize("content", [b'"' + b'\\"' * 100_000, b'["\\', b'"[,{', b"\\[", b""])
def test_a_text_without_an_end_has_no_elements(content: bytes) -> None:
    assert not has_more_elements(content, 1, 1)


@pytest.mark.parametrize("name", ["news", "envelopes", "joining"])
@pytest.mark.parametrize("element", [b"[]", b"{}", b"0"], ids=ascii)
def test_a_document_of_more_elements_than_its_kind_has_is_refused_before_it_is_parsed(
    name: str, element: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS[name]
    elements = kind.document.elements_max + 1
    content = b'{"stream":[' + b",".join([element] * elements) + b"]}"
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(Refused, match="elements") as caught:
        kind.read(content)
    assert_is_one_sentence(caught.value)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(list(problems.ProblemKind)), st.text(max_size=3_000))
def test_a_problem_becomes_the_error_that_it_was(kind: problems.ProblemKind, text: str) -> None:
    error = problems.read_problem(problems.write_problem(kind, text), kind.status, "beta")
    assert type(error) is kind.error
    assert str(error).isprintable()


FIRST = problems.write_problem(problems.ProblemKind.CONFLICT, "another was first")


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200) | drawn.altered(FIRST), st.integers(100, 599))
def test_whatever_a_partner_answers_as_a_problem_is_an_error(content: bytes, status: int) -> None:
    error = problems.read_problem(content, status, "beta")
    assert isinstance(error, MedusaError)
    assert str(error).isprintable()


def test_a_problem_of_a_type_that_is_not_known_is_unavailable() -> None:
    fields = {"type": "urn:medusa:problem:new", "title": "New", "status": 418, "detail": "tea"}
    error = problems.read_problem(json.dumps(fields).encode(), 418, "beta")
    assert isinstance(error, Unavailable)
    assert "tea" in str(error)


def test_a_problem_has_the_status_that_programs_without_medusa_understand() -> None:
    statuses = {
        "refused": 400, "unauthorized": 401, "not-found": 404, "conflict": 409, "expired": 410,
        "too-large": 413, "diverged": 422, "too-many-requests": 429, "unavailable": 503,
        "outcome-unknown": 504,
    }  # fmt: skip
    assert {kind.value: kind.status for kind in problems.ProblemKind} == statuses
