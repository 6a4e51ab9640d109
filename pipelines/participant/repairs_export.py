"""Records out of quarantine as JSON lines, to be repaired by hand and handed in again (`repairs`).

They are read a page at a time, and the file is there whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import StreamName
from medusa_core.network import Source
from medusa_core.suggest import did_you_mean
from pipelines.base.files import atomic_file
from pipelines.catalog.records import QuarantineEntry
from pipelines.homes.deployed_fragments import network_in
from pipelines.homes.home import Home
from pipelines.sources.recorded.json_records import parse_line, text_of

PAGE = 1_000


def export_quarantined(home: Home, stream: str, file: Path) -> int:
    """Write a source's records that have not landed as JSON lines; how many there are.

    Refused if the file is there already or the stream is no source, Unavailable if it cannot be
    written.
    """
    source = source_of(home, stream)
    count = 0
    try:
        if os.path.lexists(file):
            raise FileExistsError
        with atomic_file(file, replaces=False) as opened:
            for entry in _entries(home, StreamName(stream)):
                if not entry.landed_as:
                    line = json.dumps(_document(source, entry), ensure_ascii=True) + "\n"
                    opened.write(line.encode())
                    count += 1
    except FileExistsError:
        raise Refused(f"{file} is there already: choose another name, or move it away") from None
    except OSError as error:
        raise Unavailable(f"{file} cannot be written ({error.strerror}): choose another") from None
    return count


def _entries(home: Home, stream: StreamName) -> Iterator[QuarantineEntry]:
    """A stream's records in quarantine, oldest first, a page of them in memory."""
    after = 0
    while page := home.catalog.quarantine_entries(stream, after=after, limit=PAGE):
        yield from page
        after = page[-1].number


def source_of(home: Home, stream: str) -> Source:
    """How the source is declared by the newest plan; Refused if the home lands no such stream."""
    found: dict[str, Source] = {}
    for plan in home.catalog.plans():
        if (network := network_in(plan.document)) is not None:
            found |= {s.name: s for s in network.sources if s.is_landed}
    name = known_stream(home, stream)
    if home.catalog.lines(name)[0].stream.kind != "source" or stream not in found:
        raise Refused(
            f"{stream} is computed, not landed: correct the expression in its network, or hand in "
            "records of its sources"
        )
    return found[stream]


def known_stream(home: Home, stream: str) -> StreamName:
    """The name of a stream of the home; Refused, with the nearest, if there is none of it."""
    known = sorted({str(line.stream.name) for line in home.catalog.lines()})
    if stream in known:
        return StreamName(stream)
    hint = did_you_mean(stream, known, "it has " + (", ".join(known) or "none"))
    raise Refused(f"the home of {home.participant} has no stream {stream!r}: {hint}")


def _document(source: Source, entry: QuarantineEntry) -> dict[str, Any]:
    record = entry.record
    return {
        "quarantine": entry.number, "origin": record.origin, "position": record.position,
        "field": record.field, "reason": record.reason, "content": record.content,
        "is_complete": record.is_complete, "record": _values(source, entry),
    }  # fmt: skip


def _values(source: Source, entry: QuarantineEntry) -> dict[str, str | None]:
    """The declared columns, filled where the record is a whole JSON object that names them."""
    found = parse_line(entry.record.content.encode()) if entry.record.is_complete else {}
    known: Mapping[str, Any] = found if isinstance(found, dict) else {}
    return {name: text_of(known.get(name)) for name in source.columns}
