"""Mistakes in a network file that Python reports in its own words, in those of a network."""

from __future__ import annotations

import re
from dataclasses import fields

from medusa_core import network
from medusa_core.suggest import did_you_mean

_KINDS = {
    kind.__name__: kind
    for kind in (
        network.Network, network.Source, network.Filter, network.Map, network.Union,
        network.Aggregate, network.UserAggregate, network.Join, network.Lookup, network.Resample,
        network.Rank, network.Deduplicate, network.Session, network.Running, network.Every,
        network.Function, network.Output, network.Partitions,
    )
}  # fmt: skip
_VALUES = {
    "name": "'…'", "input": "'…'", "left": "'…'", "right": "'…'", "table": "'…'",
    "columns": "{'…': '…'}", "cases": "{'…': '…'}", "inputs": "('…', '…')", "on": "('…',)",
    "by": "('…',)", "order": "('… desc',)", "within": "'1d'", "max_age": "'1h'", "gap": "'10m'",
    "length_max": "'1d'", "takes": "('bigint',)", "state": "('bigint',)", "gives": "'bigint'",
    "init": "f", "add": "f", "merge": "f", "result": "f",
    "size": "'1m'", "step": "'1m'", "n": "10", "time": "'…'",
}  # fmt: skip
"""What may be written for a field that is required."""

_OTHER_WORDS = {
    "window": "size", "slide": "advance", "hop": "advance", "timeout": "gap", "ttl": "within",
    "where": "cases", "condition": "cases", "predicate": "cases", "select": "columns",
    "expressions": "columns", "partition_by": "by", "keys": "by", "group_by": "by",
    "order_by": "order", "limit": "k", "top": "k", "using": "on", "timestamp": "time",
}  # fmt: skip
"""What fields are called in other languages."""

_UNKNOWN_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_MISSING_FIELDS = re.compile(r"(\w+)\.__init__\(\) missing \d+ required .*?arguments?: (.+)")
_BY_POSITION = re.compile(r"(\w+)\.__init__\(\) takes 1 positional argument but")
_UNKNOWN_IMPORT = re.compile(r"cannot import name '(\w+)' from 'medusa_core.network'")
_UNKNOWN_NAME = re.compile(r"name '(\w+)' is not defined")


def mistake_in_a_network(error: BaseException) -> str | None:
    """What is wrong and what to write; None for an error that is not about a part of a network."""
    if type(error) not in (ImportError, NameError, TypeError):
        return None  # of a class of the user's, whose text may be anything
    text = str(error)
    if isinstance(error, ImportError) and (found := _UNKNOWN_IMPORT.match(text)):
        near = did_you_mean(found[1], _KINDS)
        hint = f"; {near}" if near else ""
        return f"there is no {found[1]} in a network: its parts are {', '.join(_KINDS)}{hint}"
    if isinstance(error, NameError) and (found := _UNKNOWN_NAME.match(text)):
        return _unknown_name(found[1])
    if (found := _UNKNOWN_FIELD.match(text)) and found[1] in _KINDS:
        known = [field.name for field in fields(_KINDS[found[1]]) if field.init]
        word = _OTHER_WORDS.get(found[2], "")
        if word not in known:
            word = "group_by" if word == "by" and "group_by" in known else found[2]
        hint = did_you_mean(word, known, f"its fields are {', '.join(known)}")
        return f"{found[1]} has no field {found[2]}: {hint}"
    if (found := _MISSING_FIELDS.match(text)) and found[1] in _KINDS:
        return _missing_fields(found[1], re.findall(r"'(\w+)'", found[2]))
    if (found := _BY_POSITION.match(text)) and found[1] in _KINDS:
        return f"{found[1]} takes its fields by name: write name=value for each"
    return None


def _missing_fields(kind: str, names: list[str]) -> str:
    """The sentence for fields that are required and not there."""
    values = _VALUES | ({"within": "('-5s', '0s')"} if kind == "Join" else {})
    written = ", ".join(f"{name}={values.get(name, '…')}" for name in names)
    return f"{kind} lacks {' and '.join(names)}: write, for instance, {written}"


def _unknown_name(name: str) -> str:
    """The sentence for a name that the file uses and nothing defines."""
    if name in _KINDS:
        return f"{name} is not imported: write from medusa_core.network import {name}"
    if near := did_you_mean(name, _KINDS):
        return f"{name} is not defined: {near}"
    return f"{name} is not defined: import it, or write it in quotes if it belongs to an expression"
