"""The files that a partner's news names, and their copies in this home.

Nothing of a partner is trusted: a name that leads out of its folder is refused, and each content
has a place of its own. A copy that is here is not requested again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from medusa_core.errors import Refused
from medusa_core.exchange import LineNews, PublishedSegment
from medusa_core.names import Participant
from medusa_core.segments import SegmentFile
from pipelines.exchange.exchange_port import Awaited, Copies, ExchangeCalls, FilesRequest

FILES_AT_ONCE = 64
"""Files that are requested together: a partner that is slow to send them is waited for once."""

FILES_S = 1.0
"""Time in a poll after which no further files are waited for: over a slow link news with many files
comes in several polls, and the loop keeps its bounds meanwhile."""

IMPORTED = "imported"
SUFFIX = ".parquet"
PATH_CHARACTERS_MAX, NAME_CHARACTERS_MAX, SHOWN_MAX = 1_024, 100, 100
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class NeededFiles:
    """The files that news names with their copies in this home, and those without one."""

    here: Mapping[SegmentFile, SegmentFile]
    missing: Sequence[SegmentFile] = ()

    def with_copies(self, published: PublishedSegment) -> PublishedSegment:
        """The segment with the files as they are stored here, where it is live."""
        if published.end_version is not None:
            return published
        files = tuple(self.here[file] for file in published.segment.files)
        return replace(published, segment=replace(published.segment, files=files))


NO_FILES = NeededFiles({})


class NewsFiles:
    """Finds, requests and fetches the files of news."""

    def __init__(
        self, copies: Copies, exchange: ExchangeCalls, *, now_s: Callable[[], float]
    ) -> None:
        self._copies = copies
        self._exchange = exchange
        self._now_s = now_s
        self._end_s = 0.0

    def begin(self) -> None:
        """A poll begins: files are waited for `FILES_S` from now on."""
        self._end_s = self._now_s() + FILES_S

    def needed(self, partner: Participant, news: LineNews) -> NeededFiles:
        """The files that news needs; Refused if one has a name that a partner may not give."""
        # Live segments name files, and a file may serve many of them.
        files = dict.fromkeys(
            file for p in news.segments if p.end_version is None for file in p.segment.files
        )
        here = {file: replace(file, path=str(_place_of(partner, file))) for file in files}
        missing = tuple(file for file, copy in here.items() if not self._copies.holds(copy))
        return NeededFiles(here, missing)

    def first_request(self, partner: Participant, files: NeededFiles) -> FilesRequest | None:
        """The request that `fetch` begins with; None if it makes none."""
        targets = self._targets(files, files.missing[:FILES_AT_ONCE])
        return FilesRequest(partner=partner, files=tuple(targets.items())) if targets else None

    def fetch(self, partner: Participant, files: NeededFiles) -> None:
        """Fetch the copies that are not here, and make the names of all durable.

        Raises Awaited if that takes longer than a poll may wait: those that are here stay.
        """
        for first in range(0, len(files.missing), FILES_AT_ONCE):
            if self._now_s() > self._end_s:
                raise Awaited(f"partner {partner} has more files: they are received later")
            some = files.missing[first : first + FILES_AT_ONCE]
            self._exchange.fetch_all(partner, self._targets(files, some))
        self._copies.sync(files.here.values())

    def _targets(self, files: NeededFiles, some: Iterable[SegmentFile]) -> dict[SegmentFile, Path]:
        return {file: self._copies.place(files.here[file]) for file in some}


def _place_of(partner: Participant, file: SegmentFile) -> PurePosixPath:
    """Where a partner's file lies in this home: one place for each name and content.

    So content that is announced under a known name never replaces a copy that is read.
    Refused if the name leads out of its folder or is none that Medusa gives.
    """
    path = PurePosixPath(file.path)
    if path.is_absolute() or ".." in path.parts or "\\" in file.path:
        raise Refused(
            f"partner {partner} names file {shown(file.path)}, which leads out of its folder: "
            "call its operator"
        )
    is_ours = path.suffix == SUFFIX and file.path.isprintable() and _HASH.fullmatch(file.sha256)
    if not is_ours or len(file.path) > PATH_CHARACTERS_MAX or len(path.name) > NAME_CHARACTERS_MAX:
        raise Refused(
            f"partner {partner} names file {shown(file.path)} with hash {shown(file.sha256)}, "
            "which is no file of records: call its operator"
        )
    return PurePosixPath(IMPORTED) / partner / path.with_stem(f"{path.stem}-{file.sha256}")


def shown(text: str) -> str:
    """A partner's text in an error: in ASCII, and not long."""
    return ascii(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "...")
