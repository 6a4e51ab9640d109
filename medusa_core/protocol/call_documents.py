"""The other documents of the protocol: acknowledgements, offered streams, tokens, health.

Those of envelopes are in `envelope_documents`: a loop without a contract does not load the market.

The sender of a request is not in its document: it is the participant to which the access token
was issued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medusa_core.frozen import freeze
from medusa_core.grid import BEGINNING_US
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol.document_fields import (
    INT64_MAX,
    ChoiceField,
    Document,
    IntegerField,
    ListField,
    RecordField,
    TextField,
)
from medusa_core.protocol.news_documents import NAME, REPLICA_MAX, STREAM, TO_DO

OBJECTS_HEADER = "Medusa-Objects"
"""The header of a request for a file that names the object store to which the answer may be a
redirect; without it, or for another store, the answer is the file."""

SMALL_BYTES_MAX = 64 << 10
OFFERS_BYTES_MAX = 16 << 20
HOLD_MS_MAX = 31 * 86_400_000
STREAMS_MAX, COLUMNS_MAX, REPLICAS_MAX, EDGES_MAX = 10_000, 1_000, 1_000, 1_000
LINES_MAX = 10 * STREAMS_MAX
"""Of all streams: most have one producer, few have more than three."""
TIME_MS = IntegerField(0, 2**53 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """Buckets of a stream before `through_us` are durable at the reader, which holds the rest.

    It has them as they are in `version` of the line of `replica`.
    """

    stream: StreamName
    replica: int
    version: Version
    through_us: int
    limit_ms: int
    path_ms: int


ACKNOWLEDGEMENT = Document(
    "the acknowledgement",
    "send another",
    RecordField(
        {
            "stream": STREAM,
            "replica": IntegerField(0, REPLICA_MAX),
            "version": IntegerField(0, INT64_MAX),
            "through_us": IntegerField(BEGINNING_US, INT64_MAX),
            "limit_ms": IntegerField(1, HOLD_MS_MAX),
            "path_ms": IntegerField(0, HOLD_MS_MAX),
        },
        is_closed=True,
    ),
    SMALL_BYTES_MAX,
)


def write_acknowledgement(value: Acknowledgement) -> bytes:
    """The document of an acknowledgement."""
    return ACKNOWLEDGEMENT.write(
        {
            "stream": value.stream,
            "replica": value.replica,
            "version": value.version,
            "through_us": value.through_us,
            "limit_ms": value.limit_ms,
            "path_ms": value.path_ms,
        }
    )


def read_acknowledgement(content: bytes) -> Acknowledgement:
    """The acknowledgement that a reader sent. Raises Refused if it is not valid."""
    return Acknowledgement(**ACKNOWLEDGEMENT.read(content))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedStream:
    """A stream that the reader may read: its columns, its bucket width, and who produces it.

    `lineage` is what it is computed from, back to where records land: pairs of
    `participant/stream`, of which the second is computed from the first.
    """

    name: StreamName
    kind: str
    width_us: int
    columns: Mapping[str, str]
    key: tuple[str, ...]
    replicas: tuple[int, ...]
    lineage: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "columns")


COLUMN = TextField(63, r"[A-Za-z_][A-Za-z0-9_]{0,62}", "a column's name")
COLUMN_AND_TYPE = RecordField({"name": COLUMN, "type": TextField(1_000)})
QUALIFIED = TextField(
    127, r"[a-z][a-z0-9_]{0,62}/[a-z][a-z0-9_]{0,62}", "a participant and its stream"
)
OFFERS = Document(
    "the list of offered streams",
    TO_DO,
    RecordField(
        {
            "participant": NAME,
            "streams": ListField(
                RecordField(
                    {
                        "name": STREAM,
                        "kind": ChoiceField(("source", "derived")),
                        "width_us": IntegerField(1, INT64_MAX),
                        "columns": ListField(COLUMN_AND_TYPE, COLUMNS_MAX),
                        "key": ListField(COLUMN, COLUMNS_MAX),
                        "replicas": ListField(IntegerField(0, REPLICA_MAX), REPLICAS_MAX),
                        "lineage": ListField(
                            RecordField({"reads": QUALIFIED, "writes": QUALIFIED}), EDGES_MAX
                        ),
                    }
                ),
                STREAMS_MAX,
            ),
        }
    ),
    OFFERS_BYTES_MAX,
)


def write_offers(participant: Participant, streams: Sequence[OfferedStream]) -> bytes:
    """The document of the streams that a participant offers to one partner."""
    _check_streams(streams)
    return OFFERS.write(
        {
            "participant": participant,
            "streams": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "width_us": one.width_us,
                    "columns": [{"name": n, "type": t} for n, t in one.columns.items()],
                    "key": list(one.key),
                    "replicas": list(one.replicas),
                    "lineage": [{"reads": r, "writes": w} for r, w in one.lineage],
                }
                for one in streams
            ],
        }
    )


def read_offers(content: bytes) -> tuple[Participant, tuple[OfferedStream, ...]]:
    """The participant and the streams that it offers. Raises Refused if they are not valid."""
    fields = OFFERS.read(content)
    for one in fields["streams"]:
        names = [column["name"] for column in one["columns"]]
        if len(set(names)) != len(names):
            raise OFFERS.refusal(f"stream {one['name']} has two columns of one name")
    streams = tuple(
        OfferedStream(
            name=StreamName(one["name"]),
            kind=one["kind"],
            width_us=one["width_us"],
            columns={column["name"]: column["type"] for column in one["columns"]},
            key=tuple(one["key"]),
            replicas=tuple(one["replicas"]),
            lineage=tuple((edge["reads"], edge["writes"]) for edge in one["lineage"]),
        )
        for one in fields["streams"]
    )
    _check_streams(streams)
    return Participant(fields["participant"]), streams


def _check_streams(streams: Sequence[OfferedStream]) -> None:
    if len({one.name for one in streams}) != len(streams):
        raise OFFERS.refusal("one stream is offered twice")
    for one in streams:
        if not set(one.key) <= one.columns.keys() or len(set(one.key)) != len(one.key):
            raise OFFERS.refusal(f"the key of {one.name} is not made of its columns")
        if len(set(one.replicas)) != len(one.replicas):
            raise OFFERS.refusal(f"stream {one.name} names a replica twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineProgress:
    """A line of the partner's home; `mark` changes whenever its news do, and says nothing else."""

    stream: StreamName
    replica: int
    mark: str


