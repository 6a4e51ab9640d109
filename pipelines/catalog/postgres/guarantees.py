"""Bounds and verification counts of streams in Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping

from medusa_core.bounds import Bound, Policy
from medusa_core.drops.utility import Qos, qos_document, qos_of_document
from medusa_core.grid import Range
from medusa_core.names import StreamName
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.processing_roles import ContractPresence, Guarantees
from pipelines.catalog.records import DroppedBuckets


class PostgresGuarantees(HomeDatabase, Guarantees, ContractPresence):
    """What is promised of streams."""

    def declare_bound(self, stream: StreamName, bound: Bound | None, lag_ms: int) -> None:
        """See `Guarantees.declare_bound`."""
        self._value(
            "declare_bound",
            stream=stream,
            bound_ms=bound.bound_ms if bound else None,
            during_failure=(bound.during_failure if bound else Policy.PROCESS).value,
            during_stabilization=(bound.during_stabilization if bound else Policy.PROCESS).value,
            failure_ms_max=bound.failure_ms_max if bound else None,
            lag_ms=lag_ms,
        )

    def bounds(self) -> Mapping[StreamName, tuple[Bound | None, int]]:
        """See `Guarantees.bounds`."""
        return {row["stream"]: rows.promise_of(row) for row in self._rows("bounds")}

    def declare_qos(self, stream: StreamName, qos: Qos | None) -> None:
        """See `Guarantees.declare_qos`."""
        document = None if qos is None else json.dumps(qos_document(qos))
        self._value("declare_qos", stream=stream, qos=document)

    def qos(self) -> Mapping[StreamName, Qos]:
        """See `Guarantees.qos`."""
        return {row["stream"]: qos_of_document(row["qos"]) for row in self._rows("qos")}

    def dropped(self) -> tuple[DroppedBuckets, ...]:
        """See `Guarantees.dropped`."""
        return tuple(
            DroppedBuckets(
                stream=StreamName(row["stream"]),
                producer=rows.producer_of(row),
                range=Range(row["from_us"], row["to_us"]),
                buckets=row["buckets"],
                dropped=row["dropped"],
            )
            for row in self._rows("dropped")
        )

    def declare_verify(self, stream: StreamName, count: int) -> None:
        """See `Guarantees.declare_verify`."""
        self._value("declare_verify", stream=stream, verify_count=count)

    def verifies(self) -> Mapping[StreamName, int]:
        """See `Guarantees.verifies`."""
        return {row["stream"]: row["verify_count"] for row in self._rows("verifies")}

    def declare_following(self, stream: StreamName, follows: bool) -> None:
        """See `Guarantees.declare_following`."""
        self._value("declare_following", stream=stream, follows=follows)

    def followings(self) -> tuple[StreamName, ...]:
        """See `Guarantees.followings`."""
        return tuple(row["stream"] for row in self._rows("followings"))

    def has_contracts(self) -> bool:
        """See `ContractPresence.has_contracts`."""
        return bool(self._value("has_contracts"))
