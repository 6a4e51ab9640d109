"""The importer: copies partners' lines of the streams that this home reads.

For each line: request its news, copy the files it names, bring it into the catalog in one call,
then acknowledge it to the partner. What several lines need is requested side by side. Every part
can be repeated: file names are unique, the same news is applied once, and an acknowledgement never
goes back. So a crash anywhere costs a copy.

Nothing of a partner is trusted: a name that leads out of its folder, a file that does not match
its description, or news that do not fit are a problem of that one line, reported once in a poll;
the others continue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from medusa_core.commits import LeaseKey
from medusa_core.errors import Conflict, MedusaError, OutcomeUnknown, Refused, Unavailable
from medusa_core.exchange import (
    ImportStatus,
    LineNews,
    import_fragment,
)
from medusa_core.grid import Range
from medusa_core.line_revisions import NO_REACH, RevisionReach
from medusa_core.names import Participant, StreamName, Version
from pipelines.base import clock
from pipelines.base.failpoints import reached
from pipelines.base.foreign_documents import foreign_form, parse_json
from pipelines.catalog.processing_roles import Imports
from pipelines.exchange.acknowledgements import ANSWERS_S, Acknowledgements, Line, line_of
from pipelines.exchange.contents import Contents
from pipelines.exchange.exchange_port import (
    REQUESTS_AT_ONCE,
    Awaited,
    Copies,
    Exchange,
    FilesRequest,
    NewsRequest,
)
from pipelines.exchange.news_files import NO_FILES, NeededFiles, NewsFiles, shown
from pipelines.homes.lease_renewer import LeaseRenewer

SEGMENTS_PER_NEWS_MAX = 1_024

ROOM_PART = 0.5
"""Of the time until something must be answered that importing may take: its cost is a guess."""

SEGMENTS_MIN = 16
"""So much news of a line may always be requested. With one segment a tick, on a busy machine an
input that its partner has published in time was imported later and later, and answers were made
without it, which kept the machine busy."""

LOOK_AGAIN_S = 1.0
"""For how long what was read of the own home is used, while all partners say what has news: twice
as long where one says that there is some. What was imported meanwhile is added to it."""

SEGMENT_MS = 5.0
"""What a segment costs to import, before any has been."""

Marks = Mapping[tuple[StreamName, int], str]
"""Of the lines of a partner by stream and replica: each changes when the line's news do."""

FindReach = Callable[[StreamName, Sequence[Range]], RevisionReach]
"""What of a home is computed from some ranges of a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of asking for one line: how many segments, or why none."""

    stream: StreamName
    producer: str
    segments: int
    version: int
    problem: str | None = None


class NoImports:
    """Of a driver that does not import: another one in the same home does."""

    def set_paths(self, paths_ms: Mapping[StreamName, int]) -> None:
        """See `Importer.set_paths`."""

    def set_headroom(self, headroom_ms: int | None) -> None:
        """See `Importer.set_headroom`."""

    def poll(self, on_import: Callable[[Imported], None] = lambda imported: None) -> int:
        """See `Importer.poll`."""
        return 0


