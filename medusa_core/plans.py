"""Plans: the fingerprint of everything that could change a result.

Two buckets computed under one plan from equal lineage are equal, row for row; that is what lets
replicas stand in for each other and an oracle be believed. So the fingerprint covers the network,
its expressions and function sources, the offsets of the zones of its calendar windows, the widths,
the engine's versions and its settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, NoReturn

from medusa_core.frozen import freeze
from medusa_core.names import PlanId, StreamName
from medusa_core.network import (
    QUARANTINE_LATE,
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Function,
    Join,
    Lookup,
    Map,
    Network,
    Output,
    Partitions,
    Rank,
    Resample,
    Running,
    Session,
    Source,
    Union,
    UserAggregate,
)

_KINDS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        Filter, Map, Union, Aggregate, Session, Join, Lookup, Resample, Rank, Deduplicate, Running,
        Every, Function,
    )
}  # fmt: skip

_CALENDAR = ("every", "zone", "zone_offsets")
_EMPTY = ("empty", "keys")
_LATE = ("late", "late_every")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A network with all that gives its boxes their meaning, and its fingerprint.

    `widths_us` maps every stream to its bucket width; `function_sources` every Function box, and
    every aggregate function of the user's own, to its source text; `engine` names versions and
    semantic settings.
    """

    network: Network
    widths_us: Mapping[StreamName, int]
    function_sources: Mapping[str, str]
    engine: Mapping[str, str]
    document: str = field(init=False, compare=False, repr=False)
    """Everything the fingerprint covers, as JSON with sorted keys."""
    id: PlanId = field(init=False, compare=False, repr=False)
    """The document's fingerprint."""

    def __post_init__(self) -> None:
        freeze(self, "widths_us", "function_sources", "engine")
        # Made once: a network of a thousand fragments asks for it for each of them.
        document = json.dumps(
            {
                "network": network_document(self.network),
                "widths_us": dict(self.widths_us),
                "function_sources": dict(self.function_sources),
                "engine": dict(self.engine),
            },
            sort_keys=True,
            separators=(",", ":"),
        )
        object.__setattr__(self, "document", document)
        object.__setattr__(self, "id", fingerprint_of(document))


def fingerprint_of(document: str) -> PlanId:
    """The id of the plan with a document: the first 128 bits of its SHA-256, in hexadecimal."""
    return PlanId(sha256(document.encode()).hexdigest()[:32])


def network_document(network: Network) -> dict[str, object]:
    """The network as plain JSON values; a function is named, its source stands apart."""
    document: dict[str, object] = {
        "name": network.name,
        "bucket": network.bucket,
        "sources": [_document(s) for s in network.sources],
        "boxes": [{"kind": type(b).__name__.lower(), **_document(b)} for b in network.boxes],
        "outputs": [_document(o) for o in network.outputs],
    }
    if network.partitions:  # Plans without key partitions keep their fingerprints.
        document["partitions"] = [
            {"fragment": fragment, **_document(one)} for fragment, one in network.partitions.items()
        ]
    return document


def _document(value: object) -> dict[str, object]:
    document: dict[str, object] = {}
    for one in fields(value):  # type: ignore[arg-type]
        item = getattr(value, one.name)
        if isinstance(value, Source) and one.name in ("stream", "time_zone") and item is None:
            continue  # Plans from before sources had these fields keep their fingerprints.
        if isinstance(value, Source) and one.name in _LATE and value.late == QUARANTINE_LATE:
            continue  # So do those from before late records could be admitted.
        if isinstance(value, Aggregate) and one.name in _CALENDAR and item is None:
            continue  # So do those from before calendar windows.
        if isinstance(value, Aggregate) and one.name in _EMPTY and not value.emits_empty:
            continue  # And those from before rows of empty windows.
        if isinstance(value, Aggregate) and one.name == "aggregates":
            if item:  # And those from before aggregate functions of the user's own.
                document[one.name] = [_aggregate_document(each) for each in item]
            continue
        if isinstance(value, Function) and one.name == "function":
            item = getattr(item, "__qualname__", "function")
        elif isinstance(item, Mapping):
            item = [[name, text] for name, text in item.items()]
        elif isinstance(item, tuple):
            item = list(item)
        document[one.name] = item
    return document


def _aggregate_document(aggregate: UserAggregate) -> dict[str, object]:
    types = {"takes": list(aggregate.takes), "state": list(aggregate.state)}
    return {"name": aggregate.name, **types, "gives": aggregate.gives}


def has_function_sources(document: Mapping[str, Any]) -> bool:
    """Whether the network of a plan's document calls functions of Python."""
    kinds = [(box["kind"], box.get("aggregates")) for box in document["network"]["boxes"]]
    return any(kind == Function.__name__.lower() or used for kind, used in kinds)


def network_of_document(document: Mapping[str, Any]) -> Network:
    """The network of a plan's document, as `network_document` wrote it."""
    return Network(
        name=document["name"],
        bucket=document["bucket"],
        sources=tuple(
            Source(**{**_fields_of(s), "columns": dict(s["columns"]), "key": tuple(s["key"])})
            for s in document["sources"]
        ),
        boxes=tuple(_box(box) for box in document["boxes"]),
        outputs=tuple(Output(**output) for output in document["outputs"]),
        partitions=dict(partitions_of_document(document)),
    )


def partitions_of_document(document: Mapping[str, Any]) -> Iterator[tuple[str, Partitions]]:
    """The partitioned fragments of a network's document, each with its partitions."""
    for one in document.get("partitions", ()):
        by, fragments = tuple(one["by"]), tuple(one["fragments"])
        yield (
            one["fragment"],
            Partitions(by=by, n=one["n"], cut=one["cut"], fragments=fragments),
        )


def _fields_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "kind"}


def _box(document: Mapping[str, Any]) -> Box:
    kind = _KINDS[document["kind"]]
    given = _fields_of(document)
    for one in fields(kind):
        if one.name in given and str(one.type).startswith("Mapping"):
            given[one.name] = dict(given[one.name])
        elif one.name in given and str(one.type).startswith("tuple"):
            given[one.name] = tuple(given[one.name])
    if "function" in given:
        given["function"] = _absent
    if "aggregates" in given:
        given["aggregates"] = tuple(map(_aggregate_of_document, given["aggregates"]))
    box: Box = kind(**given)
    return box


def _aggregate_of_document(document: Mapping[str, Any]) -> UserAggregate:
    types = {field: tuple(document[field]) for field in ("takes", "state")}
    return UserAggregate(
        name=document["name"],
        takes=types["takes"],
        state=types["state"],
        gives=document["gives"],
        init=_absent,
        add=_absent,
        merge=_absent,
        result=_absent,
    )


def _absent(*values: object) -> NoReturn:
    raise AssertionError("a network from the catalog is drawn and decided on, never run")
