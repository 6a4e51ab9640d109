"""The content of a paced source: recorded files, or connections generated block by block.

A feed is a sequence of pieces, each with a place (a few numbers) from which the sequence can be
resumed, so that a restarted source continues where it was without going through all of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.sources.generator import SCHEMA, generate_connections
from pipelines.sources.live.lander import Piece
from pipelines.sources.recorded.reader import LIMITS, check_named_once, read_recorded_file
from pipelines.storage.arrow_schema import STIME, columns_of, record_schema
from pipelines.storage.file_limits import FileLimits

Place = Mapping[str, int]
BLOCK_RECORDS = 65_536


class Feed(Protocol):
    """Pieces in order; `fingerprint` is the same for the same sequence."""

    @property
    def fingerprint(self) -> str:
        """Of all that settles the sequence."""

    def pieces(self, place: Place | None) -> Iterator[tuple[Place, Piece]]:
        """The pieces from a place on (None: from the first), each with its own place."""


@dataclass(frozen=True, slots=True)
class RecordedFeed:
    """Recorded files, one behind the other, in chunks."""

    source: Source
    files: Sequence[Path]
    limits: FileLimits = LIMITS

    @property
    def fingerprint(self) -> str:
        """Of the files' paths, sizes and times."""
        words = [
            f"{file.resolve()} {status.st_size} {status.st_mtime_ns}"
            for file, status in zip(self.files, self.check_files(), strict=True)
        ]
        return sha256("\n".join(words).encode(errors="surrogateescape")).hexdigest()

    def check_files(self) -> list[os.stat_result]:
        """How the files stand; Refused if one is not there or is named twice."""
        check_named_once(self.files)
        found = []
        for file in self.files:
            try:
                found.append(file.stat())
            except OSError as error:
                raise Refused(
                    f"{file} cannot be replayed ({error.strerror}): give the path of a recorded "
                    "file"
                ) from None
        return found

    def pieces(self, place: Place | None) -> Iterator[tuple[Place, Piece]]:
        """See `Feed.pieces`; places are the number of a file and of a chunk in it."""
        first, skip = (place["file"], place["chunk"]) if place else (0, 0)
        for number, file in enumerate(self.files[first:], first):
            for chunk in read_recorded_file(self.source, file, skip=skip, limits=self.limits):
                yield (
                    {"file": number, "chunk": chunk.index},
                    Piece(
                        origin=os.fsencode(file).decode(errors="replace"),
                        records=chunk.records,
                        positions=chunk.positions,
                        quarantined=chunk.quarantined,
                    ),
                )
            skip = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFeed:
    """Generated connections from `start_us` on; each block has a seed of its own."""

    source: Source
    seed: int
    rate_per_s: int
    sources: int
    disorder_us: int
    start_us: int
    records: int | None = None

    @property
    def fingerprint(self) -> str:
        """Of the seed and the figures."""
        figures = (self.seed, self.rate_per_s, self.sources, self.disorder_us, self.start_us)
        return sha256(repr(figures).encode()).hexdigest()

    def pieces(self, place: Place | None) -> Iterator[tuple[Place, Piece]]:
        """See `Feed.pieces`; a place is the number of a block."""
        schema = record_schema(columns_of(f"source {self.source.name!r}", self.source.columns))
        seconds = max(BLOCK_RECORDS // self.rate_per_s, 1)
        records = self.rate_per_s * seconds
        block = place["block"] if place else 0
        while self.records is None or block * records < self.records:
            (table,) = generate_connections(
                seed=self.seed * 2**64 + block,
                records=records,
                start_us=self.start_us + block * seconds * 1_000_000,
                sources=self.sources,
                rate_per_s=self.rate_per_s,
                disorder_us=self.disorder_us,
            )
            done = block * records
            if self.records is not None:
                table = table.slice(0, self.records - done)
            numbers = np.arange(done + 1, done + len(table) + 1)
            table = table.set_column(0, "seq", pa.array(numbers))
            columns = [table["ts_us" if name == STIME else name] for name in schema.names]
            piece = Piece(
                origin=f"generated with seed {self.seed}",
                records=pa.Table.from_arrays(columns, schema=schema),
                positions=numbers,
            )
            yield {"block": block}, piece
            block += 1


def check_generated(source: Source) -> None:
    """Raise Refused if a source declares columns that generated connections do not have."""
    if source.time != "ts_us":
        raise Refused(
            f"source {source.name!r} declares its time as {source.time!r}: generated connections "
            "have theirs in 'ts_us'"
        )
    for field in record_schema(columns_of(f"source {source.name!r}", source.columns)):
        at = SCHEMA.get_field_index(field.name)
        if field.name != STIME and (at < 0 or SCHEMA.field(at).type != field.type):
            raise Refused(
                f"source {source.name!r} declares {field.name!r} as {source.columns[field.name]}: "
                "generated connections have " + ", ".join(f"{f.name} ({f.type})" for f in SCHEMA)
            )
