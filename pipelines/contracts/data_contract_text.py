"""A data contract as YAML text, validated against the standard.

The standard's own JSON Schema is stored in third_party/odcs; nothing is ever fetched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import yaml
from jsonschema import Draft201909Validator
from referencing import Registry

from medusa_core.market.terms import plain
from pipelines.base.settings import REPOSITORY

STANDARD = REPOSITORY / "third_party" / "odcs" / "odcs-json-schema-v3.1.0.json"


def data_contract_text(document: Mapping[str, Any]) -> str:
    """The document as YAML, its decimals with the digits they have.

    One that does not follow the standard is a fault of ours, and an assertion.
    """
    wrong = departures(document)
    assert not wrong, f"{document.get('name')}: {wrong[0]}"
    text: str = yaml.dump(
        dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )
    return text


def departures(document: object) -> list[str]:
    """In what a document does not follow the standard; empty if it does."""
    return [error.message for error in _standard().iter_errors(document)]


@cache
def _standard() -> Draft201909Validator:
    # Without a registry of its own the validator would fetch what a schema refers to.
    schema = json.loads(STANDARD.read_text(encoding="utf-8"))
    return Draft201909Validator(schema, registry=Registry())


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Plain YAML without anchors, in which decimals keep their digits."""

    def ignore_aliases(self, data: object) -> bool:
        """Every value is written out where it stands."""
        return True


def _represent_decimal(dumper: yaml.SafeDumper, amount: Decimal) -> yaml.ScalarNode:
    text = plain(amount)
    kind = "float" if "." in text else "int"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", text)


_Dumper.add_representer(Decimal, _represent_decimal)
