"""Answers that leave panes, and corrections that continue from them without reading all again.

An answer without some inputs runs a plan that also outputs the panes of the final inputs; its
correction runs one that takes them (`pipelines.language.pane_fragments`), so that it reads only the
missing inputs. Both give the same rows as the plan of every other step, which does not depend on
this and pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.columns import Column
from medusa_core.commits import Cause
from medusa_core.decide import ComputeStep
from medusa_core.digest import sum_of
from medusa_core.emitted_windows import emitting
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.names import StreamName
from pipelines.language.check import CheckedNetwork
from pipelines.language.pane_fragments import PaneFragments, PanesOf, kept_panes
from pipelines.spark.compiled_fragment import CompiledFragment
from pipelines.spark.inputs import InputRecords, input_records
from pipelines.spark.job import FragmentJobs
from pipelines.spark.pane_files import LeftPanes, PaneFiles, PaneRows, contents, taken_of
from pipelines.spark.results import Target, Verified, Written
from pipelines.spark.step_panes import EVERYTHING, ranges_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS_MIN = 2_000
"""Panes of fewer records would save less than they cost."""

ROWS_PER_RECORD_MAX = 0.6
"""How many rows of panes there may be for a record that they stand for; more would be no saving.

At half a row for a record leaving them costs as much CPU as the correction saves by them.
"""

ROWS_PER_RECORD_GUESS = 0.1
ANSWERS_WITHOUT = 16
"""How many answers leave no panes after one whose panes would have been too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneStep:
    """A step over panes: its job, what it reads, and the streams by which panes come.

    `originals` maps the inputs whose records are kept to the streams that these are of.
    """

    jobs: FragmentJobs
    inputs: Sequence[InputRecords]
    originals: Mapping[StreamName, StreamName] = field(default_factory=dict)
    comes_as_panes: frozenset[StreamName] = frozenset()
    gives: Sequence[PanesOf] = ()
    holds: Mapping[StreamName, tuple[Range, str]] | None = None
    records_held: int = 0

    @property
    def records(self) -> int:
        """How many records it reads; panes are none."""
        return sum(i.rows for i in self.inputs if i.stream not in self.comes_as_panes)


