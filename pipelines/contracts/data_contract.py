"""A stream's shape and promise as an Open Data Contract (ODCS 3.1.0), for readers of any tool.

It holds all that is known: columns and types as the network has them, the key, the checks that
`medusa quality` makes, bound, lag, retention and width as its contracts promise them, and the
price where it is sold. The document's version is a hash of its content, so the same promise has
the same version wherever it is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from medusa_core.columns import decimal_shape
from medusa_core.market.terms import BillingUnit, Content, Terms
from medusa_core.names import StreamName
from pipelines.base.time_text import duration
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.federation import Federation
from pipelines.contracts.fields import listing
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.service_levels import promised_levels, sold_levels
from pipelines.contracts.stream_bounds import NOTHING, Promise
from pipelines.contracts.streams import StreamContract
from pipelines.storage.stable_rows import EVENT_TIME

API_VERSION = "v3.1.0"
VERSION_LENGTH = 12

_LOGICAL = {
    "boolean": "boolean",
    "int": "integer",
    "bigint": "integer",
    "double": "number",
    "string": "string",
    "binary": "string",
    "date": "date",
    "timestamp": "timestamp",
}
_CHECKS = (
    ("converged", "accuracy", "Final rows equal an independent recomputation of what landed."),
    ("complete", "completeness", "Nothing of a closed window is missing or tentative."),
    ("boundaries", "consistency", "No boundary of the stream went back."),
    ("availability", "timeliness", "Answers came within the bound, if one is promised."),
)
"""What a certificate of `medusa quality` checks, and the standard's dimension of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """All that is known of a stream: its shape, where it is computed, what is promised of it."""

    record: StreamRecord
    network: PlacedNetwork
    promise: Promise
    contract: StreamContract | None
    sold: Terms | None = None


def streams_described(federation: Federation) -> dict[StreamName, Described]:
    """Every stream of a contracts folder, by name, without a price."""
    return {
        record.name: Described(
            record=record,
            network=network,
            promise=network.promises.get(record.name, NOTHING),
            contract=federation.streams.get(record.name),
        )
        for network in federation.networks
        for record in network.streams
    }


def sellers_of(stream: StreamName, terms: Sequence[Terms]) -> tuple[Terms, ...]:
    """The content contracts that sell a stream."""
    return tuple(
        one for one in terms if isinstance(one.subject, Content) and one.subject.stream == stream
    )


def data_contract_of(described: Described) -> Mapping[str, Any]:
    """The document as data; amounts and seconds are decimals."""
    name, network = described.record.name, described.network.name
    document = {
        "apiVersion": API_VERSION,
        "kind": "DataContract",
        "id": f"medusa:{network}:{name}",
        "name": name,
        "status": "active",
        "dataProduct": network,
        "description": _description(described),
        "schema": [_schema(described)],
        "slaProperties": _service_levels(described),
        "customProperties": _custom(described),
    }
    if described.sold is not None:
        document["price"] = _price(described.sold)
    says = json.dumps(document, sort_keys=True, default=str).encode()
    return {"version": sha256(says).hexdigest()[:VERSION_LENGTH], **document}


# ------------------------------------------------------------ its parts


def _description(described: Described) -> Mapping[str, str]:
    name, network = described.record.name, described.network
    writers = listing(network.writers_of(name))
    fragment = network.fragment_of(name)
    if fragment is None:
        purpose = f"A source of the query network {network.name}, landed by {writers}."
    else:
        inputs = network.wires(f"{network.name}/{fragment}")[0]
        purpose = (
            f"Computed by fragment {fragment} of the query network {network.name} from "
            f"{listing(inputs)}, by {writers}."
        )
    return {
        "purpose": purpose,
        "usage": (
            f'`medusa read {name}` and spark.read.format("medusa") give the rows that are final; '
            f"`medusa changes {name}` gives tentative ones and their corrections, too."
        ),
        "limitations": (
            "Rows are a multiset without an order; equal rows all count unless a key is declared. "
            "What is final never changes, but for a recall, which is announced."
        ),
    }


def _schema(described: Described) -> Mapping[str, Any]:
    record = described.record
    element: dict[str, Any] = {
        "name": record.name,
        "physicalName": record.name,
        "logicalType": "object",
        "physicalType": "stream",
        "properties": [
            {
                "name": EVENT_TIME,
                "logicalType": "timestamp",
                "physicalType": "timestamp",
                "required": True,
                "description": "Event time, UTC, in microseconds.",
            },
            *(_property(record, name) for name in record.columns),
        ],
        "quality": [*_key_checks(record), *(_check(record, *check) for check in _CHECKS)],
    }
    return element


def _property(record: StreamRecord, name: str) -> Mapping[str, Any]:
    type_ = record.columns[name]
    described: dict[str, Any] = {
        "name": name,
        "logicalType": _logical(type_),
        "physicalType": type_,
        "required": False,
    }
    if type_ == "binary":
        described["logicalTypeOptions"] = {"format": "binary"}
    if name in record.key:
        described["primaryKey"] = True
        described["primaryKeyPosition"] = record.key.index(name) + 1
    return described


def _logical(type_: str) -> str:
    if type_ in _LOGICAL:
        return _LOGICAL[type_]
    _, scale = decimal_shape(type_)
    return "number" if scale else "integer"


def _key_checks(record: StreamRecord) -> list[Mapping[str, Any]]:
    if not record.key:
        return []
    return [
        {
            "type": "library",
            "metric": "duplicateValues",
            "name": "key",
            "dimension": "uniqueness",
            "description": f"{listing(record.key)} make a record unique.",
            "arguments": {"properties": list(record.key)},
            "mustBe": 0,
            "unit": "rows",
        }
    ]


def _check(record: StreamRecord, name: str, dimension: str, says: str) -> Mapping[str, Any]:
    return {
        "type": "custom",
        "name": name,
        "dimension": dimension,
        "description": says,
        "engine": "medusa",
        "implementation": f"medusa quality run {record.name}",
    }


def _service_levels(described: Described) -> list[Mapping[str, Any]]:
    contract = described.contract
    levels = promised_levels(
        width_us=described.record.width_us,
        promise=described.promise,
        retention_ms=None if contract is None else contract.retention_ms,
        verified=described.network.verified.get(described.record.name, 1),
    )
    return levels if described.sold is None else [*levels, *sold_levels(described.sold)]


def _price(terms: Terms) -> Mapping[str, Any]:
    content = terms.subject
    assert isinstance(content, Content), "only what sells a stream has a price"
    period = duration(terms.settlement_ms * 1_000)
    unit = "record" if content.per is BillingUnit.RECORD else f"settlement period of {period}"
    return {
        "priceAmount": content.price,
        "priceCurrency": terms.currency,
        "priceUnit": unit,
    }


def _custom(described: Described) -> list[Mapping[str, Any]]:
    properties: list[Mapping[str, Any]] = [
        {"property": "network", "value": described.network.name},
        {"property": "plan", "value": described.network.plan.id},
        {
            "property": "producers",
            "value": list(described.network.writers_of(described.record.name)),
        },
    ]
    if described.promise.bound is not None:
        properties.append(
            {"property": "duringFailure", "value": described.promise.bound.during_failure.value}
        )
    if described.sold is not None:
        properties += [
            {"property": "contract", "value": described.sold.contract},
            {"property": "seller", "value": described.sold.provider},
            {"property": "buyer", "value": described.sold.payer},
        ]
    return properties