class Importer:
    """Imports the lines that this home is assigned to import.

    `segments_max`: how much news of a line is requested at once, at most. `line_marks` returns the
    marks of a partner's lines, by which is known what has news, or None: then all are requested.
    `on_delay` receives the time between a commit of a partner and that of its copy.
    """

    def __init__(
        self,
        catalog: Imports,
        copies: Copies,
        exchange: Exchange,
        leases: LeaseRenewer,
        *,
        contents: Contents,
        segments_max: int = SEGMENTS_PER_NEWS_MAX,
        line_marks: Callable[[Participant], Marks | None] = lambda partner: None,
        now_s: Callable[[], float] = clock.monotonic_s,
        on_delay: Callable[[Participant, int], object] = lambda partner, delay_ms: None,
    ) -> None:
        self._catalog = catalog
        self._on_delay = on_delay
        self._exchange = exchange
        self._files = NewsFiles(copies, exchange, now_s=now_s)
        self._leases = leases
        self._contents = contents
        self._segments_max = segments_max
        self._line_marks = line_marks
        self._now_s = now_s
        self._reach_of: FindReach = lambda stream, ranges: NO_REACH
        self._seen: dict[Line, tuple[str, Version]] = {}
        self._acknowledgements = Acknowledgements(exchange, now_s=now_s)
        self._failed: set[Line] = set()
        self._read_s = 0.0
        self._statuses: tuple[ImportStatus, ...] | None = None
        self._quiet_marks: Mapping[Participant, Marks | None] = {}
        self._room_ends_s: float | None = None
        self._left_out: set[Line] = set()
        self._segment_ms = SEGMENT_MS

    def set_paths(self, paths_ms: Mapping[StreamName, int]) -> None:
        """Set what the path behind each imported stream costs here; acks carry it."""
        self._acknowledgements.paths_ms = paths_ms

    def set_reach(self, find: FindReach) -> None:
        """Set how what is computed here from revised ranges is found, which is held for it."""
        self._reach_of = find

    def set_headroom(self, headroom_ms: int | None) -> None:
        """How long from now until something must be answered (None: nothing must): the news of a
        partner that was away for long comes in pieces that fit."""
        room = None if headroom_ms is None else headroom_ms / 1_000 * ROOM_PART
        self._room_ends_s = None if room is None else self._now_s() + room

    def poll(self, on_import: Callable[[Imported], None] = lambda imported: None) -> int:
        """Ask every partner once; how many lines had news. A partner that is away is passed by."""
        moved = 0
        away: set[Participant] = set()
        taken_back: set[Line] = set()
        statuses, is_fresh = self._read_statuses()
        marks = self._marks_of(statuses)
        if not is_fresh and not self._acknowledgements.are_due and self._is_quiet(marks):
            return 0
        self._statuses = None
        present: dict[Line, ImportStatus | None] = {line_of(one): one for one in statuses}
        self._files.begin()
        for answer in self._answers(statuses, marks, away):
            status, news = answer.status, answer.news
            mark = self._mark(status, marks)
            began_s = self._now_s()
            try:
                with _form_of_news(status):
                    if answer.error is not None:
                        raise answer.error
                    is_new = news is not None and self._bring(status, news, answer.files)
            except OutcomeUnknown:
                raise
            except MedusaError as error:
                if isinstance(error, Conflict):
                    # A lease of this home that has run out is not the partner's problem.
                    self._leases.renew()
                    self._leases.check()
                # Whatever is the matter with one partner is no reason to leave the others.
                if not isinstance(error, Awaited):
                    self._failed.add(line_of(status))
                    on_import(_imported(status, 0, str(error)))
                continue
            self._note_seen(status, news, mark)
            segments = len(news.segments) if news is not None and is_new else 0
            if news is not None and (news.recalls or news.revision is not None):
                # The version is acknowledged though the boundary may be where it was.
                taken_back.add(line_of(status))
                self._acknowledgements.repeat(line_of(status))
            if news is not None and is_new:
                moved += 1
                present[line_of(status)] = _after(status, news)
                self._note_cost(segments, began_s)
                self._note_delay(status, news)
            if is_new or line_of(status) in self._failed:
                # Also without news: what was the matter with the line is over.
                self._failed.discard(line_of(status))
                on_import(_imported(status, segments, None))
        is_watched = bool(marks) and all(known is not None for known in marks.values())
        known = [status for status in present.values() if status is not None]
        if is_watched and len(known) == len(statuses) and self._are_seen(known, marks):
            self._statuses, self._quiet_marks = tuple(known), marks
        if is_fresh:
            # Where partners say what has news, what came is acknowledged after the next look.
            after = statuses
            if moved and not is_watched:
                after = self._catalog.imports()
                taken_back.clear()
            self._acknowledgements.note_due(statuses, after)
        # What was read of these lines is of before their recalls and revisions.
        for line in taken_back:
            self._acknowledgements.drop(line)
        # The others are sent later if there is news meanwhile.
        self._acknowledgements.send(
            away, lambda partner: self._line_marks(partner) is not marks.get(partner)
        )
        return moved

    def _answers(
        self,
        statuses: Iterable[ImportStatus],
        marks: Mapping[Participant, Marks | None],
        away: set[Participant],
    ) -> Iterator[_LineAnswer]:
        """The lines that may have news, each with what is new of it, while its files are fetched.

        Requests of several lines are made side by side. Lines of a partner that does not answer,
        which is then in `away`, are left out, and so are further ones of a partner that is slow.
        """
        spent_s: dict[Participant, float] = defaultdict(float)
        new = [status for status in statuses if not self._is_known(status, marks)]
        new.sort(key=lambda status: line_of(status) not in self._left_out)
        self._left_out = set()
        for some in _rounds(new):
            lines = [s for s in some if s.producer.participant not in away]
            late = {line_of(s) for s in lines if spent_s[s.producer.participant] >= ANSWERS_S}
            self._left_out |= late
            lines = [status for status in lines if line_of(status) not in late]
            self._exchange.begin([self._news_request(status) for status in lines])
            answers = []
            for status in lines:
                if status.producer.participant not in away:
                    began_s = self._now_s()
                    answers.append(self._answer(status, away))
                    spent_s[status.producer.participant] += self._now_s() - began_s
            self._exchange.begin([one.request for one in answers if one.request is not None])
            # News that waits for no file is not held up by one that does.
            yield from sorted(answers, key=lambda answer: answer.request is not None)

    def _answer(self, status: ImportStatus, away: set[Participant]) -> _LineAnswer:
        """What is new of a line and which files it needs, or why that is not known."""
        news: LineNews | None = None
        files = NO_FILES
        try:
            with _form_of_news(status):
                news = self._news(status)
                if news is not None:
                    files = self._files.needed(status.producer.participant, news)
        except OutcomeUnknown:
            raise
        except MedusaError as error:
            # A partner that sent news is not away: its other lines may have what this lacks.
            if isinstance(error, Unavailable) and news is None:
                away.add(status.producer.participant)
            return _LineAnswer(status, news, files, None, error)
        request = self._files.first_request(status.producer.participant, files)
        return _LineAnswer(status, news, files, request, None)

    def _is_known(self, status: ImportStatus, marks: Mapping[Participant, Marks | None]) -> bool:
        """Whether the partner says that there is no news of the line."""
        mark = self._mark(status, marks)
        return mark is not None and self._is_seen(status, mark)

    def _read_statuses(self) -> tuple[tuple[ImportStatus, ...], bool]:
        """The lines and how far each is here, and whether that was read just now."""
        if self._statuses is not None:
            # News is imported first; the next poll reads, or the one after.
            is_quiet = self._is_quiet(self._marks_of(self._statuses))
            limit_s = LOOK_AGAIN_S if is_quiet else 2 * LOOK_AGAIN_S
            if self._now_s() < self._read_s + limit_s:
                return self._statuses, False
        self._statuses = None
        statuses = self._catalog.imports()
        self._read_s = self._now_s()
        return statuses, True

    def _marks_of(self, statuses: Iterable[ImportStatus]) -> Mapping[Participant, Marks | None]:
        """What each partner says of its lines."""
        return {p: self._line_marks(p) for p in {s.producer.participant for s in statuses}}

    def _is_quiet(self, marks: Mapping[Participant, Marks | None]) -> bool:
        """Whether no partner has said anything since a poll that found nothing."""
        before = self._quiet_marks
        return all(known is not None and known is before.get(p) for p, known in marks.items())

    def _are_seen(
        self, statuses: Iterable[ImportStatus], marks: Mapping[Participant, Marks | None]
    ) -> bool:
        """Whether all that the partners say is here."""
        found = ((status, self._mark(status, marks)) for status in statuses)
        return all(mark is not None and self._is_seen(status, mark) for status, mark in found)

    @staticmethod
    def _mark(status: ImportStatus, marks: Mapping[Participant, Marks | None]) -> str | None:
        """The mark of a line's news at its partner; None if it is not known."""
        known = marks[status.producer.participant]
        return None if known is None else known.get((status.stream, status.producer.replica))

    def _is_seen(self, status: ImportStatus, mark: str) -> bool:
        """Whether all that the mark stands for is here."""
        line = line_of(status)
        return line not in self._failed and self._seen.get(line) == (mark, status.version)

    def _note_seen(self, status: ImportStatus, news: LineNews | None, mark: str | None) -> None:
        """All that happened up to the mark is here, unless a page was full."""
        line = line_of(status)
        is_full = news is not None and len(news.segments) >= SEGMENTS_MIN
        has_more = news is not None and news.revision is not None
        if mark is None or is_full or has_more:
            self._seen.pop(line, None)
        else:
            self._seen[line] = mark, status.version if news is None else news.version

    def _note_cost(self, segments: int, began_s: float) -> None:
        """Learn what a segment costs, by halves: the last news says most."""
        cost_ms = (self._now_s() - began_s) * 1_000 / max(segments, 1)
        self._segment_ms = (self._segment_ms + cost_ms) / 2

    def _note_delay(self, status: ImportStatus, news: LineNews | None) -> None:
        """Report how long ago the partner committed what has been committed here now."""
        delay_ms = None if news is None else news.delay_ms(self._now_ms(status))
        if delay_ms is not None:
            self._on_delay(status.producer.participant, delay_ms)

    def _now_ms(self, status: ImportStatus) -> int:
        """This home's clock."""
        return status.read_at_ms + int((self._now_s() - self._read_s) * 1_000)

    def _fits(self) -> int:
        """How many segments may be requested now."""
        if self._room_ends_s is None:
            return self._segments_max
        left_ms = (self._room_ends_s - self._now_s()) * 1_000
        fits = max(int(left_ms / max(self._segment_ms, 0.1)), SEGMENTS_MIN)
        return min(fits, self._segments_max)

    def _news_request(self, status: ImportStatus) -> NewsRequest:
        return NewsRequest(
            stream=status.stream,
            producer=status.producer,
            after=status.version,
            segments_max=self._fits(),
        )

    def _news(self, status: ImportStatus) -> LineNews | None:
        """What is new of a line; None if nothing is."""
        # Its age grows while it is transferred: from the request on, by this home's clock.
        requested_at_ms = self._now_ms(status)
        news = self._exchange.line_news(
            status.stream,
            status.producer,
            status.version,
            segments_max=self._fits(),
        )
        if (news.stream, news.producer) != (status.stream, status.producer):
            raise Refused(
                f"partner {status.producer.participant} received a request for {status.stream} and "
                f"sent news of {shown(news.stream)} by {shown(str(news.producer))}: call its "
                "operator"
            )
        # An answer to an earlier question, late or once more, is for the catalog to know.
        if news.after == status.version:
            status.check_goes_on(news)
        # The first answer counts even without a segment: where the line begins is news.
        has_begun = status.boundary_us is not None or news.origin_us is None
        has_end = news.end_us is None or status.has_ended
        is_known = news.version == status.version and has_begun and has_end
        return None if is_known else replace(news, requested_at_ms=requested_at_ms)

    def _bring(self, status: ImportStatus, news: LineNews, files: NeededFiles) -> bool:
        """Bring news in; False if it had been brought before."""
        self._files.fetch(status.producer.participant, files)
        segments = tuple(files.with_copies(published) for published in news.segments)
        self._check(status, replace(news, segments=segments))
        reached("import.fetched")
        lease = self._leases.lease(
            LeaseKey(fragment=import_fragment(status.stream), producer=status.reader)
        )
        news = replace(news, segments=segments)
        reach = self._reach_of(status.stream, news.replaced) if news.replaced else NO_REACH
        is_new = self._catalog.import_line(lease, news, status.plan, reach)
        reached("import.committed")
        return is_new

    def _check(self, status: ImportStatus, news: LineNews) -> None:
        """Raise Refused or Diverged unless news tells what its files and plans hold."""
        for plan in news.plans:
            document = parse_json(plan.document, f"plan {plan.id}", "call the partner's operator")
            if not isinstance(document, dict):
                raise Refused(f"plan {plan.id} is no plan of Medusa's: call the partner's operator")
            network = document.get("network")
            if isinstance(network, dict) and network.get("name") != plan.network:
                # Else a plan of this home could not be deployed any more.
                raise Refused(
                    f"plan {plan.id} is announced as one of network {plan.network}, and its "
                    "document names another one: call the partner's operator"
                )
        live = [p.segment for p in news.segments if p.end_version is None and p.segment.files]
        if live:
            self._contents.check(status.stream, live)


