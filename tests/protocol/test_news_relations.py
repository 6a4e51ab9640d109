"""News whose fields do not fit one another is refused at the door, whoever sends it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from medusa_core.digest import Digest
from medusa_core.errors import Diverged, Refused
from medusa_core.exchange import LineNews, PublishedSegment
from medusa_core.grid import FOREVER_US, Range
from medusa_core.line_revisions import LineRevision
from medusa_core.names import StreamName, Version
from medusa_core.protocol.news_documents import checked_news, path_of, read_news, write_news
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from tests.protocol.drawn_documents import ALPHA, PLAN, STREAM

HASH = "ab" * 32


def a_segment(from_us: int, to_us: int, begin: int, end: int | None = None) -> PublishedSegment:
    """A stable segment with three rows in its first bucket."""
    return PublishedSegment(
        segment=Segment(
            stream=STREAM,
            producer=Producer(ALPHA),
            range=Range(from_us, to_us),
            stability=Stability.STABLE,
            version=Version(begin),
            plan=PLAN.id,
            buckets={from_us: Digest(3, 7, 9)},
            files=(
                SegmentFile(path=path_of(STREAM, HASH), size_bytes=500, sha256=HASH, rows=3),
            ),
            age_ms=40,
        ),
        begin_version=Version(begin),
        end_version=None if end is None else Version(end),
    )  # fmt: skip


NEWS = LineNews(
    stream=STREAM,
    producer=Producer(ALPHA),
    after=Version(4),
    version=Version(6),
    origin_us=0,
    end_us=4_000,
    segments=(a_segment(1_000, 2_000, 5), a_segment(2_000, 4_000, 6), a_segment(0, 4_000, 3, 6)),
    plans=(PLAN,),
    trimmed_us=500,
    chain_after="01" * 32,
    chain="02" * 32,
)
Change = Callable[[dict[str, Any]], object]


def setting(*path_and_value: Any) -> Change:
    """A change of one value: the path to it, then the value."""
    *path, last, value = path_and_value

    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path:
            place = place[step]
        place[last] = value

    return change


def in_segment(*path_and_value: Any) -> Change:
    return setting("segments", 0, *path_and_value)


BUCKET = {"at_us": 1_000, "rows": 3, "sum_a": "7", "sum_b": "9"}

ABSURD: Mapping[str, tuple[Change, str]] = {
    "a negative version": (setting("version", -1), "version is -1, not between 0"),
    "a version below 'after'": (setting("version", 3), "restored from a backup"),
    "a version beyond 64 bits": (setting("version", 2**63), "not between"),
    "a version that is true": (setting("after", True), "after is true, not an integer"),
    "a version that is a double": (setting("after", 4.0), "after is 4.0, not an integer"),
    "an origin before year 1": (setting("origin_us", -(2**62)), "origin_us is"),
    "an origin behind a segment": (setting("origin_us", 1_500), "before the line's origin"),
    "no origin, but segments": (setting("origin_us", None), "before the line's origin None"),
    "an end before the origin": (setting("end_us", -1), "ends at -1, before its origin 0"),
    "an end before a segment's": (setting("end_us", 3_000), "after the line's end"),
    "a trim behind a segment": (setting("trimmed_us", 2_000), "up to where the line is trimmed"),
    "a time beyond year 9999": (in_segment("to_us", 2**62), "segments[0].to_us is"),
    "a range that ends before it begins": (in_segment("to_us", 900), "is empty"),
    "an age below 0": (in_segment("age_ms", -1), "segments[0].age_ms is -1"),
    "an age of text": (in_segment("age_ms", "40"), "segments[0].age_ms is '40', not an integer"),
    "an age of thousands of years": (in_segment("age_ms", 2**62), "segments[0].age_ms is"),
    "a stability of another system": (in_segment("stability", "sure"), "not one of stable"),
    "live since before the news": (in_segment("begin_version", 4), "above the 4|not after 4"),
    "live since after the news": (in_segment("begin_version", 7), "not after 4 and up to 6"),
    "content newer than its row": (in_segment("version", 6), "above the 5 since which"),
    "superseded before the news": (
        setting("segments", 2, "end_version", 4),
        "not superseded after 4",
    ),
    "begun and ended in the news": (in_segment("end_version", 6), "not superseded after 4"),
    "a stable segment without an input": (in_segment("missing", ["a"]), "misses inputs but is"),
    "a gap with rows": (in_segment("stability", "gap"), "is a gap that has rows"),
    "rows without a file": (in_segment("files", []), "3 rows in 0 files"),
    "a file without rows": (in_segment("buckets", []), "0 rows in 1 files"),
    "more rows than its files": (in_segment("files", 0, "rows", 2), "more than its files"),
    "a file of no bytes": (in_segment("files", 0, "size_bytes", 0), "size_bytes is 0"),
    "a hash that is a path": (in_segment("files", 0, "sha256", "../x"), "not a SHA-256"),
    "a hash that is a number": (in_segment("files", 0, "sha256", 7), "is 7, not text"),
    "a hash with half a surrogate": (in_segment("files", 0, "sha256", "\ud800"), "not a SHA-256"),
    "a bucket outside of its segment": (in_segment("buckets", 0, "at_us", 2_000), "outside"),
    "a bucket without rows": (in_segment("buckets", 0, "rows", 0), "rows is 0"),
    "a bucket twice": (in_segment("buckets", [BUCKET, BUCKET]), "not in order at 1000"),
    "buckets in another order": (
        in_segment("buckets", [{**BUCKET, "at_us": 1_500}, BUCKET]), "not in order at 1000"
    ),
    "a digest that rows cannot have": (
        in_segment("buckets", 0, "sum_a", str(3 * 2**64)),
        "a digest that 3 rows cannot have",
    ),
    "a sum with a sign": (in_segment("buckets", 0, "sum_b", "-9"), "not a sum of hashes"),
    "two live segments in one place": (
        setting("segments", 1, "from_us", 1_500),
        "outside|overlap at",
    ),
    "a plan that is not sent": (setting("plans", []), "whose document is not sent"),
    "a plan with another document": (
        setting("plans", 0, "document", '{"n": 2}'),
        "has a document of another fingerprint",
    ),
    "a plan twice": (lambda d: d["plans"].append(d["plans"][0]), "one plan has two documents"),
    "a plan with half a surrogate": (setting("plans", 0, "document", "\ud800"), "no database"),
    "a chain that is text": (setting("chain", "chain"), "not a SHA-256"),
    "a stream that is a path": (setting("stream", "../a"), "stream is '../a', not a stream"),
    "a recall that is past": (
        setting(
            "recalls", [{"generation": 2, "from_us": 0, "version": 4, "because": "a fault"}]
        ),
        "names other recalls",
    ),
    "rows that are recalled later": (
        setting(
            "recalls", [{"generation": 2, "from_us": 0, "version": 7, "because": "a fault"}]
        ),
        "holds what is recalled later, from 0 on",
    ),
    "a reason of two lines": (
        setting("recalls", [{"generation": 2, "from_us": 0, "version": 5, "because": "a\nb"}]),
        "holds a control character",
    ),
}  # fmt: skip


def test_news_that_fits_is_read() -> None:
    assert read_news(write_news(NEWS)) == NEWS
    assert checked_news(NEWS) is NEWS


@pytest.mark.parametrize("case", ABSURD)
def test_news_that_does_not_fit_is_refused_in_one_sentence(case: str) -> None:
    change, sentence = ABSURD[case]
    document = copy.deepcopy(json.loads(write_news(NEWS)))
    change(document)
    with pytest.raises((Refused, Diverged), match=_pattern(sentence)) as caught:
        read_news(json.dumps(document).encode())
    assert str(caught.value).isprintable()


def _pattern(sentence: str) -> str:
    """The sentence as a pattern; `|` separates two that may both be said."""
    return "|".join(part.replace("[", r"\[").replace(".", r"\.") for part in sentence.split("|"))


def test_what_may_not_be_received_is_not_sent_either() -> None:
    wrong = replace(NEWS, segments=(replace(NEWS.segments[0], begin_version=Version(7)),))
    for door in (write_news, checked_news):
        with pytest.raises(Refused, match="not after 4 and up to 6"):
            door(wrong)


def test_values_that_no_field_holds_are_not_sent() -> None:
    empty = replace(NEWS, segments=())
    for wrong in (
        replace(empty, end_us=FOREVER_US),
        replace(empty, stream=StreamName("no name")),
        replace(empty, version=Version(2**63)),
    ):
        with pytest.raises(Refused, match=r"a line is not valid: (end_us|stream|version) is"):
            write_news(wrong)


def test_a_field_that_a_newer_partner_adds_is_ignored() -> None:
    document = json.loads(write_news(NEWS))
    document["later"] = document["segments"][0]["later"] = {"x": [1]}
    assert read_news(json.dumps(document).encode()) == NEWS


# Revisions

REVISION = LineRevision(
    generation=2,
    last_generation=4,
    from_us=1_000,
    version=Version(5),
    because="a feed was read twice",
    ranges=(Range(1_000, 2_000), Range(3_000, 4_000)),
)
REVISED = replace(
    NEWS,
    version=Version(5),
    segments=(
        a_segment(1_000, 2_000, 5),
        a_segment(3_000, 4_000, 5),
        replace(
            a_segment(2_000, 3_000, 5),
            segment=replace(a_segment(2_000, 3_000, 5).segment, version=Version(3)),
        ),
        a_segment(0, 4_000, 3, 5),
    ),
    revision=REVISION,
)


def in_revision(*path_and_value: Any) -> Change:
    return setting("revision", *path_and_value)


FIRST, LAST = {"from_us": 1_000, "to_us": 2_000}, {"from_us": 3_000, "to_us": 4_000}
WRONG_REVISIONS: Mapping[str, tuple[Change, str]] = {
    "ranges that overlap": (
        in_revision("ranges", [{"from_us": 1_000, "to_us": 3_500}, LAST]),
        "out of order at 3000",
    ),
    "ranges in another order": (in_revision("ranges", [LAST, FIRST]), "out of order at 1000"),
    "no range": (in_revision("ranges", []), "0 ranges"),
    "a range twice": (in_revision("ranges", [FIRST, FIRST]), "out of order at 1000"),
    "a range without end": (in_revision("ranges", 1, "to_us", FOREVER_US), "to_us is"),
    "a range without rows": (
        in_revision("ranges", [FIRST, {"from_us": 3_000, "to_us": 3_900}]),
        "in no range",
    ),
    "a range beyond its rows": (
        in_revision("ranges", [FIRST, {"from_us": 3_000, "to_us": 5_000}]),
        "has no rows for a part",
    ),
    "a range over what is left": (
        in_revision("ranges", [{"from_us": 1_000, "to_us": 4_000}]),
        "and not of the revision",
    ),
    "a row outside of the ranges": (in_revision("ranges", [FIRST]), "in no range that it names"),
    "a row that is not final": (
        lambda news: news["segments"][0].update(stability="tentative", missing=["a"]),
        "is of a revision, and tentative",
    ),
    "a row that is lost": (
        lambda news: news["segments"][0].update(stability="gap", buckets=[], files=[]),
        "is of a revision, and gap",
    ),
    "a version that news reaches over": (setting("version", 6), "reaches over the revision"),
    "a version before the news": (in_revision("version", 4), "reaches over the revision"),
    "a generation that is the first": (in_revision("generation", 1), "generation is 1"),
    "a last generation before it": (in_revision("last_generation", 2 - 1), "last_generation is 1"),
    "a first time behind its ranges": (in_revision("from_us", 1_500), "before its first"),
    "a reason of two lines": (in_revision("because", "a\nb"), "control character"),
    "no reason": (in_revision("because", " "), "is empty"),
    "an end of the line inside": (setting("end_us", 3_500), "after the line's end"),
}


def test_news_of_a_revision_is_read_as_it_was_written() -> None:
    assert read_news(write_news(REVISED)) == REVISED
    ahead = replace(REVISED, after=Version(3), version=Version(4), segments=(), plans=())
    assert read_news(write_news(ahead)) == ahead
    assert (REVISED.replaced, ahead.replaced) == (REVISION.ranges, ())


@pytest.mark.parametrize("name", WRONG_REVISIONS)
def test_a_revision_that_does_not_fit_its_news_is_refused(name: str) -> None:
    change, words = WRONG_REVISIONS[name]
    document = copy.deepcopy(json.loads(write_news(REVISED)))
    change(document)
    with pytest.raises(Refused, match=words):
        read_news(json.dumps(document).encode())


def test_what_is_trimmed_of_a_revision_need_not_be_sent() -> None:
    rest = tuple(p for p in REVISED.segments if p.segment.range.from_us >= 2_000)
    trimmed = replace(REVISED, trimmed_us=2_000, segments=rest)
    assert read_news(write_news(trimmed)) == trimmed
