"""The JSON Schema for editors refuses nothing that Medusa accepts, and has the same fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import event, given
from jsonschema import Draft202012Validator

from medusa_core.market.contract_files import (
    FIELDS,
    REQUIRED,
    ContractField,
    FieldRule,
    terms_of_file,
)
from medusa_core.market.term_rules import InvalidTerms
from medusa_core.market.terms import BillingUnit, ContractKind, LoadUnit, Method, Recovery
from pipelines.base.settings import REPOSITORY
from pipelines.contracts.yaml_values import parse_yaml, plain
from tests.bilateral.drawn_files import files
from tests.bilateral.writing import TEXTS

SCHEMA: Mapping[str, Any] = json.loads(
    (REPOSITORY / "contracts/schema/bilateral.schema.json").read_text(encoding="utf-8")
)
DEFINITIONS: Mapping[str, Any] = SCHEMA["$defs"]
EDITOR = Draft202012Validator(SCHEMA)


def resolved(rule: Mapping[str, Any]) -> dict[str, Any]:
    """All that is said of a field, its references followed."""
    field = dict(rule)
    while "$ref" in field:
        field = {**DEFINITIONS[field.pop("$ref").rpartition("/")[2]], **field}
    return field


def accepts(file: object) -> bool:
    """Whether Medusa accepts a file, given as JSON has it."""
    try:
        terms_of_file(json.loads(json.dumps(file), parse_float=Decimal))
    except InvalidTerms:
        return False
    return True


def test_it_is_a_schema_of_its_draft() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@given(file=files())
def test_what_medusa_accepts_an_editor_accepts(file: dict[str, Any]) -> None:
    is_accepted = accepts(file)
    event("accepted" if is_accepted else "refused")
    if is_accepted:
        assert EDITOR.is_valid(file), next(EDITOR.iter_errors(file)).message


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "change", [("", ""), ("contract:", "contrakt:"), ("payer: ", "payer: 3"), ("valid:", "void:")]
)
def test_an_editor_marks_what_is_misspelt(name: str, change: tuple[str, str]) -> None:
    file = plain(parse_yaml(TEXTS[name].replace(*change, 1).encode(), "f.yaml"))
    assert EDITOR.is_valid(file) == (change == ("", "")) == accepts(file)


def fields_of(kind: ContractKind) -> Iterator[tuple[ContractField, dict[str, Any]]]:
    """Every field of a kind, those inside mappings too: in the table, and in the schema."""
    pairs = [(FIELDS[kind], DEFINITIONS[kind.value])]
    for fields, rule in pairs:
        assert list(rule["properties"]) == list(fields), "the same fields in the same order"
        assert rule["additionalProperties"] is False
        required = {name for name, field in fields.items() if field.default is REQUIRED}
        assert set(rule["required"]) == required
        for name, field in fields.items():
            shown = resolved(rule["properties"][name])
            yield field, shown
            if isinstance(field.rule, FieldRule):
                pairs.append((field.rule.fields, shown))


@pytest.mark.parametrize("kind", ContractKind)
def test_it_has_the_fields_of_each_kind_with_their_titles(kind: ContractKind) -> None:
    for field, shown in fields_of(kind):
        assert shown["title"] == field.title
        assert shown["errorMessage"] == field.rule.write


def test_words_are_those_that_terms_know() -> None:
    availability = DEFINITIONS["availability"]["properties"]
    for rule, known in (
        (DEFINITIONS["kind"], ContractKind),
        (DEFINITIONS["load_unit"], LoadUnit),
        (DEFINITIONS["per"], BillingUnit),
        (availability["recovery"], Recovery),
        (availability["method"], Method),
    ):
        assert rule["enum"] == [member.value for member in known]


def test_no_program_reads_it() -> None:
    """One module imports a JSON Schema library: it checks the data contracts that are exported."""
    imports = re.compile(r"^\s*(import|from) jsonschema\b", re.MULTILINE)
    found = [
        path.relative_to(REPOSITORY).as_posix()
        for folder in ("medusa_core", "pipelines", "dags")
        for path in (REPOSITORY / folder).rglob("*.py")
        if imports.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["pipelines/contracts/data_contract_text.py"]
    assert not list((REPOSITORY / "pipelines").rglob("*.schema.json"))
