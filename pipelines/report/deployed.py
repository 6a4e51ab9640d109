"""What the catalog knows of deployments and leases, for people; and a network from its document.

The plan's document holds every box, so the network can be drawn and decided on where its file is
not at hand. The source of a Function stands in the document as text and is not run: a box of that
kind is there with its shape only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlalchemy import Connection, create_engine, text

from medusa_core.names import Participant
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Function,
    Map,
    Network,
    Output,
    Source,
    Union,
)
from pipelines.catalog.postgres import catalog_url
from pipelines.catalog.postgres_errors import errors_of_catalog

_KINDS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Filter, Map, Union, Aggregate, Function)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedPlan:
    """A plan that is assigned in this home: its fingerprint, network and document."""

    id: str
    network: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStatus:
    """A lease as it stands: whose it is, and whether it is held now by the catalog's clock."""

    fragment: str
    producer: str
    lane: str
    epoch: int
    holder: str
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """Who takes part in a home, which plans are in force, who holds what."""

    participants: Sequence[Participant]
    plans: Sequence[DeployedPlan]
    leases: Sequence[LeaseStatus]


def read_deployed(url: str) -> Deployed:
    """Everything above, in one snapshot; raises Unavailable if the catalog cannot be reached."""
    with _snapshot(url) as connection:
        participants = connection.execute(text("SELECT name FROM medusa.participant ORDER BY 1"))
        plans = connection.execute(
            text(
                "SELECT p.id, p.network, p.document FROM medusa.plan AS p WHERE p.id IN "
                "(SELECT DISTINCT ON (fragment, partition) plan FROM medusa.assignment "
                "ORDER BY fragment, partition, epoch DESC) ORDER BY p.network, p.id"
            )
        )
        leases = connection.execute(
            text(
                "SELECT fragment, participant, replica, lane::text AS lane, epoch, holder, is_held "
                "FROM medusa_api.leases ORDER BY fragment, participant, replica, lane"
            )
        )
        return Deployed(
            participants=[Participant(row.name) for row in participants],
            plans=[
                DeployedPlan(id=row.id, network=row.network, document=json.loads(row.document))
                for row in plans
            ],
            leases=[
                LeaseStatus(
                    fragment=row.fragment,
                    producer=f"{row.participant}/{row.replica}",
                    lane=row.lane,
                    epoch=row.epoch,
                    holder=row.holder,
                    is_held=row.is_held,
                )
                for row in leases
            ],
        )


@contextmanager
def _snapshot(url: str) -> Iterator[Connection]:
    engine = create_engine(catalog_url(url), isolation_level="REPEATABLE READ")
    try:
        with errors_of_catalog(), engine.connect() as connection:
            connection.execute(text("SET TRANSACTION READ ONLY"))
            yield connection
    finally:
        engine.dispose()


def network_of_document(document: Mapping[str, Any]) -> Network:
    """The network of a plan's document, as `plans.network_document` wrote it."""
    return Network(
        name=document["name"],
        bucket=document["bucket"],
        sources=tuple(
            Source(**{**_fields(s), "columns": dict(s["columns"]), "key": tuple(s["key"])})
            for s in document["sources"]
        ),
        boxes=tuple(_box(box) for box in document["boxes"]),
        outputs=tuple(Output(**output) for output in document["outputs"]),
    )


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "kind"}


def _box(document: Mapping[str, Any]) -> Box:
    fields = _fields(document)
    for name in ("columns", "cases"):
        if name in fields:
            fields[name] = dict(fields[name])
    for name in ("inputs", "group_by"):
        if name in fields:
            fields[name] = tuple(fields[name])
    if "function" in fields:
        fields["function"] = _not_here
    box: Box = _KINDS[document["kind"]](**fields)
    return box


def _not_here(frame: object) -> NoReturn:
    raise AssertionError("a network from the catalog is drawn and decided on, never run")
