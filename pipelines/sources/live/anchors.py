"""The anchors of a shared feed, first to last: one stream's name a line, in a file of the feed's.

The last one has a row in the catalog for every batch of the feed; those before had it until they
left the feed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.base.files import sync_folder, write_atomically

FILE = "anchors"


def read_anchors(folder: Path) -> tuple[StreamName, ...]:
    """The anchors so far; none before the first. Refused if the file cannot be read as one."""
    try:
        text = (folder / FILE).read_text("ascii")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise Refused(
            f"{folder / FILE} cannot be read ({error}), so nobody knows what is new: restore both "
            "catalog and checkpoint from one backup, or give the streams other names"
        ) from None
    return tuple(StreamName(name) for name in text.split())


def write_anchors(folder: Path, anchors: Iterable[StreamName]) -> None:
    """Write them down, whole and durable."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, "".join(f"{name}\n" for name in anchors))
    sync_folder(folder.parent)
