"""Agree to follow the revisions of a stream that a partner made: its copy here takes them over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.line_revisions import LineRevision, RevisionAgreement, RevisionReach
from medusa_core.names import Participant, StreamName, check_name
from medusa_core.recalls import BECAUSE_CHARACTERS_MAX, check_text
from pipelines.base.settings import Settings
from pipelines.catalog.records import LineStatus
from pipelines.exchange.exchange_port import ExchangeCalls
from pipelines.homes.home import Home, chosen_participant, open_home
from pipelines.operations.stream_recall import who_recalls
from pipelines.participant.home_session import open_session
from pipelines.participant.recalling import SEGMENTS_PER_NEWS_MAX, line_to_recall
from pipelines.participant.revising import reach_of_import
from pipelines.platform.drills.fault_injected_exchange import FaultInjectedExchange
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionFollowRequest:
    """Whose revisions of which stream to follow, and why (None: for the reason that the partner
    gives). `participant`: None for the only home of the folder. `who` is recorded with the
    agreement; None for the user of this process."""

    participant: str | None = None
    stream: str
    follow: str
    because: str | None = None
    who: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionFollowResult:
    """The first revision that is followed, with what it leads to here; `generation` is the last one
    that is agreed to, and `is_done` whether it was."""

    participant: Participant
    partner: Participant
    stream: StreamName
    generation: int
    from_us: int
    ranges: tuple[Range, ...]
    because: str
    who: str
    behind: RevisionReach
    is_done: bool = False


class PreparedFollowing:
    """An agreement with its plan. Nothing is changed yet."""

    def __init__(
        self, home: Home, line: LineStatus, revision: LineRevision, request: RevisionFollowRequest
    ) -> None:
        self._home, self._line = home, line
        partner = line.producer.participant
        given = request.because or f"{partner}: {revision.because}"[:BECAUSE_CHARACTERS_MAX]
        self.plan = RevisionFollowResult(
            participant=home.participant,
            partner=partner,
            stream=line.stream.name,
            generation=revision.last_generation,
            from_us=revision.from_us,
            ranges=revision.ranges,
            because=given,
            who=request.who or who_recalls(),
            behind=reach_of_import(home.catalog, line.stream.name, revision.ranges),
        )

    def carry_out(self) -> RevisionFollowResult:
        """Agree; the revisions are followed with the partner's next news."""
        plan = self.plan
        self._home.catalog.agree_to_revisions(
            RevisionAgreement(
                stream=plan.stream,
                producer=self._line.producer,
                generation=plan.generation,
                from_us=plan.from_us,
                because=plan.because,
                who=plan.who,
            )
        )
        return replace(plan, is_done=True)


@contextmanager
def prepare_following(
    settings: Settings, request: RevisionFollowRequest
) -> Iterator[PreparedFollowing]:
    """Open the home as its owner, and ask the partner what it has revised.

    Raises Refused if it has revised nothing that was read here, Unavailable if it does not answer.
    """
    partner = Participant(check_name("partner", request.follow))
    if request.because is not None:
        check_text("--because", request.because, BECAUSE_CHARACTERS_MAX)
    here = chosen_participant(settings, request.participant)
    with (
        open_home(settings, here, as_owner=True) as home,
        open_session(settings, here) as home_session,
    ):
        line = line_to_recall(home.catalog, request.stream, partner)
        links = FaultInjectedLinks(settings.directory, here)
        revision = _revision_of(FaultInjectedExchange(home_session.exchange, links), line)
        yield PreparedFollowing(home, line, revision, request)


def _revision_of(exchange: ExchangeCalls, line: LineStatus) -> LineRevision:
    news = exchange.line_news(
        line.stream.name, line.producer, line.version, segments_max=SEGMENTS_PER_NEWS_MAX
    )
    if news.revision is None:
        raise Refused(
            f"partner {line.producer.participant} has revised nothing of {line.stream.name} that "
            "was read here: there is nothing to follow"
        )
    return news.revision
