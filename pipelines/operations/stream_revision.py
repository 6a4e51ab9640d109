"""Revise a source: add, remove or replace final records, and compute again what needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.line_revisions import RevisionReach
from medusa_core.names import Participant, StreamName
from medusa_core.recalls import BECAUSE_CHARACTERS_MAX, RecallResult, check_text
from medusa_core.revisions import RevisionRequest
from pipelines.base.failpoints import reached
from pipelines.base.settings import Settings
from pipelines.catalog.records import LineStatus
from pipelines.homes.home import Home, chosen_participant, open_home
from pipelines.operations.stream_recall import who_recalls
from pipelines.participant.recalling import line_to_recall
from pipelines.participant.repairs_export import source_of
from pipelines.participant.revising import (
    RevisedRows,
    RevisionAction,
    make_revision,
    reach_of,
    records_of_file,
    revised_rows,
    write_revised,
)
from pipelines.storage.segment_rows import columns_of
from pipelines.storage.store import remove_file


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRevisionRequest:
    """What to revise, with the records of which file, and why.

    `participant`: None for the only home of the folder. `who` is recorded with the revision; None
    for the user of this process.
    """

    participant: str | None = None
    stream: str
    action: RevisionAction
    file: Path
    because: str | None = None
    who: str | None = None

    def check(self) -> str:
        """The reason; Refused without one, and for one that is too long."""
        if self.because is None:
            raise Refused("say why it is revised, for those who read it: --because TEXT")
        return check_text("--because", self.because, BECAUSE_CHARACTERS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRevisionResult:
    """The revision as it was made, or would be (`done` None)."""

    participant: Participant
    stream: StreamName
    because: str
    who: str
    ranges: tuple[Range, ...]
    rows_before: int
    rows_after: int
    behind: RevisionReach
    done: RecallResult | None = None


class PreparedRevision:
    """A revision with its plan. Nothing is changed yet."""

    def __init__(
        self, home: Home, line: LineStatus, columns: tuple[Column, ...], rows: RevisedRows,
        because: str, who: str,
    ) -> None:  # fmt: skip
        self._home, self._line, self._columns, self._rows = home, line, columns, rows
        ranges = tuple(part for part, _ in rows.parts)
        self.plan = StreamRevisionResult(
            participant=home.participant,
            stream=line.stream.name,
            because=because,
            who=who,
            ranges=ranges,
            rows_before=rows.before,
            rows_after=rows.after,
            behind=reach_of(home.catalog, line, ranges),
        )

    def carry_out(self) -> StreamRevisionResult:
        """Write the rows and revise, in one transaction; what needs them is owed from then on."""
        plan = self.plan
        reached("revise.decided")
        segments = write_revised(self._home, self._line, self._columns, self._rows)
        reached("revise.written")
        done = make_revision(
            self._home.catalog,
            RevisionRequest(
                stream=plan.stream,
                producer=self._line.producer,
                generation=self._line.generation,
                segments=segments,
                because=plan.because,
                who=plan.who,
                behind=plan.behind.behind,
                needed=plan.behind.needed,
            ),
            partial(remove_file, self._home.storage),
        )
        reached("revise.made")
        return StreamRevisionResult(
            participant=plan.participant, stream=plan.stream, because=plan.because, who=plan.who,
            ranges=plan.ranges, rows_before=plan.rows_before, rows_after=plan.rows_after,
            behind=plan.behind, done=done,
        )  # fmt: skip


@contextmanager
def prepare_revision(
    settings: Settings, request: StreamRevisionRequest
) -> Iterator[PreparedRevision]:
    """Open the home as its owner and plan the revision.

    Raises Refused for a stream that is not landed here, for a record that does not fit or lies
    where nothing is stable, and if what would be computed again is trimmed.
    """
    because = request.check()
    here = chosen_participant(settings, request.participant)
    with open_home(settings, here, as_owner=True) as home:
        source = source_of(home, request.stream)
        line = line_to_recall(home.catalog, request.stream, None)
        columns = columns_of(line.stream)
        given = records_of_file(source, request.file)
        rows = revised_rows(home, line, columns, given, request.action)
        who = request.who or who_recalls()
        yield PreparedRevision(home, line, columns, rows, because, who)
