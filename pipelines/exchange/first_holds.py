"""First holds: a partner's input is held before the partner has read anything (S7).

Its acknowledgements move the hold forward; without them the hold expires at its limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.commits import Hold
from medusa_core.exchange import IMPORT_PURPOSE, READER_LIMIT_MS
from medusa_core.grid import BEGINNING_US
from medusa_core.names import Participant, StreamName

Wiring = Mapping[str, tuple[tuple[StreamName, ...], tuple[StreamName, ...]]]
"""Fragment -> the streams that it reads and those that it writes."""


def partner_readings(
    wiring: Wiring, owners: Mapping[str, tuple[Participant, ...]]
) -> dict[Participant, frozenset[tuple[StreamName, Participant]]]:
    """For each home, which of its streams are read, and by which partner; `owners` by fragment.

    Who reads a stream of several producers reads the line of each, its own home's among them.
    """
    writers = {s: owners[name] for name, (_, outputs) in wiring.items() for s in outputs}
    readings: dict[Participant, set[tuple[StreamName, Participant]]] = {}
    for name, (inputs, _) in wiring.items():
        for stream, writer, reader in (
            (s, writer, reader)
            for s in inputs
            for writer in writers.get(s, ())
            for reader in owners[name]
        ):
            if writer != reader:
                readings.setdefault(writer, set()).add((stream, reader))
    return {writer: frozenset(its) for writer, its in readings.items()}


def first_holds(
    wiring: Wiring, owners: Mapping[str, tuple[Participant, ...]]
) -> dict[Participant, tuple[Hold, ...]]:
    """For each home, the holds of those that are to read its streams; `owners` by fragment."""
    return {
        writer: tuple(first_hold(stream, reader) for stream, reader in sorted(its))
        for writer, its in partner_readings(wiring, owners).items()
    }


def first_hold(stream: StreamName, reader: Participant) -> Hold:
    """The hold of a reader that has not acknowledged anything."""
    return Hold(
        stream=stream,
        holder=reader,
        purpose=IMPORT_PURPOSE,
        from_us=BEGINNING_US,
        limit_ms=READER_LIMIT_MS,
    )
