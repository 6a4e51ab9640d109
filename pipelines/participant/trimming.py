"""Trimming of a home: unneeded buckets are removed, from the catalog and then from the disk.

Holds in the catalog protect the buckets that must remain; the trim itself holds what this home's
own fragments have yet to read. Files are removed only after the catalog has forgotten them: a
crash in between leaves orphans, which the removal of orphans takes, and never a name without a
file (S10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, Move, move_of
from medusa_core.grid import FOREVER_US
from medusa_core.knowledge import Limits, OutputKnowledge
from medusa_core.names import PlanId, StreamName
from medusa_core.trims import Planned, TrimResult, needed_from_us, shapes_owed
from pipelines.base.failpoints import reached
from pipelines.catalog.processing_roles import Deployments, Plans, Trims
from pipelines.catalog.records import LineStatus
from pipelines.homes.deployed_fragments import network_in
from pipelines.language.check import check_network, fragments_for
from pipelines.storage.store import remove_file

SEGMENTS_PER_CALL_MAX = 5_000
"""How many rows go in one transaction: commits of the line wait for it."""

Needs = Mapping[StreamName, Mapping[str, int]]
"""Stream -> fragment -> from when on this home's fragment has yet to read it."""


Before = Callable[[LineStatus], int | None]
"""Before when a line shall be trimmed; None: not at all."""


@dataclass(frozen=True, slots=True)
class Freed:
    """What a trim of one line did: `files` that were named, of them `removed` from the disk."""

    status: LineStatus
    trimmed: TrimResult
    removed: int = 0

    @property
    def freed_bytes(self) -> int:
        """How much the files take."""
        return sum(file.size_bytes for file in self.trimmed.files)


def needs_of(
    catalog: Deployments, fragments: Mapping[str, Fragment], planned: Planned | None = None
) -> Needs:
    """What the fragments that this home computes have yet to read; `fragments` by id.

    `planned` is what every plan of the assignment log makes of them, where there was more than one.
    A fragment that is assigned here and not among `fragments` holds all of its inputs, and so does
    one whose plan is not known. One that a provider computes needs the provider's rows and files of
    its outputs, from the first bucket on that is not adopted yet (S10).
    """
    needs: dict[StreamName, dict[str, int]] = {}
    for known in catalog.read_knowledge(fragments, Limits()).fragments:
        shapes = None if planned is None else shapes_owed(known, planned)
        if planned is not None and shapes is None:
            continue
        needed = needed_from_us(known, shapes)
        if known.provider is not None:
            needed |= {output.stream: _not_adopted_us(output) for output in known.outputs.values()}
        for stream, from_us in needed.items():
            of_stream = needs.setdefault(stream, {})
            # A fragment may be here in several partitions or replicas: it needs what any needs.
            name = known.fragment.id
            of_stream[name] = min(of_stream.get(name, FOREVER_US), from_us)
    return needs


def _not_adopted_us(output: OutputKnowledge) -> int:
    """The first bucket whose final rows may still be adopted; they replace tentative ones."""
    if output.tentative_us is None:
        return output.boundary_us
    return min(output.tentative_us, output.boundary_us)


def needs_here(catalog: Deployments) -> Needs:
    """`needs_of`, with all that the catalog itself says of plans and fragments."""
    while True:
        documents, assignments = _documents(catalog), catalog.assignments()
        moves = {a.fragment: of for a in assignments if (of := move_of(a.fragment))}
        planned = {
            plan: _with_moved(_fragments_of(document), moves)
            for plan, document in documents.items()
        }
        fragments = {
            line.fragment: its[line.fragment]
            for line in assignments
            if (its := planned.get(line.plan)) and line.fragment in its
        }
        found = needs_of(catalog, fragments, planned)
        # A plan that came between the two looks may read further back than those seen.
        if _documents(catalog).keys() == documents.keys():
            return found


