"""Registration of sinks in a home's catalog: where delivery begins, and the effect of a change.

A sink is known by its stream and name. Declared for another target, or another beginning, it
continues where that target's record ends, or begins there from the start; else it continues where
it is.
"""

from __future__ import annotations

from medusa_core.errors import Refused
from medusa_core.names import StreamName, check_name
from medusa_core.sinks import SinkRecord
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import iso
from pipelines.catalog.reading_roles import Lines, Sinks
from pipelines.catalog.records import LineStatus
from pipelines.sinks.delivered_line import line_of
from pipelines.sinks.delivery import DeliveredHome
from pipelines.sinks.sink_declaration import (
    FolderSink,
    SinkDeclaration,
    begins_at_us,
    check_sink,
    parse_sink,
    same_target,
)


def declare(catalog: DeliveredHome, stream: StreamName, name: str, document: str) -> None:
    """Declare a sink as in its document (JSON); the same again is nothing.

    Raises Refused if it does not go with its stream, delivers where another sink of the home does,
    or is new and what it begins with is trimmed.
    """
    check_name("sink", name)
    declared = parse_sink(stream, document)
    line = _line(catalog, stream)
    check_sink(stream, declared, line.stream.columns, line.stream.width_us, line.stream.key)
    current = None
    for sink in catalog.sinks():
        if (sink.stream, sink.name) == (stream, name):
            current = sink
        elif same_target(parse_sink(sink.stream, sink.document), declared):
            raise Refused(
                f"sink {sink.name} of {sink.stream} delivers into {declared.target} already: give "
                "each sink a target of its own"
            )
    if current is not None and current.document == document:
        return
    from_us = begins_at_us(declared.pace, line.stable_through_us, line.stream.width_us)
    through_us = None
    if current is None:
        _check_kept(line, name, from_us)
    else:
        was = parse_sink(stream, current.document)
        if (target_of(was), was.pace.begins) == (target_of(declared), declared.pace.begins):
            from_us, through_us = current.from_us, current.through_us
    catalog.declare_sink(
        stream, name, document, from_us=from_us, through_us=through_us,
        limit_ms=declared.pace.hold_ms,
    )  # fmt: skip


def target_of(declaration: SinkDeclaration) -> tuple[str, ...]:
    """What identifies the place that a sink delivers into, as far as its words tell."""
    if isinstance(declaration, FolderSink):
        return ("folder", str(declaration.path))
    return ("table", declaration.url, declaration.schema, declaration.table)


def sinks_declared(
    catalog: Sinks, stream: str | None = None, name: str | None = None
) -> tuple[SinkRecord, ...]:
    """The sinks of a home, or those of a stream and name; Refused, with what there is, if none."""
    sinks = catalog.sinks()
    known = sorted({str(sink.stream) for sink in sinks})
    names = sorted({sink.name for sink in sinks if stream in (None, sink.stream)})
    if stream is not None and stream not in known:
        hint = did_you_mean(stream, known, f"those of {', '.join(known) or 'none'} are delivered")
        raise Refused(f"no sink of {stream!r} is declared in this home: {hint}")
    if name is not None and name not in names:
        hint = did_you_mean(name, names, f"there is {', '.join(names) or 'none'}")
        raise Refused(f"no sink {name!r} is declared in this home: {hint}")
    if not sinks:
        raise Refused(
            "no sink is declared in this home: write sinks into a stream's contract, or name a "
            "target with --stream S and --parquet DIR, --csv DIR or --postgres URL"
        )
    return tuple(s for s in sinks if stream in (None, s.stream) and name in (None, s.name))


def _line(catalog: Lines, stream: StreamName) -> LineStatus:
    line = line_of(catalog.lines(stream), stream, catalog.participant)
    if line is None:
        known = sorted({str(ln.stream.name) for ln in catalog.lines()})
        hint = did_you_mean(stream, known, f"it has {', '.join(known) or 'none'}")
        raise Refused(f"the home of {catalog.participant} has no stream {stream!r}: {hint}")
    return line


def _check_kept(line: LineStatus, name: str, from_us: int) -> None:
    kept_us = line.kept_from_us
    if kept_us is None or line.origin_us is None or max(from_us, line.origin_us) >= kept_us:
        return
    raise Refused(
        f"sink {name} of {line.stream.name} is to begin at {iso(max(from_us, line.origin_us))}, "
        f"and what is before {iso(kept_us)} is trimmed: write from: {iso(kept_us)}, a later time "
        "or now"
    )
