"""The schema says the same as the reader: what an editor takes is what Medusa takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from medusa_core.commits import Cause
from medusa_core.market.terms import BillingUnit, ContractKind, Method, Recovery
from pipelines.contracts.yaml_values import parse_yaml, plain
from pipelines.market.contracts.bilateral_schema import KINDS, check_shape, schema
from tests.bilateral.writing import TEXTS

DEFINITIONS: Mapping[str, Any] = schema()["$defs"]


def fields_in(rule: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every field of an object's rule and of those inside it, with all that is said of it."""
    for name, given in rule["properties"].items():
        field = dict(given)
        while "$ref" in field:
            field = {**DEFINITIONS[field.pop("$ref").rpartition("/")[2]], **field}
        yield f"{path}.{name}", field
        if "properties" in field:
            yield from fields_in(field, f"{path}.{name}")


def test_it_is_a_schema_of_its_draft() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_a_title_and_says_what_to_write(kind: str) -> None:
    fields = list(fields_in(DEFINITIONS[kind], kind))
    assert len(fields) >= 9
    for path, field in fields:
        assert field.get("title"), path
        assert field.get("errorMessage"), path


def test_words_are_those_that_terms_know() -> None:
    availability = DEFINITIONS["availability"]["properties"]
    for rule, known in (
        (DEFINITIONS["kind"], ContractKind),
        (DEFINITIONS["per"], BillingUnit),
        (DEFINITIONS["billed"]["items"], Cause),
        (availability["recovery"], Recovery),
        (availability["method"], Method),
    ):
        words = [member.value for member in known]
        assert sorted(rule["enum"]) == sorted(words)
        *first, last = rule["enum"]
        assert f"{', '.join(first)} or {last}" in rule.get("errorMessage", DEFINITIONS)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "change", [("", ""), ("contract:", "contrakt:"), ("payer: ", "payer: 3"), ("valid:", "void:")]
)
def test_an_editor_and_the_reader_agree(name: str, change: tuple[str, str]) -> None:
    document = parse_yaml(TEXTS[name].replace(*change, 1).encode(), "f.yaml")
    editor = Draft202012Validator(schema())
    assert editor.is_valid(plain(document)) == (not list(check_shape(document)))
    assert editor.is_valid(plain(document)) == (change == ("", ""))