def shapes_here(catalog: Plans) -> dict[str, tuple[Fragment, ...]]:
    """The fragments that are assigned, by id, each as every known plan of the log has it."""
    found: dict[str, tuple[Fragment, ...]] = {}
    for document in _documents(catalog).values():
        for name, fragment in (_fragments_of(document) or {}).items():
            found[name] = (*found.get(name, ()), fragment)
    return found


def _with_moved(
    fragments: Mapping[str, Fragment] | None, moves: Mapping[str, tuple[Move, str]]
) -> Mapping[str, Fragment] | None:
    """With those that this home computes for their payers, under the names of their moves."""
    if fragments is None:
        return None
    moved = {
        name: replace(fragments[of], move=move)
        for name, (move, of) in moves.items()
        if of in fragments
    }
    return {**fragments, **moved}


def _documents(catalog: Plans) -> dict[PlanId, str]:
    return {plan.id: plan.document for plan in catalog.plans(superseded=True)}


@lru_cache(maxsize=64)
def _fragments_of(document: str) -> Mapping[str, Fragment] | None:
    try:
        network = network_in(document)
        return None if network is None else {f.id: f for f in fragments_for(check_network(network))}
    except Refused:
        return None  # an expression that was allowed once, or what a partner calls a plan


def furthest_us(catalog: Trims, status: LineStatus, needs: Needs) -> int:
    """Up to where nothing holds a line."""
    trimmed = trim_once(catalog, status, FOREVER_US, needs, segments_max=0, explain=True)
    return FOREVER_US if trimmed.held_by is None else trimmed.held_by.from_us


def trim_once(catalog: Trims, status: LineStatus, before_us: int, needs: Needs, *,
              segments_max: int | None = None, explain: bool = False) -> TrimResult:  # fmt: skip
    """One call of `Trims.trim`."""
    stream = status.stream.name
    return catalog.trim(
        stream,
        status.producer,
        before_us,
        needed=needs.get(stream, {}),
        segments_max=SEGMENTS_PER_CALL_MAX if segments_max is None else segments_max,
        explain=explain,
    )


def explain_trim(catalog: Trims, status: LineStatus, before_us: int, needs: Needs) -> Freed:
    """What a trim would do; nothing is done."""
    everything = 2**31 - 1
    trimmed = trim_once(catalog, status, before_us, needs, segments_max=everything, explain=True)
    return Freed(status, trimmed)


def trim_line(
    catalog: Trims, root: Path, status: LineStatus, before_us: int, needs: Needs
) -> Freed:
    """Trim a line before an event time, or as far as nothing holds it, and remove its files."""
    whole = Freed(status, trim_once(catalog, status, before_us, needs))
    whole = replace(whole, removed=remove_files(root, whole.trimmed))
    while whole.trimmed.has_more:
        more = trim_once(catalog, status, before_us, needs)
        whole = Freed(
            status, _together(whole.trimmed, more), whole.removed + remove_files(root, more)
        )
    return whole


def before_of_retentions(retentions: Mapping[StreamName, int]) -> Before:
    """As `before_of`, by what is declared in ms for each stream; None where nothing is."""

    def before(status: LineStatus) -> int | None:
        kept_ms = retentions.get(status.stream.name)
        return None if kept_ms is None else before_of(kept_ms * 1_000, None)(status)

    return before


def before_of(keep_us: int | None, before_us: int | None) -> Before:
    """Before when a line is trimmed: a time, or so long behind its stable prefix's end.

    None for a line that has not begun.
    """

    def before(status: LineStatus) -> int | None:
        through_us = status.stable_through_us
        if through_us is None or before_us is not None:
            return before_us if through_us is not None else None
        return None if keep_us is None else through_us - keep_us

    return before


def remove_files(root: Path, trimmed: TrimResult) -> int:
    """Remove what a trim freed from the disk; how many files were there."""
    reached("trim.committed")
    return sum(remove_file(root, file.path) for file in trimmed.files)


def _together(first: TrimResult, then: TrimResult) -> TrimResult:
    return replace(
        then,
        from_us=first.from_us,
        segments=first.segments + then.segments,
        rows=first.rows + then.rows,
        files=first.files + then.files,
    )
