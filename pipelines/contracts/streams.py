"""A stream's contract: what feeds it, if it is a source, and what is promised of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.contracts.fields import duration_us_of, fields_of
from pipelines.contracts.folder import check_inside, contract_files
from pipelines.contracts.yaml_values import Value, plain
from pipelines.streams.live.declaration import parse_declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamContract:
    """What `contracts/streams/<name>.yaml` says.

    `source` is the JSON text of what feeds it, its paths absolute (None: it is computed);
    `retention_us` is how long its buckets are kept at least (None: for good).
    """

    stream: StreamName
    source: str | None
    source_at: Value
    retention_us: int | None
    at: Value


def read_streams(directory: Path) -> tuple[StreamContract, ...]:
    """All of a contracts folder, by name."""
    return tuple(
        _stream(directory, document, StreamName(named.name), named.at)
        for document, named in contract_files(directory, "streams")
    )


def _stream(directory: Path, document: Value, name: StreamName, at: Value) -> StreamContract:
    fields = fields_of(document, required=("stream",), optional=("source", "retention"))
    return StreamContract(
        stream=name,
        source=_source(directory, name, fields["source"]) if "source" in fields else None,
        source_at=fields.get("source", at),
        retention_us=duration_us_of(fields["retention"]) if "retention" in fields else None,
        at=at,
    )


def _source(directory: Path, stream: StreamName, value: Value) -> str:
    document = plain(value)
    if not isinstance(document, dict):
        raise value.refused("must be a mapping that says its kind: directory, replay or generate")
    try:
        parse_declaration(stream, document)
    except Refused as error:
        raise value.refused(f"feeds nothing: {error}") from None
    if "path" in document:
        document["path"] = _path(directory, value, document["path"])
    if "paths" in document:
        document["paths"] = [_path(directory, value, path) for path in document["paths"]]
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _path(directory: Path, value: Value, written: str) -> str:
    """A path as a driver finds it wherever it is started: relative ones are in the folder."""
    if Path(written).is_absolute():
        return written
    if written.startswith("~"):
        raise value.refused(f"names {written!r}: write the absolute path")
    return str(check_inside(directory, directory / written, f"{value.place}: {written!r}"))
