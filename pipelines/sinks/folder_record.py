"""The record of a folder as JSON, and the files that it requires in the folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName, Version
from pipelines.base.foreign_documents import is_whole_number
from pipelines.sinks.target import Owner, TargetRecord

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContents:
    """What must lie in the folder: how many files, and a sum over their names and sizes."""

    files: int = 0
    sum: int = 0

    def plus(self, name: str, size_bytes: int) -> FolderContents:
        """With one more file."""
        term = int.from_bytes(sha256(f"{name}:{size_bytes}".encode()).digest()[:16], "big")
        return FolderContents(files=self.files + 1, sum=(self.sum + term) % 2**128)


def document_of(record: TargetRecord, contents: FolderContents) -> dict[str, Any]:
    """What is written."""
    last = None
    if record.last is not None:
        last = [record.last[0].from_us, record.last[0].to_us, record.last[1]]
    return {
        "format": FORMAT,
        "owner": asdict(record.owner),
        "through_us": record.through_us,
        "version": record.version,
        "rows": record.rows,
        "lost_us": record.lost_us,
        "deliveries": record.deliveries,
        "last": last,
        "files": contents.files,
        "files_sum": f"{contents.sum:032x}",
    }


def record_of(document: Any) -> tuple[TargetRecord, FolderContents]:
    """The record and the contents that `document_of` wrote; raises one of WRONG_FORM for others."""
    if document["format"] != FORMAT:
        raise ValueError("another format")
    owner, last = document["owner"], document["last"]
    record = TargetRecord(
        owner=Owner(
            home=str(owner["home"]),
            participant=Participant(str(owner["participant"])),
            stream=StreamName(str(owner["stream"])),
            sink=str(owner["sink"]),
        ),
        through_us=_whole(document["through_us"]),
        version=Version(_whole(document["version"])),
        rows=_whole(document["rows"]),
        lost_us=_whole(document["lost_us"]),
        deliveries=_whole(document["deliveries"]),
        last=None if last is None else (Range(_whole(last[0]), _whole(last[1])), str(last[2])),
    )
    return record, FolderContents(
        files=_whole(document["files"]), sum=int(document["files_sum"], 16)
    )


def _whole(value: object) -> int:
    if not is_whole_number(value):
        raise ValueError("not a whole number")
    return value
