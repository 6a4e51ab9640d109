"""A stream's contract: its feed, if it is a source, its promises, its sinks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from medusa_core.bounds import Bound
from medusa_core.drops.utility import Qos
from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.contracts.fields import (
    Counted,
    Named,
    count_of,
    fields_of,
    items_of,
    name_of,
    names_of,
    truth_of,
)
from pipelines.contracts.folder import check_inside, contract_files
from pipelines.contracts.stream_bounds import BOUND_FIELDS, bound_of_fields, milliseconds_of
from pipelines.contracts.stream_qos import qos_of
from pipelines.contracts.yaml_values import Value, plain
from pipelines.sinks.sink_declaration import SinkDeclaration, document_of, parse_sink
from pipelines.sources.live.source_declaration import parse_declaration

OPTIONAL = ("source", "retention", "sinks", "replicas", "verify", "readers", "recipients", "public",
            "on_revision", "qos", *BOUND_FIELDS)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContract:
    """A sink of a stream: its name, its document (JSON, paths absolute) and what that means.

    `participant` delivers it (None: who lands or computes the stream).
    """

    name: str
    document: str
    declaration: SinkDeclaration
    participant: Named | None
    at: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamContract:
    """What `contracts/streams/<name>.yaml` says.

    `source` is the JSON text of what feeds it, its paths absolute (None: it is computed);
    `retention_ms` is how long its buckets are kept at least (None: for good), in every home;
    `sinks` are where it is delivered; `bound` is within what it answers, if it is computed;
    `lag_ms` is how late it is due, if it is a source and that is declared; `replicas` is how many
    participants compute it at least, and `verify` how many of them must agree, if it is declared.
    `readers` are the partners that may read it, besides those that buy it or whose fragments here
    read it. `recipients` may read it through Delta Sharing; so may every recipient if it is public.
    `follows_revisions` of a partner's stream: its revisions are followed without asking. `qos` is
    what it is worth by delay and loss, if records of it may be dropped in an overload.
    """

    stream: StreamName
    source: str | None
    source_at: Value
    retention_ms: int | None
    sinks: tuple[SinkContract, ...]
    bound: Bound | None
    lag_ms: int | None
    lag_at: Value
    replicas: Counted | None
    verify: Counted | None
    readers: tuple[Named, ...]
    recipients: tuple[Named, ...] = ()
    is_public: bool = False
    follows_revisions: bool = False
    qos: Qos | None = None
    qos_at: Value
    at: Value


def read_streams(directory: Path) -> tuple[StreamContract, ...]:
    """All of a contracts folder, by name."""
    return tuple(
        _stream(directory, document, StreamName(named.name), named.at)
        for document, named in contract_files(directory, "streams")
    )


def _stream(directory: Path, document: Value, name: StreamName, at: Value) -> StreamContract:
    fields = fields_of(document, required=("stream",), optional=OPTIONAL)
    return StreamContract(
        stream=name,
        source=_source(directory, name, fields["source"]) if "source" in fields else None,
        source_at=fields.get("source", at),
        retention_ms=milliseconds_of(fields["retention"]) if "retention" in fields else None,
        sinks=_sinks(directory, name, fields["sinks"]) if "sinks" in fields else (),
        bound=bound_of_fields(fields),
        lag_ms=milliseconds_of(fields["lag"]) if "lag" in fields else None,
        lag_at=fields.get("lag", fields.get("bound", at)),
        replicas=count_of(fields["replicas"]) if "replicas" in fields else None,
        verify=count_of(fields["verify"]) if "verify" in fields else None,
        readers=names_of("participant", fields["readers"]) if "readers" in fields else (),
        recipients=names_of("recipient", fields["recipients"]) if "recipients" in fields else (),
        is_public="public" in fields and truth_of(fields["public"]),
        follows_revisions="on_revision" in fields and _follows(fields["on_revision"]),
        qos=qos_of(fields["qos"]) if "qos" in fields else None,
        qos_at=fields.get("qos", at),
        at=at,
    )


def _follows(value: Value) -> bool:
    if plain(value) not in ("follow", "stop"):
        raise value.refused("must be follow or stop: what a revision by a partner does to the copy")
    return plain(value) == "follow"


def _source(directory: Path, stream: StreamName, value: Value) -> str:
    document = plain(value)
    if not isinstance(document, dict):
        raise value.refused(
            "must be a mapping that says its kind: directory, replay, generate or spark"
        )
    try:
        parse_declaration(stream, document)
    except Refused as error:
        raise value.refused(f"feeds nothing: {error}") from None
    if "path" in document:
        document["path"] = _path(directory, value, document["path"])
    if "paths" in document:
        document["paths"] = [_path(directory, value, path) for path in document["paths"]]
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _sinks(directory: Path, stream: StreamName, value: Value) -> tuple[SinkContract, ...]:
    sinks: dict[str, SinkContract] = {}
    for item in items_of(value):
        sink = _sink(directory, stream, item)
        if sink.name in sinks:
            raise item.refused(
                f"is named {sink.name} like {sinks[sink.name].at.place}: give each sink of a "
                "stream a name of its own, such as name: second"
            )
        sinks[sink.name] = sink
    return tuple(sinks.values())


def _sink(directory: Path, stream: StreamName, value: Value) -> SinkContract:
    match value.content:
        case dict() as fields:
            pass
        case _:
            raise value.refused("must be a mapping that says its kind: parquet, csv or postgres")
    named = name_of("sink", fields["name"]) if "name" in fields else None
    by = name_of("participant", fields["participant"]) if "participant" in fields else None
    document = {
        name: plain(inside)
        for name, inside in fields.items()
        if name not in ("name", "participant")
    }
    try:
        parse_sink(stream, document)
        if "path" in document:
            document["path"] = _path(directory, value, str(document["path"]))
        declaration = parse_sink(stream, document)
    except Refused as error:
        raise value.refused(f"delivers nothing: {error}") from None
    return SinkContract(
        name=declaration.kind if named is None else named.name,
        document=document_of(document),
        declaration=declaration,
        participant=by,
        at=value,
    )


def _path(directory: Path, value: Value, written: str) -> str:
    """A path as a driver finds it wherever it is started: relative ones are in the folder."""
    if Path(written).is_absolute():
        return written
    if written.startswith("~"):
        raise value.refused(f"names {written!r}: write the absolute path")
    return str(check_inside(directory, directory / written, f"{value.place}: {written!r}"))