@dataclass(frozen=True, slots=True)
class _LineAnswer:
    """A line, what is new of it, and the files of that; or the error instead.

    `request` is that of its first files.
    """

    status: ImportStatus
    news: LineNews | None
    files: NeededFiles
    request: FilesRequest | None
    error: MedusaError | None


def _rounds(statuses: Iterable[ImportStatus]) -> list[list[ImportStatus]]:
    """The lines in rounds, of each partner so many in a round as it is asked at once."""
    rounds: list[list[ImportStatus]] = []
    of_partner: Counter[Participant] = Counter()
    for status in statuses:
        partner = status.producer.participant
        number = of_partner[partner] // REQUESTS_AT_ONCE
        of_partner[partner] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(status)
    return rounds


def _form_of_news(status: ImportStatus) -> AbstractContextManager[None]:
    """Raise Refused for news in a wrong form."""
    what = f"partner {status.producer.participant} tells news of {status.stream}"
    return foreign_form(what, "call its operator")


def _after(status: ImportStatus, news: LineNews) -> ImportStatus | None:
    """The line once the news is here; None if that is to be read: it begins, ends, or was
    recalled or revised.

    How far it is final is of before: the next look at the own home knows.
    """
    is_plain = status.boundary_us is not None and news.end_us is None
    is_plain = is_plain and not news.recalls and news.revision is None
    return replace(status, version=news.version, chain=news.chain) if is_plain else None


def _imported(status: ImportStatus, segments: int, problem: str | None) -> Imported:
    return Imported(
        stream=status.stream,
        producer=str(status.producer),
        segments=segments,
        version=status.version,
        problem=problem,
    )
