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
        network.Aggregate, network.Join, network.Lookup, network.Resample, network.Rank,
        network.Deduplicate, network.Session, network.Running, network.Every, network.Function,
        network.Output,
    )
}  # fmt: skip
_UNKNOWN_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_MISSING_FIELDS = re.compile(r"(\w+)\.__init__\(\) missing \d+ required .*?arguments?: (.+)")
_BY_POSITION = re.compile(r"(\w+)\.__init__\(\) takes 1 positional argument but")
_UNKNOWN_NAME = re.compile(r"cannot import name '(\w+)' from 'medusa_core.network'")


def mistake_in_a_network(error: BaseException) -> str | None:
    """What is wrong and what to write; None for an error that is not about a part of a network."""
    if type(error) not in (ImportError, TypeError):
        return None  # of a class of the user's, whose text may be anything
    text = str(error)
    if isinstance(error, ImportError) and (found := _UNKNOWN_NAME.match(text)):
        near = did_you_mean(found[1], _KINDS)
        hint = f"; {near}" if near else ""
        return f"there is no {found[1]} in a network: its parts are {', '.join(_KINDS)}{hint}"
    if (found := _UNKNOWN_FIELD.match(text)) and found[1] in _KINDS:
        known = [field.name for field in fields(_KINDS[found[1]]) if field.init]
        hint = did_you_mean(found[2], known, f"its fields are {', '.join(known)}")
        return f"{found[1]} has no field {found[2]}: {hint}"
    if (found := _MISSING_FIELDS.match(text)) and found[1] in _KINDS:
        return f"{found[1]} lacks {found[2].replace(chr(39), '')}: write name=value for each"
    if (found := _BY_POSITION.match(text)) and found[1] in _KINDS:
        return f"{found[1]} takes its fields by name: write name=value for each"
    return None