class PaneCache:
    """The jobs of one fragment that give and take panes, compiled when the first is needed."""

    def __init__(
        self, session: SparkSession, root: Path, checked: CheckedNetwork, fragment: Fragment,
        like: CompiledFragment,
    ) -> None:  # fmt: skip
        """`like` is the fragment as every other step runs it."""
        self._root = root
        self._columns = {s: checked.columns[p] for p, s in fragment.inputs.items()}
        # Without its only input there is no answer.
        self._kept: PaneFragments | None = None
        if len(self._columns) > 1 and not emitting(fragment):
            self._kept = kept_panes(checked, fragment)
        self._files = PaneFiles(root, fragment.id)
        self._has_answers = False
        self._is_verifiable = True
        self._rows_per_record = ROWS_PER_RECORD_GUESS
        self._without = 0
        if self._kept is not None:
            self._giving = FragmentJobs(session, root, *self._kept.giving, like=like)
            self._taking = FragmentJobs(session, root, *self._kept.taking, like=like)
            self._shape = _fingerprint(self._giving.compiled, self._taking.compiled)

    def pane_step_of(self, step: ComputeStep) -> PaneStep | None:
        """How to run an answer or a correction over panes; None if there is nothing in it."""
        self._files.let_go(step)
        if self._kept is None:
            return None
        if step.cause is Cause.TENTATIVE:
            return self._to_give(step, self._kept)
        return self._to_take(step, self._kept) if step.cause is Cause.CORRECTION else None

    def warm_up(self, plain: FragmentJobs) -> Verified | None:
        """Make the plans of answers and of their corrections and run them over generated records,
        so that the first of each is quick. The plan of answers is compared with `plain`."""
        if self._kept is None:
            return None
        # What panes stand for is not generated with them: the first correction is compared.
        panes = {p.taken: p.columns for p in self._kept.panes}
        taking = self._taking.warm_up({**self._columns, **panes})
        giving = self.verify(plain)
        return taking if taking is not None and taking.difference is not None else giving

    def verify(self, plain: FragmentJobs) -> Verified | None:
        """Compare the plan of answers with `plain`, over generated records."""
        assert self._kept is not None
        kept = self._kept.kept
        columns = {**self._columns, **{own: self._columns[s] for s, own in kept.items()}}
        self._has_answers = False
        verified = self._giving.warm_up(columns, plain, {own: s for s, own in kept.items()})
        self._is_verifiable = verified is not None
        return verified

    @property
    def is_verification_due(self) -> bool:
        """Whether an answer came for which the plan of answers was not compared, or long ago."""
        is_desired = self._has_answers and self._giving.is_preparable and self._is_verifiable
        return is_desired and self._giving.verification().is_trial_due

    def _to_give(self, step: ComputeStep, kept: PaneFragments) -> PaneStep | None:
        if self._without:
            self._without -= 1
            return None
        holds = {
            stream: (part, content)
            for stream, part in ranges_of(step.reads).items()
            if stream in kept.kept and (content := contents(step, stream, part)) is not None
        }
        inputs = {name: self._records(step, name) for name in step.fragment.inputs}
        held = sum(inputs[name].rows for name in holds)
        if held < RECORDS_MIN:
            return None
        self._has_answers = True
        # A plan that is made for each answer needs no verification.
        if self._giving.is_preparable and not self._giving.verification().may_answer:
            return None
        given = []
        for name, records in inputs.items():
            nothing = replace(records, parts=())
            given.append(nothing if name in holds else records)
            if name in kept.kept:
                its_panes = records if name in holds else nothing
                given.append(replace(its_panes, stream=kept.kept[name]))
        originals = {own: stream for stream, own in kept.kept.items()}
        return PaneStep(jobs=self._giving, inputs=given, originals=originals, gives=kept.panes,
                   holds=holds, records_held=held)  # fmt: skip

    def _to_take(self, step: ComputeStep, kept: PaneFragments) -> PaneStep | None:
        left = self._files.read(step, self._shape)
        taken = taken_of(step, left, kept.panes, lambda one: one.is_there(self._root))
        if taken is None:
            return None
        reads = replace(step, reads=taken.reads)
        inputs = [self._records(reads, name) for name in step.fragment.inputs]
        inputs += [InputRecords(p.taken, p.columns, taken.panes[p.box]) for p in kept.panes]
        return PaneStep(
            jobs=self._taking, inputs=inputs, comes_as_panes=frozenset(p.taken for p in kept.panes)
        )

    def _records(self, step: ComputeStep, name: StreamName) -> InputRecords:
        columns: tuple[Column, ...] = self._columns[name]
        return input_records(name, columns, step.fragment.inputs[name].segments, step.reads)

    def rows_expected(self, pane_step: PaneStep) -> float:
        """How many rows of panes come out."""
        return self._rows_per_record * pane_step.records_held

    def targeted(self, pane_step: PaneStep, target: Target) -> Target:
        """The target with a place for panes."""
        if not pane_step.gives:
            return target
        places = {p.given: StreamName(f"{self._files.folder}/{p.box}") for p in pane_step.gives}
        shapes = [s for s in pane_step.jobs.compiled.outputs if s.stream in places]
        return replace(
            target,
            shapes=(*target.shapes, *(replace(s, stream=places[s.stream]) for s in shapes)),
            widths_us={**target.widths_us, **{places[p.given]: p.size_us for p in pane_step.gives}},
            ranges={**target.ranges, **dict.fromkeys(places.values(), EVERYTHING)},
        )

    def leave(
        self, step: ComputeStep, pane_step: PaneStep, target: Target, written: Sequence[Written]
    ) -> list[Written]:
        """Leave the panes among what was written to the correction, if they are worth it.

        Returns the rest, which are the step's own outputs.
        """
        if not pane_step.gives:
            return list(written)
        place = f"{self._files.folder}/"
        panes = [w for w in written if w.stream.startswith(place)]
        rows = sum(sum_of(w.buckets.values()).rows for w in panes)
        self._rows_per_record = rows / pane_step.records_held
        assert pane_step.holds is not None
        if rows <= ROWS_PER_RECORD_MAX * pane_step.records_held:
            left = LeftPanes(
                plan=step.fragment.plan,
                shape=self._shape,
                range=step.range,
                inputs=pane_step.holds,
                panes={
                    w.stream.removeprefix(place): PaneRows(
                        files=w.files, rows={at: d.rows for at, d in w.buckets.items()}
                    )
                    for w in panes
                },
            )
            self._files.leave(target.attempt, left)
        else:
            self._files.remove(f for w in panes for f in w.files)
            self._without = ANSWERS_WITHOUT
        return [w for w in written if not w.stream.startswith(place)]


def _fingerprint(*compiled: CompiledFragment) -> str:
    texts = [text for c in compiled for text in (*(s.sql for s in c.statements), c.sql)]
    return sha256("\n".join(texts).encode()).hexdigest()[:32]
