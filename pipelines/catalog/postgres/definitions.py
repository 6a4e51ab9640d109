"""The definitions in a home in Postgres: every call one statement; the database decides."""

from __future__ import annotations

from medusa_core.market.definitions import Definition, document_of_definition
from medusa_core.market.terms import BoxKind, ContractName
from medusa_core.names import Participant, StreamName
from pipelines.catalog.definition_store import Definitions, DefinitionStatus, DueDefinition
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts


class PostgresDefinitions(NamedStatements, Definitions):
    """A `Definitions` in a home, as its job logs in."""

    def define(self, definition: Definition) -> None:
        """See `Definitions.define`."""
        self._value(
            "define_boxes",
            contract=definition.contract,
            definition=definition.name,
            document=document_of_definition(definition),
        )

    def withdraw(self, name: str) -> bool:
        """See `Definitions.withdraw`."""
        return bool(self._value("withdraw_definition", definition=name))

    def due(self) -> tuple[DueDefinition, ...]:
        """See `Definitions.due`."""
        return tuple(
            DueDefinition(
                number=row["definition_id"],
                contract=ContractName(row["contract"]),
                buyer=Participant(row["buyer"]),
                name=StreamName(row["name"]),
                document=row["document"],
                running_ms=row["running_ms"],
                stream=None if row["stream"] is None else StreamName(row["stream"]),
                boxes=None if row["boxes"] is None else frozenset(map(BoxKind, row["boxes"])),
                load_max=row["load_max"],
            )
            for row in self._rows("definitions_due")
        )

    def settle(self, number: int, state: str, reason: str | None) -> bool:
        """See `Definitions.settle`."""
        values = {"definition_id": number, "state": state, "reason": reason}
        return bool(self._value("settle_definition", **values))

    def statuses(self) -> tuple[DefinitionStatus, ...]:
        """See `Definitions.statuses`."""
        return tuple(
            DefinitionStatus(
                name=StreamName(row["name"]),
                contract=ContractName(row["contract"]),
                buyer=Participant(row["buyer"]),
                state=row["state"],
                reason=row["reason"],
                stream=StreamName(row["stream"]),
                cpu_s=None if row["cpu_s"] is None else float(row["cpu_s"]),
            )
            for row in self._rows("definitions")
        )


def open_definitions(url: str) -> PostgresDefinitions:
    """The definitions of the home at `url`; one connection."""
    return PostgresDefinitions(engine_with_timeouts(url))
