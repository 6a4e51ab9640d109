"""Recall final rows of a stream from a bucket on, with everything that was computed from them."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.names import Participant, check_name
from medusa_core.recalls import (
    BECAUSE_CHARACTERS_MAX,
    WHO_CHARACTERS_MAX,
    LineRecall,
    RecallRequest,
    RecallResult,
    check_text,
)
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.catalog.records import LineStatus
from pipelines.homes.home import chosen_participant, open_home
from pipelines.participant.home_session import open_session
from pipelines.participant.recalling import (
    RecallingHome,
    check_begin,
    line_to_recall,
    recall_of,
    with_needs,
)
from pipelines.platform.drills.fault_injected_exchange import FaultInjectedExchange
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecallRequest:
    """What to recall, and why.

    `participant`: None for the only home of the folder. `follow` names the partner whose recall of
    the stream is agreed to; without it a reason is needed. `who` is recorded with the recall; None
    for the user of this process.
    """

    participant: str | None = None
    stream: str
    from_us: int
    because: str | None = None
    follow: str | None = None
    who: str | None = None

    def check(self) -> None:
        """Refused without a reason, for one that is too long, and for an invalid name."""
        if self.follow is not None:
            check_name("partner", self.follow)
        if self.because is not None:
            check_text("--because", self.because, BECAUSE_CHARACTERS_MAX)
        elif self.follow is None:
            raise Refused("say why it is taken back, for those who read it: --because TEXT")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecallResult:
    """The lines that were recalled, or would be: `is_done` tells which.

    `follows`: the generation of the partner's recall that is agreed to.
    """

    participant: Participant
    from_us: int
    because: str
    who: str
    follows: int | None
    lines: tuple[RecallResult, ...]
    is_done: bool


class PreparedRecall:
    """A recall with its plan: the lines that it would take back. Nothing is changed yet."""

    def __init__(self, catalog: RecallingHome, recall: RecallRequest) -> None:
        self._catalog, self._recall = catalog, recall
        self.plan = self._result(is_done=False)

    def carry_out(self) -> StreamRecallResult:
        """Recall, in one transaction; the rows are computed again from there on."""
        return self._result(is_done=True)

    def _result(self, *, is_done: bool) -> StreamRecallResult:
        recall = self._recall
        return StreamRecallResult(
            participant=self._catalog.participant,
            from_us=recall.from_us,
            because=recall.because,
            who=recall.who,
            follows=recall.follows,
            lines=tuple(self._catalog.recall(recall, explain=not is_done)),
            is_done=is_done,
        )


@contextmanager
def prepare_recall(settings: Settings, request: StreamRecallRequest) -> Iterator[PreparedRecall]:
    """Open the home as its owner and plan the recall.

    Raises Refused for a stream or bucket of which nothing can be recalled, and if the recall of the
    partner that is followed reaches further back.
    """
    request.check()
    here = chosen_participant(settings, request.participant)
    follow = None if request.follow is None else Participant(request.follow)
    with ExitStack() as stack:
        home = stack.enter_context(open_home(settings, here, as_owner=True))
        line = line_to_recall(home.catalog, request.stream, follow)
        check_begin(line, request.from_us, is_followed=follow is not None)
        followed = None
        if follow is not None:
            followed = _recall_of_partner(settings, here, stack, line, request.from_us)
        recall = RecallRequest(
            stream=line.stream.name,
            producer=line.producer,
            from_us=request.from_us,
            because=request.because or _because_of(line, followed),
            who=request.who or who_recalls(),
            follows=None if followed is None else followed.generation,
        )
        yield PreparedRecall(home.catalog, with_needs(home.catalog, recall))


def _recall_of_partner(
    settings: Settings, here: Participant, stack: ExitStack, line: LineStatus, from_us: int
) -> LineRecall:
    """The partner's recall of its line; Refused if it begins before `from_us`."""
    home_session = stack.enter_context(open_session(settings, here))
    links = FaultInjectedLinks(settings.directory, here)
    recall = recall_of(FaultInjectedExchange(home_session.exchange, links), line)
    if recall.from_us < from_us:
        partner = line.producer.participant
        raise Refused(
            f"partner {partner} recalled {line.stream.name} from {iso(recall.from_us)} on "
            f"(generation {recall.generation}: {recall.because}): give --from "
            f"{iso(recall.from_us)}"
        )
    return recall


def _because_of(line: LineStatus, followed: LineRecall | None) -> str:
    assert followed is not None, (
        "a recall that follows none has a reason (StreamRecallRequest.check)"
    )
    return f"{line.producer.participant}: {followed.because}"[:BECAUSE_CHARACTERS_MAX]


def who_recalls() -> str:
    """The user of this process, as one line."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = ""
    shown = "".join(c for c in name if c.isprintable())[:WHO_CHARACTERS_MAX].strip()
    return shown or "operator"
