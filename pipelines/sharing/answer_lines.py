"""The documents of the Delta Sharing protocol: lists, and tables as lines of JSON.

Both forms of the protocol are written, `parquet` and `delta`; a client names those that it
understands in the header `delta-sharing-capabilities`, and the first is the default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from medusa_core.errors import Refused
from pipelines.sharing.prepared_files import PreparedFile
from pipelines.sharing.table_names import SCHEMA, TableName

JSON_TYPE = "application/json; charset=utf-8"
LINES_TYPE = "application/x-ndjson; charset=utf-8"
CAPABILITIES = "delta-sharing-capabilities"
PARQUET, DELTA = "parquet", "delta"
_NAMESPACE = UUID("6b1d6f0e-52c5-4d0f-9d0e-3f1f7a1c5a55")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a client understands, and what an answer to it is."""

    form: str = PARQUET
    has_end: bool = False
    is_given: bool = False

    @property
    def headers(self) -> Mapping[str, str]:
        """The header of the answer."""
        if not self.is_given:
            return {}
        end = ";includeendstreamaction=true" if self.has_end else ""
        return {CAPABILITIES: f"responseformat={self.form}{end}"}


def capabilities_of(header: str | None) -> Capabilities:
    """Of a request's header; Refused if it names no form that is written here."""
    if header is None:
        return Capabilities()
    words = (word.partition("=") for word in header.lower().split(";"))
    given = {name.strip(): value.strip() for name, _, value in words}
    forms = [form.strip() for form in given.get("responseformat", PARQUET).split(",")]
    form = next((form for form in (PARQUET, DELTA) if form in forms), None)
    if form is None:
        raise Refused("tables are sent with responseformat=parquet or delta: name one of them")
    return Capabilities(form, given.get("includeendstreamaction") == "true", is_given=True)


def table_item(share: str, table: TableName) -> dict[str, str]:
    """A table in a list."""
    return {
        "name": str(table), "schema": SCHEMA, "share": share, "shareId": share_id(share),
        "id": table_id(share, table),
    }  # fmt: skip


def share_id(share: str) -> str:
    """The identifier of a share, which follows from its name."""
    return str(uuid5(_NAMESPACE, share))


def table_id(share: str, table: TableName) -> str:
    """The identifier of a table, which follows from its name."""
    return str(uuid5(_NAMESPACE, f"{share}.{SCHEMA}.{table}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLines:
    """The lines about one table, in the form that the client understands."""

    share: str
    table: TableName
    schema_string: str
    capabilities: Capabilities

    def head(self, version: int | None = None) -> list[dict[str, Any]]:
        """The protocol and the metadata; `version` where these are of a version."""
        described = {
            "id": table_id(self.share, self.table), "name": str(self.table),
            "format": {"provider": "parquet"}, "schemaString": self.schema_string,
            "partitionColumns": [], "configuration": {"enableChangeDataFeed": "true"},
        }  # fmt: skip
        its = {} if version is None else {"version": version}
        if self.capabilities.form == PARQUET:
            return [{"protocol": {"minReaderVersion": 1}}, {"metaData": {**described, **its}}]
        described["format"] = {"provider": "parquet", "options": {}}
        described["configuration"] = {"delta.enableChangeDataFeed": "true"}
        return [
            {"protocol": {"deltaProtocol": {"minReaderVersion": 1, "minWriterVersion": 4}}},
            {"metaData": {"deltaMetadata": described, **its}},
        ]

    def file(self, file: PreparedFile, url: str, expires_ms: int) -> dict[str, Any]:
        """A file of a snapshot."""
        if self.capabilities.form == DELTA:
            added = self._action("add", file, url, 0)
            return {
                "file": {
                    "id": file.key, "deltaSingleAction": added, "expirationTimestamp": expires_ms,
                }
            }  # fmt: skip
        return {"file": {**_named(file, url, expires_ms), "stats": file.statistics}}

    def change(
        self, kind: str, file: PreparedFile, url: str, expires_ms: int,
        version: int, made_at_ms: int,
    ) -> dict[str, Any]:  # fmt: skip
        """A file of changes: `add`, `remove` or `cdf` at a version."""
        its = {"version": version, "timestamp": made_at_ms}
        if self.capabilities.form == DELTA:
            action = self._action("cdc" if kind == "cdf" else kind, file, url, made_at_ms)
            named = {"id": file.key, "deltaSingleAction": action, "expirationTimestamp": expires_ms}
            return {"file": {**named, **its}}
        statistics = {"stats": file.statistics} if kind == "add" else {}
        return {kind: {**_named(file, url, expires_ms), **statistics, **its}}

    def end(self, expires_ms: int | None) -> list[dict[str, Any]]:
        """The last line, if the client wants one."""
        if not self.capabilities.has_end:
            return []
        its = {} if expires_ms is None else {"minUrlExpirationTimestamp": expires_ms}
        return [{"endStreamAction": its}]

    @staticmethod
    def _action(kind: str, file: PreparedFile, url: str, made_at_ms: int) -> dict[str, Any]:
        fields: dict[str, Any] = {"path": url, "partitionValues": {}, "size": file.size_bytes}
        if kind == "add":
            fields |= {"modificationTime": made_at_ms, "dataChange": True, "stats": file.statistics}
        elif kind == "remove":
            fields |= {"deletionTimestamp": made_at_ms, "dataChange": True,
                       "extendedFileMetadata": True}  # fmt: skip
        else:
            fields |= {"dataChange": False}
        return {kind: fields}


def _named(file: PreparedFile, url: str, expires_ms: int) -> dict[str, Any]:
    return {
        "url": url, "id": file.key, "partitionValues": {}, "size": file.size_bytes,
        "expirationTimestamp": expires_ms,
    }  # fmt: skip


def lines(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Documents, one in a line."""
    return "".join(f"{json.dumps(document)}\n" for document in documents).encode()


def page(items: Sequence[Mapping[str, Any]], next_token: str | None) -> bytes:
    """A page of a list."""
    more = {} if next_token is None else {"nextPageToken": next_token}
    return json.dumps({"items": list(items), **more}).encode()


def error_document(code: str, message: str) -> bytes:
    """An error in the form of the protocol."""
    return json.dumps({"errorCode": code, "message": message}).encode()
