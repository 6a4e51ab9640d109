"""Recall: the only, audited way to take back final results.

An operator takes back the rows of a line from one bucket on. The line begins another generation
there: rows before that bucket remain, results computed from the recalled part are taken back with
it, and owed results from there on are found like those of any frontier. The laws S1 and S2 hold
within a generation. A reader of a partner's line stops before that bucket until its own operator
follows.

Limit: what a target outside has received is the operator's to take back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer

BECAUSE_CHARACTERS_MAX, WHO_CHARACTERS_MAX = 1_000, 200
GENERATION_MAX = 2**31 - 1
RECALLS_PER_NEWS_MAX = 1_000

HOLD_PURPOSE = "recall"
HOLDERS = ("recall", "recall-2")
"""Who holds what has to be read again, in turn: later recalls and revisions extend the range of a
hold for a day, then the other holder places one, and the first expires after its second day."""

HOLD_MS = 24 * 3_600_000
"""For how long at least: until then the fragments concerned have placed holds of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRecall:
    """One recall as a line tells of it: `generation` begins at `from_us`, `version` took back what
    was there."""

    generation: int
    from_us: int
    version: Version
    because: str

    @property
    def is_revision(self) -> bool:
        """Whether it replaced named ranges; else it took back everything from a bucket on."""
        return False

    def __post_init__(self) -> None:
        if not 1 < self.generation <= GENERATION_MAX or not 0 < self.version <= FOREVER_US:
            raise Refused(
                f"generation {self.generation} at version {self.version} is not that of a recall"
            )
        if not -FOREVER_US <= self.from_us <= FOREVER_US - (not self.is_revision):
            raise Refused(f"a recall cannot begin at {self.from_us}")
        check_text("the reason of a recall", self.because, BECAUSE_CHARACTERS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult(LineRecall):
    """A recall as it was, or would be, made of a line of this home, by `who`.

    `segments` and `rows` are what it took back; only the recall itself returns them. A revision has
    the `ranges` that it replaced, and takes back nothing else; `changed` are the buckets of them
    that differ. Its `from_us` is the first of these, FOREVER_US if none differs.
    """

    stream: StreamName
    producer: Producer
    who: str
    recalled_at_ms: int = field(default=0, compare=False)
    segments: int = field(default=0, compare=False)
    rows: int = field(default=0, compare=False)
    ranges: tuple[Range, ...] = ()
    changed: tuple[Range, ...] = ()

    @property
    def is_revision(self) -> bool:
        """Whether it names ranges."""
        return bool(self.ranges)

    def takes_back(self, part: Range) -> bool:
        """Whether rows of a range are not what they were before."""
        if self.is_revision:
            return any(changed.overlaps(part) for changed in self.changed)
        return self.from_us < part.to_us


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """What an operator wants taken back: a line from a bucket on, and all that it led to here.

    `follows` is the generation of a partner's recall that is agreed to: it is made when the
    partner's news comes. `needed` is from when on each fragment that computes again reads each of
    its inputs; with `follows`, `stays` says before when what is computed of a stream here stays,
    because it could not be computed again.
    """

    stream: StreamName
    producer: Producer
    from_us: int
    because: str
    who: str
    follows: int | None = None
    needed: Mapping[str, Mapping[StreamName, int]] = field(default_factory=dict)
    stays: Mapping[StreamName, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "needed", "stays")
        check_text("the reason of a recall", self.because, BECAUSE_CHARACTERS_MAX)
        check_text("who recalls", self.who, WHO_CHARACTERS_MAX)


def check_text(what: str, text: str, characters_max: int) -> str:
    """Refuse text that is empty, too long, or not to be shown as one line."""
    if len(text) > characters_max:
        raise Refused(f"{what} has {len(text)} characters: say it in {characters_max} at most")
    if not text.strip():
        raise Refused(f"{what} is empty: say it in a sentence")
    if not text.isprintable():
        raise Refused(f"{what} holds a line break or another control character: leave it out")
    return text


def check_recalls(recalls: Sequence[LineRecall]) -> None:
    """Refuse recalls of a line that are too many or not in order."""
    if len(recalls) > RECALLS_PER_NEWS_MAX:
        raise Refused(f"the news has {len(recalls)} recalls at once: call the partner's operator")
    for one, next_ in pairwise(recalls):
        if not (one.generation < next_.generation and one.version < next_.version):
            raise Refused("the news has recalls out of order: call the partner's operator")


def begins_again_us(recalls: Sequence[LineRecall]) -> int | None:
    """From when on recalls together took something back; None if there are none."""
    return min((recall.from_us for recall in recalls), default=None)
