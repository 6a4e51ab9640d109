"""A bilateral contract's shape: checked by its JSON Schema, reported in sentences.

The branch is chosen by `kind` before anything is checked, so that a message is about the intended
kind. The schema holds the advice (`errorMessage`, which editors show too).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from medusa_core.suggest import did_you_mean
from pipelines.contracts.fields import kind_of, listing
from pipelines.contracts.yaml_values import Value, plain
from pipelines.market.contracts.bilateral_findings import Finding, finding_at

SCHEMA_FILE = Path(__file__).with_name("bilateral.schema.json")
KINDS = ("movement", "content", "suggested")


def check_shape(document: Value) -> Iterator[Finding]:
    """All that is wrong with the shape of a contract file, in no order; nothing if all is well."""
    match document.content:
        case dict() as fields:
            pass
        case _:
            yield finding_at(document, "this is no contract: begin with contract: NAME")
            return
    if "kind" not in fields:
        yield finding_at(document, f"lacks the field kind: write {_one_of(KINDS)}")
        return
    kind = fields["kind"]
    if kind.content not in KINDS:
        hint = did_you_mean(kind.content, KINDS, f"write {_one_of(KINDS)}")
        yield finding_at(kind, f"is {kind_of(kind)}: {hint}")
        return
    for error in _validator(str(kind.content)).iter_errors(plain(document)):
        yield from _text_of(document, error, str(kind.content))


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema (draft 2020-12) of a bilateral contract."""
    loaded: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


def _unique(
    validator: object, is_required: bool, instance: object, rule: object
) -> Iterator[ValidationError]:
    # As the standard says, but in one pass: theirs compares each with each.
    if (
        is_required
        and isinstance(instance, list)
        and len(set(map(_text, instance))) < len(instance)
    ):
        yield ValidationError("has an item twice")


def _pattern(
    validator: object, pattern: str, instance: object, rule: object
) -> Iterator[ValidationError]:
    # Every pattern is meant for the whole text; Python's `$` would let a line end through.
    if isinstance(instance, str) and not re.fullmatch(pattern, instance):
        yield ValidationError("is written in another way")


_Validator = extend(Draft202012Validator, {"uniqueItems": _unique, "pattern": _pattern})


@cache
def _validator(kind: str) -> Draft202012Validator:
    return _Validator({"$defs": schema()["$defs"], "$ref": f"#/$defs/{kind}"}, registry=Registry())


def _text_of(document: Value, error: ValidationError, kind: str) -> Iterator[Finding]:
    value = _value_at(document, error)
    rule: Mapping[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    hint = rule.get("errorMessage", "see docs/bilateral.md")
    match error.validator, value.content:
        case "additionalProperties", dict() as fields:
            known = rule["properties"]
            for name, inside in fields.items():
                if name not in known:
                    yield finding_at(inside, _unknown(name, known, value, kind))
        case "required", dict() as fields:
            # One error tells of one field, and names it in its message alone.
            for name in rule["required"]:
                if name not in fields and error.message.startswith(repr(name)):
                    yield finding_at(
                        value, f"lacks the field {name} ({_title(rule, name)}): add it"
                    )
        case "uniqueItems", tuple() as items:
            yield _again(items)
        case "minItems", _:
            yield finding_at(value, f"is an empty list: {hint}")
        case "maxItems", tuple() as items:
            yield finding_at(value, f"has {len(items):,} items: write {rule['maxItems']:,} at most")
        case "enum", _:
            near = did_you_mean(value.content, rule["enum"], hint)
            yield finding_at(value, f"is {kind_of(value)}: {near}")
        case _:
            yield finding_at(value, f"is {kind_of(value)}: {hint}")


def _value_at(document: Value, error: ValidationError) -> Value:
    """The part of the file that an error points at."""
    value = document
    for step in error.absolute_path:
        match value.content, step:
            case dict() as fields, str():
                value = fields[step]
            case tuple() as items, int():
                value = items[step]
    return value


def _unknown(name: str, known: Mapping[str, Any], value: Value, kind: str) -> str:
    if not value.field:
        of = [k for k in KINDS if name in schema()["$defs"][k]["properties"]]
        if of:
            return f"is for {listing(of)} contracts, and this one is of kind {kind}: remove it"
    hint = did_you_mean(name, known, f"there is {', '.join(known)}")
    return f"is not known here: {hint}"


def _title(rule: Mapping[str, Any], name: str) -> str:
    field: Mapping[str, Any] = rule["properties"][name]
    while "title" not in field:
        field = schema()["$defs"][field["$ref"].rpartition("/")[2]]
    return str(field["title"])


def _again(items: tuple[Value, ...]) -> Finding:
    seen: set[str] = set()
    for item in items:
        text = _text(plain(item))
        if text in seen:
            return finding_at(item, f"names {kind_of(item)} again: keep one")
        seen.add(text)
    raise AssertionError("the schema found two that are equal")


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _one_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
