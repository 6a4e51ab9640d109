"""A participant's contract: its storage root, the sources it lands, the fragments it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.protocol.document_fields import WrongField
from medusa_core.protocol.introductions import URL
from medusa_core.protocol.news_documents import HASH
from pipelines.base.time_text import parse_time_us
from pipelines.contracts.fields import (
    Named,
    count_of,
    duration_us_of,
    fields_of,
    items_of,
    name_of,
    names_of,
    text_of,
    truth_of,
)
from pipelines.contracts.folder import check_inside, contract_files
from pipelines.contracts.public_keys import public_key_of
from pipelines.contracts.yaml_values import Value
from pipelines.language.load import SHIPPED
from pipelines.storage.object_settings import SCHEME, ObjectSettings, origin_of

OF_BUCKET: Mapping[str, tuple[str, Callable[[Value], Any]]] = {
    "storage_endpoint": ("endpoint", text_of),
    "storage_region": ("region", text_of),
    "storage_credentials": ("credentials", text_of),
    "storage_cache_gib": ("cache_bytes", lambda value: count_of(value).count << 30),
    "storage_ca_file": ("ca_file", text_of),
    "storage_redirects": ("redirects", truth_of),
}
"""Fields about a bucket: the setting that each gives, and how it is read."""

OPTIONAL = ("storage", *OF_BUCKET, "runs", "public_key", "exchange")


@dataclass(frozen=True, slots=True)
class Start:
    """Where the outputs of a network start, if that is declared.

    At an event time, or with `from_us` None at the origin of what it reads, or `is_now`.
    """

    from_us: int | None = None
    is_now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a participant runs of one network.

    `network` is a shipped name, or the absolute path of a user's file; `width_us` is None where the
    network's own bucket is meant, `start` where none is declared.
    """

    network: str
    network_at: Value
    width_us: int | None
    sources: tuple[Named, ...]
    fragments: tuple[Named, ...]
    at: Value
    start: Start | None = None
    start_at: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeAddress:
    """Where the exchange server of a participant elsewhere is reached.

    `url` None: nowhere, it only reads. `pin`: the SHA-256 of the key of its certificate, None for a
    public authority's certificate. `objects`: the object store to which it may redirect requests
    for files, None if to none.
    """

    url: str | None
    pin: str | None
    objects: str | None = None


NOWHERE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantContract:
    """What `contracts/participants/<name>.yaml` says; `storage` as written, None: the default.

    `objects` are the settings of the bucket that `storage` names, None if it names a folder.
    `public_key` is the 32 bytes by which its signatures are checked, and `exchange` where it is
    reached, if the file gives them.
    """

    participant: Participant
    storage: Named | None
    runs: tuple[Run, ...]
    at: Value
    public_key: bytes | None = None
    exchange: ExchangeAddress | None = None
    objects: ObjectSettings | None = None


def read_participants(directory: Path) -> tuple[ParticipantContract, ...]:
    """All of a contracts folder, by name."""
    found = tuple(
        _participant(directory, document, named)
        for document, named in contract_files(directory, "participants")
    )
    if not found:
        raise Refused(f"{directory}/participants holds no contract: write NAME.yaml there")
    return found


def _participant(directory: Path, document: Value, named: Named) -> ParticipantContract:
    fields = fields_of(document, required=("participant",), optional=OPTIONAL)
    storage = None
    if "storage" in fields:
        storage = Named(name=text_of(fields["storage"]), at=fields["storage"])
    items = items_of(fields["runs"]) if "runs" in fields else ()
    runs = tuple(_run(directory, item) for item in items)
    if "exchange" in fields and "public_key" not in fields:
        raise fields["exchange"].refused(
            "is of a participant without a key: write its public_key, too"
        )
    seen: set[str] = set()
    for run in runs:
        if run.network in seen:
            raise run.network_at.refused("names a network again: put both into one item")
        seen.add(run.network)
    return ParticipantContract(
        participant=Participant(named.name),
        storage=storage,
        objects=_objects_of(fields),
        runs=runs,
        at=named.at,
        public_key=public_key_of(fields["public_key"]) if "public_key" in fields else None,
        exchange=exchange_of(fields["exchange"]) if "exchange" in fields else None,
    )


def _objects_of(fields: Mapping[str, Value]) -> ObjectSettings | None:
    storage = fields.get("storage")
    if storage is None or not text_of(storage).startswith(SCHEME):
        for field in OF_BUCKET:
            if field in fields:
                raise fields[field].refused(
                    f"is about a bucket: write storage: {SCHEME}bucket/prefix, too"
                )
        return None
    given = {
        setting: read(fields[field]) for field, (setting, read) in OF_BUCKET.items()
        if field in fields
    }  # fmt: skip
    try:
        return ObjectSettings(address=text_of(storage), **given)
    except Refused as error:
        raise storage.refused(f"cannot be used: {error}") from None


def exchange_of(value: Value) -> ExchangeAddress:
    """The address of an exchange server; Refused for a URL without TLS or an impossible pin."""
    if value.content == NOWHERE:
        return ExchangeAddress(url=None, pin=None)
    fields = fields_of(value, required=("url",), optional=("pin", "objects"))
    for name, field, what in (
        ("url", URL, "https:// with the host and the port of its exchange server"),
        ("pin", HASH, "the 64 hexadecimal digits that its operator's medusa serve prints"),
    ):
        if name in fields:
            try:
                field.check(text_of(fields[name]))
            except WrongField:
                raise fields[name].refused(f"is not valid: write {what}") from None
    pin = text_of(fields["pin"]) if "pin" in fields else None
    objects = None
    if "objects" in fields:
        try:
            objects = origin_of(text_of(fields["objects"]))
        except Refused as error:
            raise fields["objects"].refused(f"is not valid: {error}") from None
    return ExchangeAddress(url=text_of(fields["url"]), pin=pin, objects=objects)


def _run(directory: Path, item: Value) -> Run:
    fields = fields_of(
        item, required=("network",), optional=("bucket", "sources", "fragments", "from")
    )
    sources = names_of("source", fields["sources"]) if "sources" in fields else ()
    fragments = names_of("fragment", fields["fragments"]) if "fragments" in fields else ()
    if not sources and not fragments:
        raise item.refused("runs nothing: list sources to land, or fragments to compute")
    return Run(
        network=_network(directory, fields["network"]),
        network_at=fields["network"],
        width_us=duration_us_of(fields["bucket"]) if "bucket" in fields else None,
        sources=sources,
        fragments=fragments,
        at=item,
        start=_start(fields["from"]) if "from" in fields else None,
        start_at=fields.get("from"),
    )


def _start(value: Value) -> Start:
    text = text_of(value)
    if text in ("origin", "now"):
        return Start(is_now=text == "now")
    try:
        return Start(from_us=parse_time_us("from", text))
    except Refused:
        raise value.refused(
            f"is {text!r}: write origin, now or an event time, such as 2026-01-01T00:00:00Z"
        ) from None


def _network(directory: Path, value: Value) -> str:
    text = text_of(value)
    if text in SHIPPED:
        return text
    if not text.endswith((".py", ".sql")):
        # No path: the loader knows which names are near.
        return name_of("network", value).name
    if text.startswith("~"):
        raise value.refused(f"is {text!r}: write the absolute path of the file")
    path = Path(text)
    if path.is_absolute():
        return str(path.resolve())
    return str(check_inside(directory, directory / path, f"{value.place} {text!r}"))
