"""The demo's own folder: locked, and emptied of the last demo's files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medusa_core.errors import Conflict, MedusaError, Refused, Unavailable
from pipelines.base.files import FileLock
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import drop_home
from pipelines.homes.home import SERVER, known_homes

MARK = "made-by-medusa-demo"


@contextmanager
def own_folder(folder: Path) -> Iterator[Path]:
    """The demo's own folder, held alone; Refused if somebody else's things lie there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / MARK
        if not mark.exists() and any(folder.iterdir()):
            raise Refused(
                f"{folder} holds what no demo made: move it away, or set MEDUSA_DIR to another "
                "folder"
            )
        lock = FileLock(mark)
    except BlockingIOError as error:
        raise Conflict(f"another demo works in {folder}: wait for it to end") from error
    except OSError as error:
        raise Unavailable(
            f"{error.filename or folder} cannot be made ({error.strerror}): set MEDUSA_DIR to a "
            "folder of yours"
        ) from error
    with lock:
        yield folder


def remove_homes(settings: Settings) -> None:
    """Remove the homes of an earlier demo with their databases, wherever the server keeps them.

    Raises Conflict if somebody reads from them, Unavailable if they cannot be removed.
    """
    directory = settings.directory
    if not directory.exists():
        return
    if settings.catalog_url is not None:
        for database in known_homes(directory).values():
            drop_home(settings.catalog_url_of("postgres") or "", database)
    if (directory / SERVER).exists():
        _discard(EmbeddedServer(directory / SERVER))
    try:
        shutil.rmtree(directory)
    except OSError as error:
        raise Unavailable(
            f"{error.filename} of the last demo cannot be removed ({error.strerror}): remove "
            f"{directory}, then try again"
        ) from error


def _discard(server: EmbeddedServer) -> None:
    """Remove the last demo's server; Conflict if somebody reads from it just now."""
    if (server.directory / "cluster" / "data" / "postmaster.pid").exists():
        try:
            with server:
                is_free = server.owns_server
        except MedusaError:
            is_free = True  # it does not start any more, so nobody can be reading from it
        if not is_free:
            raise Conflict(
                f"another command reads the last demo's home in {server.directory.parent}: let it "
                "end, then try again"
            )
    server.discard()
