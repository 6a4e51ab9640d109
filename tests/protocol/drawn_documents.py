"""Documents of every kind, drawn; and changes to a document that a hostile partner might make."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

from medusa_core.digest import MASK, Digest
from medusa_core.exchange import LineNews, PublishedPlan, PublishedSegment
from medusa_core.grid import Range
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.names import NetworkName, Participant, StreamName, Version
from medusa_core.plans import fingerprint_of
from medusa_core.protocol.call_documents import (
    AccessToken,
    Acknowledgement,
    Health,
    LineProgress,
    OfferedStream,
)
from medusa_core.protocol.invitations import Joining
from medusa_core.protocol.news_documents import path_of
from medusa_core.recalls import LineRecall
from medusa_core.segments import Producer, Segment, SegmentFile, Stability

STREAM = StreamName("busy_sources")
ALPHA = Participant("alpha")
PLAN = PublishedPlan(
    id=fingerprint_of('{"n": 1}'), network=NetworkName("network"), document='{"n": 1}'
)
BUCKET_US = 1_000
HASHES = st.binary(min_size=32, max_size=32).map(bytes.hex)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@st.composite
def news(draw: st.DrawFn) -> LineNews:
    """News of a line that a home could send, from its origin on."""
    origin_us = draw(st.integers(-(10**12), 10**15)) // BUCKET_US * BUCKET_US
    after = draw(st.integers(0, 3))
    upto = after + draw(st.integers(0, 3))
    producer = Producer(ALPHA, draw(st.integers(-1, 2)))
    lengths = draw(st.lists(st.integers(1, 3), max_size=4))
    segments, at_us = [], origin_us
    for length in lengths if upto > after else ():
        segments.append(draw(_segments(producer, at_us, length, after, upto)))
        at_us += length * BUCKET_US
    recalls = [
        LineRecall(generation=2 + i, from_us=at_us + i, version=Version(after + 1 + i), because=why)
        for i, why in enumerate(draw(st.lists(st.sampled_from(["a fault", "ärger"]), max_size=2)))
    ]
    has_begun = bool(segments) or draw(st.booleans())
    return LineNews(
        stream=STREAM,
        producer=producer,
        after=Version(after),
        version=Version(upto),
        origin_us=origin_us if has_begun else None,
        end_us=draw(st.none() | st.just(at_us)) if has_begun else None,
        trimmed_us=draw(st.none() | st.just(origin_us)),
        chain_after=draw(st.none() | HASHES),
        chain=draw(st.none() | HASHES),
        segments=tuple(segments),
        plans=(PLAN,) if segments else (),
        recalls=tuple(recalls),
    )


@st.composite
def _segments(
    draw: st.DrawFn, producer: Producer, from_us: int, length: int, after: int, upto: int
) -> PublishedSegment:
    stability = draw(st.sampled_from(list(Stability)))
    is_past = after > 0 and draw(st.booleans())
    begin = draw(st.integers(1, after)) if is_past else draw(st.integers(after + 1, upto))
    buckets = {}
    for at in range(length) if stability is not Stability.GAP else ():
        rows = draw(st.integers(1, 5))
        sums = st.integers(0, rows * MASK)
        buckets[from_us + at * BUCKET_US] = Digest(rows, draw(sums), draw(sums))
    total = sum(d.rows for d in buckets.values())
    digest = draw(HASHES)
    file = SegmentFile(
        path=path_of(STREAM, digest),
        size_bytes=draw(st.integers(1, 2**40)),
        sha256=digest,
        rows=total + draw(st.integers(0, 3)) if total else 1,
    )
    return PublishedSegment(
        segment=Segment(
            stream=STREAM,
            producer=producer,
            range=Range(from_us, from_us + length * BUCKET_US),
            stability=stability,
            version=Version(draw(st.integers(0, begin))),
            plan=PLAN.id,
            buckets=buckets,
            files=(file,) if buckets else (),
            age_ms=draw(st.integers(0, 10**9)),
            missing=(StreamName("other"),) if stability is Stability.TENTATIVE else (),
        ),
        begin_version=Version(begin),
        end_version=Version(draw(st.integers(after + 1, upto))) if is_past else None,
    )


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    sent_at_ms = draw(st.integers(0, 2**41))
    return Envelope(
        kind=draw(st.sampled_from(list(EnvelopeKind))),
        sender=ALPHA,
        receiver=Participant("beta"),
        nonce=draw(HASHES)[:32],
        sent_at_ms=sent_at_ms,
        expires_at_ms=sent_at_ms + draw(st.integers(0, 10**9)),
        body=draw(st.binary(max_size=40)),
        signature=draw(st.binary(min_size=64, max_size=64)),
    )


ACKNOWLEDGEMENTS = st.builds(
    Acknowledgement,
    stream=NAMES.map(StreamName),
    replica=st.integers(0, 9),
    version=st.integers(0, 2**63 - 1).map(Version),
    through_us=st.integers(-(2**63), 2**63 - 1),
    limit_ms=st.integers(1, 10**9),
    path_ms=st.integers(0, 10**9),
)
TOKENS = st.builds(
    AccessToken,
    token=st.text("abcXYZ019_-", min_size=32, max_size=128),
    lifetime_s=st.integers(1, 3_600),
)
HEALTHS = st.builds(
    Health,
    participant=NAMES.map(Participant),
    version=st.just("0.1.0"),
    clock_ms=st.integers(0, 2**53 - 1),
)


PROGRESS = st.lists(
    st.builds(
        LineProgress,
        stream=NAMES.map(StreamName),
        replica=st.integers(0, 3),
        mark=st.text("0123456789.-", min_size=1, max_size=40),
    ),
    max_size=4,
    unique_by=lambda line: (line.stream, line.replica),
).map(tuple)


SIGNED = st.from_regex(
    r"[0-9A-Za-z_-]{1,9}\.[0-9A-Za-z_-]{1,9}\.[0-9A-Za-z_-]{1,9}", fullmatch=True
)
JOININGS = st.builds(
    Joining,
    public_key=st.binary(min_size=32, max_size=32),
    assertion=SIGNED,
    introduction=SIGNED,
    secret=st.text("abcXYZ019_-", min_size=32, max_size=64),
)
DELIVERIES = st.lists(st.text("abc: äö", max_size=20), min_size=2, max_size=2).map(tuple)
TIMES_S = st.integers(0, 2**40)
URLS = st.sampled_from(["https://a.example", "https://[::1]:8443", "https://192.0.2.1:1"])
ASSERTION_CLAIMS = st.fixed_dictionaries(
    {
        "iss": NAMES, "sub": NAMES, "aud": st.just("urn:medusa:exchange:alpha:00"),
        "jti": st.text("abc019_-", min_size=16, max_size=64), "iat": TIMES_S, "exp": TIMES_S,
    }
)  # fmt: skip
INTRODUCTION_CLAIMS = st.fixed_dictionaries(
    {
        "use": st.just("introduction"), "iss": NAMES, "iat": TIMES_S, "exp": TIMES_S,
        "url": st.none() | URLS, "pin": st.none() | HASHES,
        "successions": st.lists(SIGNED, max_size=3),
    }
)  # fmt: skip
SUCCESSION_CLAIMS = st.fixed_dictionaries(
    {
        "use": st.just("succession"), "iss": NAMES, "iat": TIMES_S, "before": HASHES,
        "key": HASHES,
    }
)  # fmt: skip
SIGNED_INTRODUCTIONS = st.fixed_dictionaries({"introduction": SIGNED})


@st.composite
def offers(draw: st.DrawFn) -> tuple[OfferedStream, ...]:
    names = draw(st.lists(NAMES, unique=True, max_size=3))
    return tuple(draw(_offered(StreamName(name))) for name in names)


@st.composite
def _offered(draw: st.DrawFn, name: StreamName) -> OfferedStream:
    columns = draw(st.dictionaries(NAMES, st.sampled_from(["bigint", "string"]), max_size=3))
    key = tuple(sorted(columns))[: draw(st.integers(0, 2))]
    replicas = tuple(draw(st.lists(st.integers(0, 5), unique=True, max_size=3)))
    qualified = st.builds("{}/{}".format, NAMES, NAMES)
    return OfferedStream(
        name=name,
        kind="source",
        width_us=10,
        columns=columns,
        key=key,
        replicas=replicas,
        lineage=tuple(draw(st.lists(st.tuples(qualified, qualified), max_size=3))),
    )


# What a hostile partner changes.

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, -1, 1, 2**63, -(2**63) - 1, 10**400, 1.0, -0.0, 1e308])
    | st.sampled_from(["", "x", "0", "-1", "../../etc/passwd", "\ud800", "\0", "a\nb", "☃" * 200])
    | st.text(max_size=5)
)
JSON_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value in a document."""
    inner: list[tuple[Any, ...]] = [path]
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            inner += places_in(item, (*path, key))
    return inner


@st.composite
def altered(draw: st.DrawFn, content: bytes) -> bytes:
    """The document with one to three changes: a value replaced, removed, repeated or shifted."""
    document = json.loads(content)
    for _ in range(draw(st.integers(1, 3))):
        document = _altered(draw, document)
    text = json.dumps(document)
    return text.encode()


def _altered(draw: st.DrawFn, document: Any) -> Any:
    path = draw(st.sampled_from(places_in(document)))
    if not path:
        return draw(JSON_VALUES)
    document = copy.deepcopy(document)
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    old, last = parent[path[-1]], path[-1]
    change = draw(st.sampled_from(("replace", "remove", "repeat", "shift", "add")))
    if change == "remove":
        del parent[last]
    elif change == "repeat" and isinstance(parent, list):
        parent.append(copy.deepcopy(old))
    elif change == "shift" and type(old) is int:
        parent[last] = old + draw(st.sampled_from([-1, 1, -BUCKET_US, BUCKET_US, 2**62]))
    elif change == "add" and isinstance(parent, dict):
        parent[draw(st.text(max_size=4))] = draw(JSON_VALUES)
    else:
        parent[last] = draw(JSON_VALUES)
    return document
