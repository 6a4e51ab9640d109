"""An exchange whose files come from the folders of partners, for tests that invent the news."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from hashlib import file_digest
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from medusa_core.segments import SegmentFile
from pipelines.exchange.exchange_port import Request


def hash_of(path: Path) -> str:
    with path.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()


class StoredFiles:
    """`Exchange.fetch_all` from storage roots; `Exchange.close` does nothing."""

    def __init__(self, storages: Mapping[Participant, Path]) -> None:
        self.storages = dict(storages)

    def fetch(self, partner: Participant, file: SegmentFile, target: Path) -> None:
        path = self.storages[partner] / file.path
        if not path.is_file() or (path.stat().st_size, hash_of(path)) != (
            file.size_bytes,
            file.sha256,
        ):
            raise Unavailable(f"{file.path} of {partner} is damaged or gone")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        except OSError as error:
            raise Unavailable(f"copy {target} could not be written ({error.strerror})") from error

    def begin(self, requests: Iterable[Request]) -> None:
        pass

    def fetch_all(self, partner: Participant, files: Mapping[SegmentFile, Path]) -> None:
        for file, target in files.items():
            self.fetch(partner, file, target)

    def close(self) -> None:
        pass
