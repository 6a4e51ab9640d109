"""Where the exchange servers of the homes in one folder are reached, as each server wrote it."""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from medusa_core.errors import Conflict, Unavailable
from medusa_core.names import Participant, check_name
from pipelines.base.files import FileLock, open_regular, write_atomically

FOLDER = "exchange"
OBJECTS_SUFFIX = ".objects"
FILE_BYTES_MAX = 500
_LINES = re.compile(r"(https?://[0-9A-Za-z.:\[\]-]{1,260})\n(?:([0-9a-f]{64})\n)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """A URL from which a server is reached on this machine, and the pin of its certificate."""

    url: str
    pin: str | None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public(url: str) -> bool:
    """Whether partners elsewhere may use a URL: nothing is served to them without TLS."""
    return url.startswith("https://")


def address_path(directory: Path, participant: Participant) -> Path:
    """The file with the address; `directory` is the folder of homes."""
    return directory / FOLDER / check_name("participant", participant)


def write_address(directory: Path, participant: Participant, address: ServerAddress) -> None:
    """Write where a participant's server is reached, unless it is written there already.

    Raises Unavailable if it cannot be written.
    """
    _write(address_path(directory, participant), _text(address))


def read_address(directory: Path, participant: Participant) -> ServerAddress:
    """Where a participant's server is reached; Unavailable if no server says so."""
    found = _LINES.fullmatch(_read(address_path(directory, participant)))
    if not found or not _is_url(found[1]):
        raise Unavailable(
            f"the exchange of {participant} has no address here: start its server with medusa "
            f"serve --participant {participant}"
        )
    return ServerAddress(url=found[1], pin=found[2])


def write_objects(directory: Path, participant: Participant, origin: str | None) -> None:
    """Write to which object store a partner elsewhere may redirect; None: to none.

    Raises Unavailable if it cannot be written.
    """
    _write(address_path(directory, participant).with_suffix(OBJECTS_SUFFIX), origin or "")


def read_objects(directory: Path, participant: Participant) -> str | None:
    """The object store to which a partner elsewhere may redirect requests for files, if any."""
    return _read(address_path(directory, participant).with_suffix(OBJECTS_SUFFIX)) or None


def server_lock(directory: Path, participant: Participant) -> FileLock:
    """Held by the one process that serves a participant's exchange, until it ends.

    Raises Conflict if another process serves it, Unavailable if its file cannot be written.
    """
    path = address_path(directory, participant).with_suffix(".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(path, mode=0o600)
    except BlockingIOError:
        raise Conflict(
            f"another process serves the exchange of {participant}: end it, or wait for its end "
            "with --standby"
        ) from None
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written ({error.strerror}): mend its folder"
        ) from error


def remove_address(directory: Path, participant: Participant, address: ServerAddress) -> None:
    """Remove an address when its server ends, unless another server has written its own."""
    path = address_path(directory, participant)
    if _read(path) == _text(address):
        with suppress(OSError):
            path.unlink()


def _write(path: Path, text: str) -> None:
    """Write a file, unless it has the text already; one that does not exist has the empty text."""
    if _read(path) == text:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, durable=False)
    except OSError as error:
        raise Unavailable(
            f"address {path} cannot be written ({error.strerror}): mend its folder"
        ) from error


def _text(address: ServerAddress) -> str:
    return f"{address.url}\n" + ("" if address.pin is None else f"{address.pin}\n")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.hostname is not None and parts.port is not None
    except ValueError:
        return False


def _read(path: Path) -> str:
    """What a file holds; nothing if it cannot be read, or is no file."""
    try:
        with open_regular(path) as file:
            return file.read(FILE_BYTES_MAX).decode("ascii", "replace")
    except OSError:
        return ""
