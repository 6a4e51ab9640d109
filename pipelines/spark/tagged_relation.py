"""All rows of a step as one relation, so that one job computes them: a tag separates them.

Columns of equal type share slots. Outputs that only filter one relation are separated in one pass
over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from medusa_core.columns import Column
from medusa_core.names import StreamName
from pipelines.spark.compiled_fragment import (
    TAG,
    CarriedShape,
    CompiledFragment,
    FallibleBox,
    OutputShape,
    PaneShape,
)
from pipelines.spark.failure_numbers import ERROR
from pipelines.spark.fragment_relations import Relations, all_of, rows_where
from pipelines.storage.arrow_schema import STIME


@dataclass(frozen=True, slots=True)
class FailedRows:
    """A relation of failed rows with the number of the failure; `row` lists their columns."""

    box: str
    relation: str
    row: str
    expressions: tuple[tuple[str, str], ...]
    is_window: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedRelation:
    """A relation of rows that a box leaves; the fields are those of a CarriedShape."""

    box: str
    relation: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    within_us: int | None = None
    max_age_us: int | None = None
    is_open: bool = False


def column_names(columns: Sequence[Column]) -> tuple[str, ...]:
    """The names of columns, in quotes."""
    return tuple(f"`{c.name}`" for c in columns)


class TaggedRelation:
    """Takes outputs, failed rows, panes and what is carried on; then gives the fragment."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations
        self._slots = _Slots()
        self._branches: dict[str, _Branch] = {}
        self._outputs: list[OutputShape] = []
        self._fallible: list[FallibleBox] = []
        self._panes: list[PaneShape] = []
        self._carried: list[CarriedShape] = []

    def add_output(self, stream: StreamName, relation: str, columns: tuple[Column, ...]) -> None:
        """The rows of an output."""
        tag, slots = len(self._outputs), self._slots.take([c.type for c in columns])
        self._outputs.append(OutputShape(stream, tag, columns, slots))
        relation, predicates = self._relations.unfiltered(relation)
        # A filter keeps the columns, so that all outputs of one branch fill the same slots.
        by_slot = dict(zip(slots, column_names(columns), strict=True))
        branch = self._branches.setdefault(relation, _Branch(relation, by_slot))
        branch.predicates[str(tag)] = predicates

    def add_failed(self, failed: FailedRows) -> None:
        """The rows that a box failed on, as JSON."""
        tag, slots = -1 - len(self._fallible), self._slots.take(["int", "string"])
        self._fallible.append(
            FallibleBox(failed.box, tag, failed.expressions, slots, failed.is_window)
        )
        by_slot = {slots[0]: ERROR, slots[1]: f"to_json(struct({failed.row}))"}
        self._branches[str(tag)] = _Branch(failed.relation, by_slot, {str(tag): []})

    def add_panes(self, box: str, relation: str, columns: tuple[Column, ...]) -> None:
        """The panes that a box makes."""
        tag, slots = self._add_left(relation, columns)
        self._panes.append(PaneShape(box, tag, columns, slots))

    def add_carried(self, carried: CarriedRelation) -> None:
        """The rows that a box leaves in place of its records."""
        tag, slots = self._add_left(carried.relation, carried.columns)
        self._carried.append(
            CarriedShape(
                carried.box, tag, carried.columns, slots, carried.keys,
                within_us=carried.within_us, max_age_us=carried.max_age_us,
                is_open=carried.is_open,
            )
        )  # fmt: skip

    def _add_left(self, relation: str, columns: tuple[Column, ...]) -> tuple[int, tuple[str, ...]]:
        tag = len(self._outputs) + len(self._panes) + len(self._carried)
        slots = self._slots.take([c.type for c in columns])
        by_slot = dict(zip(slots, column_names(columns), strict=True))
        self._branches[f"left {tag}"] = _Branch(relation, by_slot, {str(tag): []})
        return tag, slots

    def compiled(self) -> CompiledFragment:
        """The statements, and what was added as the last one."""
        branches = self._branches.values()
        selects = " UNION ALL ".join(b.sql(self._slots) for b in branches)
        return CompiledFragment(
            statements=tuple(self._relations.statements),
            sql=self._relations.with_clause(*(b.relation for b in branches)) + selects,
            outputs=tuple(self._outputs),
            fallible=tuple(self._fallible),
            panes=tuple(self._panes),
            carried=tuple(self._carried),
        )


@dataclass
class _Branch:
    """A relation whose rows go to one or more outputs, each with the filters before it."""

    relation: str
    by_slot: Mapping[str, str]
    predicates: dict[str, list[str]] = field(default_factory=dict)

    def sql(self, slots: _Slots) -> str:
        """Its rows, each once for every tag whose filters it passes."""
        columns = ", ".join(slots.columns(self.by_slot))
        if len(self.predicates) == 1:
            ((tag, predicates),) = self.predicates.items()
            rows = rows_where(self.relation, all_of(predicates)) if predicates else self.relation
            return f"SELECT {tag} AS {TAG}, {STIME}, {columns} FROM {rows}"
        tags = ", ".join(f"IF({all_of(p)}, {tag}, NULL)" for tag, p in self.predicates.items())
        tagged = f"SELECT *, explode(array_compact(array({tags}))) AS {TAG} FROM {self.relation}"
        return f"SELECT {TAG}, {STIME}, {columns} FROM ({tagged})"


@dataclass
class _Slots:
    """The columns of the tagged relation: as many of each type as one output has at most."""

    types: dict[str, str] = field(default_factory=dict)

    def take(self, types: list[str]) -> tuple[str, ...]:
        """One slot for each type, shared with other outputs but not within one."""
        taken: list[str] = []
        for type_ in types:
            free = (s for s, t in self.types.items() if t == type_ and s not in taken)
            slot = next(free, None) or f"_c{len(self.types)}"
            self.types[slot] = type_
            taken.append(slot)
        return tuple(taken)

    def columns(self, by_slot: Mapping[str, str]) -> Iterator[str]:
        """Every slot as a column: the given expression or a NULL of its type."""
        for slot, type_ in self.types.items():
            yield f"{by_slot.get(slot, f'CAST(NULL AS {type_})')} AS {slot}"
