"""The seller's side of definitions: check them, run them, and end them with their contracts.

A definition becomes a network of the seller's home, with one fragment that this home computes. It
is checked like any network of the owner's: expressions against the allow-lists, columns against the
stream, so that nothing runs that an owner could not write. The contract in force grants what it
writes to its buyer (`medusa_api.sold_streams`), and to nobody else. All state is in the home: a
look that was cut short is completed by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import fsum
from pathlib import Path
from typing import Protocol

from medusa_core.errors import Conflict, MedusaError, Refused
from medusa_core.loads import load_of
from medusa_core.market.definitions import (
    defined_stream,
    exceeds,
    network_of_definition,
    read_definition,
)
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from pipelines.base.foreign_documents import parse_json
from pipelines.catalog.definition_store import Definitions, DueDefinition
from pipelines.catalog.processing_roles import Deployments
from pipelines.catalog.reading_roles import Lines, LoadLog
from pipelines.language.check import check_network, fragments_for
from pipelines.spark.deployment import deployment_of, equal_widths, plan_of_widths

ENDED = (
    "its contract is not in force any more or lets the buyer define no boxes, or the buyer is no "
    "partner any more"
)
NO_STREAM = "the stream of the contract is not there yet"
MEASURED_MS = 300_000
"""Before that the window of the measurement may hold what starting cost."""


class SellersHome(Deployments, Lines, LoadLog, Protocol):
    """The streams of a home, what is computed there, and what it costs."""


class DefinitionSync:
    """Settles the definitions of a home's buyers; `on_error` receives what was refused."""

    def __init__(
        self,
        definitions: Definitions,
        catalog: SellersHome,
        directory: Path,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._definitions = definitions
        self._catalog = catalog
        self._directory = directory
        self._on_error = on_error

    def settle(self) -> int:
        """Begin what waits and end what may run no more; how many were settled."""
        due = self._definitions.due()
        if not due:
            return 0
        loads = self._loads()
        return sum(self._is_settled(one, loads.get(one.number, 0.0)) for one in due)

    def _is_settled(self, due: DueDefinition, load: float) -> bool:
        if due.stream is None or due.boxes is None or due.load_max is None:
            return self._definitions.settle(due.number, "ended", ENDED)
        if due.running_ms is not None:
            if due.running_ms < MEASURED_MS or not exceeds(load, due.load_max):
                return False
            reason = f"it takes {load:.3g} cores: contract {due.contract} allows {due.load_max:g}"
            return self._definitions.settle(due.number, "ended", reason)
        try:
            self._begin(due, due.stream)
        except Refused as error:
            self._on_error(Refused(f"definition {due.name} of {due.buyer} is refused: {error}"))
            return self._definitions.settle(due.number, "refused", str(error))
        except Conflict as error:
            self._on_error(error)
            return False
        return self._definitions.settle(due.number, "running", None)

    def _begin(self, due: DueDefinition, stream: StreamName) -> None:
        """Deploy the network of a definition; the same again is nothing."""
        here = self._catalog.participant
        own = [line for line in self._catalog.lines(stream) if line.producer.participant == here]
        if not own:
            raise Refused(NO_STREAM)
        record = own[0].stream
        network = network_of_definition(
            read_definition(parse_json(due.document, "the definition", "send another one")),
            due.buyer,
            stream,
            record.columns,
            due.boxes or frozenset(),
        )
        try:
            checked = check_network(network)
            fragments = fragments_for(checked)
            widths_us = equal_widths(network, fragments, record.width_us)
            plan = plan_of_widths(network, checked, widths_us, self._directory)
        except RecursionError:
            raise Refused("its expressions nest too deeply: split them among boxes") from None
        if plan.id in {known.id for known in self._catalog.plans(superseded=True)}:
            return
        if self._catalog.lines(StreamName(network.name)):
            raise Refused(f"there is a stream {network.name} already: choose another name")
        self._catalog.deploy(deployment_of(plan, checked, fragments, Producer(here)))

    def _loads(self) -> dict[int, float]:
        """The load of each definition that runs, in cores, over the window of the load log."""
        found: dict[int, float] = {}
        load = load_of(self._catalog.loads_since(), self._catalog.read_clock_ms())
        if load is None:
            return found
        networks = {plan.id: plan.network for plan in self._catalog.plans()}
        of_fragment = {a.fragment: networks.get(a.plan) for a in self._catalog.assignments()}
        for due in self._definitions.due():
            with suppress(MedusaError):
                name = defined_stream(due.buyer, due.name)
                found[due.number] = fsum(
                    cores
                    for key, cores in load.by_key.items()
                    if str(of_fragment.get(key.fragment)) == name
                )
        return found
