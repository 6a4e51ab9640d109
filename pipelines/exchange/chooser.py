"""The choice among the producers of a stream: decided by the core, carried out here.

No file is read and no job is run: the chosen rows are in this home already, as copies or computed
here. A choice is one transaction, so a crash anywhere leaves nothing half done; after a lost
reply the choice is decided again from the current state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from medusa_core.choosing import choose
from medusa_core.commits import LeaseKey
from medusa_core.divergence import Divergence
from medusa_core.errors import Diverged, Refused
from medusa_core.exchange import import_fragment
from medusa_core.imports import Choose, ChosenRows, ImportKnowledge, explain_choice
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.wait_budget import WaitBudget
from pipelines.base.failpoints import reached
from pipelines.base.time_text import iso
from pipelines.catalog.processing_roles import Imports
from pipelines.catalog.records import Assignment
from pipelines.homes.lease_renewer import LeaseRenewer


class Chooser:
    """Chooses for one home; `on_error` receives refusals and disagreements of producers.

    After a tick `wakes_in_ms` is when there is more to choose even if nothing happens.
    """

    def __init__(
        self,
        catalog: Imports,
        leases: LeaseRenewer,
        on_error: Callable[[Exception], None],
        *,
        limits: Limits | None = None,
        chose: Callable[[Choose], None] = lambda choice: None,
    ) -> None:
        self._catalog = catalog
        self._leases = leases
        self._on_error = on_error
        self._limits = limits or Limits()
        self._chose = chose
        self._wait_budgets: Mapping[StreamName, WaitBudget] = {}
        self.wakes_in_ms: int | None = None

    def set_wait_budgets(self, wait_budgets: Mapping[StreamName, WaitBudget]) -> None:
        """How long each stream may be waited for by what reads it here."""
        self._wait_budgets = wait_budgets

    def tick(self) -> int:
        """Choose once among what is there; how many rows were chosen.

        Raises Conflict if a lease was lost, Unavailable and OutcomeUnknown as the catalog does.
        """
        rows, dues = 0, []
        for knowledge in self._catalog.read_imports(self._limits):
            wait_budget = self._wait_budgets.get(knowledge.stream)
            chosen = choose(knowledge, wait_budget, knowledge.clock_ms)
            if chosen.waits_until_ms is not None:
                dues.append(chosen.waits_until_ms - knowledge.clock_ms)
            if chosen.is_nothing:
                continue
            try:
                self._commit(knowledge, chosen)
            except Refused as error:
                # What is the matter with one stream is no reason to leave the others.
                self._on_error(error)
                continue
            rows += len(chosen.rows)
        self.wakes_in_ms = max(min(dues), 0) if dues else None
        return rows

    def _commit(self, knowledge: ImportKnowledge, chosen: ChosenRows) -> None:
        reached("choice.decided")
        key = LeaseKey(
            fragment=import_fragment(knowledge.stream),
            producer=knowledge.reader,
            partition=knowledge.partition,
        )
        self._catalog.commit_choice(self._leases.lease(key), chosen)
        reached("choice.committed")
        for choice in chosen.rows:
            self._chose(choice)
        for divergence in chosen.divergences:
            self._on_error(Diverged(sentence_of(divergence)))


def chooses(assignments: tuple[Assignment, ...]) -> bool:
    """Whether there is anything to choose under these assignments."""
    return any(a.producer.is_import for a in assignments)


def choices_of(catalog: Imports) -> list[str]:
    """What would be chosen now, a line for each row; what is waited for is left out."""
    return [
        explain_choice(choice)
        for knowledge in catalog.read_imports(Limits())
        for choice in choose(knowledge, None, knowledge.clock_ms).rows
    ]


def sentence_of(divergence: Divergence) -> str:
    """What has happened, and what to do."""
    one, other = divergence.one, divergence.other
    return (
        f"{divergence.stream} by {one.producer} and by {other.producer} differ in the bucket at "
        f"{iso(divergence.bucket_us)} under plan {divergence.plan} ({one.digest.rows} and "
        f"{other.digest.rows} rows): nothing of it becomes final here from there on; see medusa "
        f"explain diverged {divergence.stream}"
    )