PROGRESS = Document(
    "the progress",
    TO_DO,
    RecordField(
        {
            "lines": ListField(
                RecordField(
                    {
                        "stream": STREAM,
                        "replica": IntegerField(0, REPLICA_MAX),
                        "mark": TextField(128, r"[!-~]+", "a mark"),
                    }
                ),
                LINES_MAX,
            )
        }
    ),
    OFFERS_BYTES_MAX,
)


def write_progress(lines: Sequence[LineProgress]) -> bytes:
    """The document of the lines that a partner may read, in order of stream and replica."""
    return PROGRESS.write(
        {
            "lines": [
                {"stream": line.stream, "replica": line.replica, "mark": line.mark}
                for line in lines
            ]
        }
    )


def read_progress(content: bytes) -> tuple[LineProgress, ...]:
    """The lines that a partner publishes, in its order. Raises Refused if it is not valid."""
    lines = tuple(
        LineProgress(stream=StreamName(one["stream"]), replica=one["replica"], mark=one["mark"])
        for one in PROGRESS.read(content)["lines"]
    )
    if len({(line.stream, line.replica) for line in lines}) != len(lines):
        raise PROGRESS.refusal("it names a line twice")
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token as its holder receives it, once; its text never shows it."""

    token: str
    lifetime_s: int

    def __repr__(self) -> str:
        return f"AccessToken(lifetime_s={self.lifetime_s})"


TOKEN = Document(
    "the access token",
    TO_DO,
    RecordField(
        {
            "access_token": TextField(128, "[0-9A-Za-z_-]{32,128}", "a token"),
            "token_type": ChoiceField(("Bearer",)),
            "expires_in": IntegerField(1, 3_600),
        }
    ),
    SMALL_BYTES_MAX,
)


def write_token(issued: AccessToken) -> bytes:
    """The document of an issued token, with the names of OAuth 2.0."""
    return TOKEN.write(
        {
            "access_token": issued.token,
            "token_type": "Bearer",
            "expires_in": issued.lifetime_s,
        }
    )


def read_token(content: bytes) -> AccessToken:
    """The token that a partner's server issued. Raises Refused if it is not valid."""
    fields = TOKEN.read(content)
    return AccessToken(token=fields["access_token"], lifetime_s=fields["expires_in"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A home that answers: whose it is, its program's version, and its clock in Unix ms."""

    participant: Participant
    version: str
    clock_ms: int


HEALTH = Document(
    "the report of health",
    TO_DO,
    RecordField({"participant": NAME, "version": TextField(100), "clock_ms": TIME_MS}),
    SMALL_BYTES_MAX,
)


def write_health(health: Health) -> bytes:
    """The document of a home's health."""
    return HEALTH.write(
        {
            "participant": health.participant,
            "version": health.version,
            "clock_ms": health.clock_ms,
        }
    )


def read_health(content: bytes) -> Health:
    """The health that a partner reports. Raises Refused if it is not valid."""
    fields = HEALTH.read(content)
    return Health(
        participant=Participant(fields["participant"]),
        version=fields["version"],
        clock_ms=fields["clock_ms"],
    )
