"""Storage roots: a separate folder for each participant; a home's storage root never changes.

Where files are objects of a bucket, the folder has copies of them, and is the default one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.contracts.participants import ParticipantContract
from pipelines.contracts.yaml_values import Value
from pipelines.homes.home import default_storage, known_homes, storage_of
from pipelines.storage.object_settings import SCHEME, ObjectSettings, read_settings

OWN = (
    "airflow", "branches", "drivers", "exchange", "java", "keys", "logs", "networks", "postgres",
    "running", "spark",
)  # fmt: skip
"""Folders of MEDUSA_DIR that are Medusa's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRoot:
    """A participant's root: `given` as its contract has it (None: the default), and the folder.

    `objects` are the settings of its bucket, None if its files are in the folder.
    """

    given: str | None
    folder: Path
    at: Value
    objects: ObjectSettings | None = None

    def prepare(self) -> None:
        """Store the settings of the bucket; Unavailable if the folder cannot be written."""
        if self.objects is None:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.objects.write(self.folder)
        except OSError as error:
            raise Unavailable(
                f"storage root {self.folder} cannot be written ({error.strerror}): make room for "
                "it, or correct its contract"
            ) from error


def check_storage(
    contracts: Sequence[ParticipantContract], directory: Path
) -> Mapping[Participant, StorageRoot]:
    """Where each participant keeps its files; `directory` is MEDUSA_DIR.

    Refused if two share a root or one lies in the other's, if a relative path leaves MEDUSA_DIR, if
    a root lies among what is Medusa's own, or if a home exists with another.
    """
    roots = {contract.participant: _root(contract, directory) for contract in contracts}
    known = known_homes(directory)
    for participant, root in roots.items():
        if participant not in known:
            continue
        current = storage_of(directory, participant)
        if current.resolve() != root.folder:
            raise root.at.refused(
                f"makes {root.folder} the storage root of {participant}, whose home has the root "
                f"{current}: that cannot be changed in place; write the old one"
            )
        _check_bucket(participant, root, read_settings(current))
    _check_apart(roots, {p: read_settings(storage_of(directory, p)) for p in known})
    others = {p: storage_of(directory, p).resolve() for p in known if p not in roots}
    for participant, root in roots.items():
        folders = {p: r.folder for p, r in roots.items() if p < participant} | others
        for other, folder in folders.items():
            if folder.is_relative_to(root.folder) or root.folder.is_relative_to(folder):
                raise root.at.refused(
                    f"makes {root.folder} the storage root of {participant}, but {folder} is that "
                    f"of {other}: give each participant a folder of its own"
                )
    return roots


def _check_bucket(
    participant: Participant, root: StorageRoot, current: ObjectSettings | None
) -> None:
    if _place(root.objects) != _place(current):
        raise root.at.refused(
            f"keeps the files of {participant} in {_named(root.objects)}, whose home has them in "
            f"{_named(current)}: that cannot be changed in place; write the old one"
        )


def _check_apart(
    roots: Mapping[Participant, StorageRoot], current: Mapping[Participant, ObjectSettings | None]
) -> None:
    """Refused if objects of two participants have a place in common."""
    places = {p: _place(objects) for p, objects in current.items()}
    for participant, root in roots.items():
        mine = _place(root.objects)
        for other, theirs in places.items():
            if other == participant or mine is None or theirs is None or mine[0] != theirs[0]:
                continue
            shorter, longer = sorted((f"{mine[1]}/", f"{theirs[1]}/"), key=len)
            if longer.startswith(shorter):
                raise root.at.refused(
                    f"keeps the files of {participant} in {_named(root.objects)}, but "
                    f"{SCHEME}{theirs[1]} is that of {other}: give each participant a prefix of "
                    "its own"
                )
        places[participant] = mine


def _place(objects: ObjectSettings | None) -> tuple[str, str] | None:
    return None if objects is None else (objects.url, objects.place)


def _named(objects: ObjectSettings | None) -> str:
    return "its folder" if objects is None else f"{objects.address} at {objects.url}"


def _root(contract: ParticipantContract, directory: Path) -> StorageRoot:
    is_folder = contract.storage is not None and contract.objects is None
    given = contract.storage.name if contract.storage is not None and is_folder else None
    at = contract.storage.at if contract.storage is not None else contract.at
    base = directory.resolve()
    try:
        folder = (directory / (given or default_storage(contract.participant))).resolve()
    except (OSError, RuntimeError) as error:
        raise at.refused(f"cannot be followed ({error}): check its links") from None
    if given is not None and given.startswith("~"):
        raise at.refused(f"is {given!r}: write the absolute path of the folder")
    if not Path(given or "").is_absolute() and not folder.is_relative_to(base):
        raise at.refused(
            f"is {given!r}, which leads out of {directory}: only an absolute path may name a "
            "folder elsewhere"
        )
    inside = folder.relative_to(base).parts if folder.is_relative_to(base) else None
    if base.is_relative_to(folder) or (inside and inside[0] in OWN):
        raise at.refused(
            f"is {given!r}, where Medusa keeps files of its own: choose another folder"
        )
    if folder.exists() and not folder.is_dir():
        raise at.refused(f"is {given!r}, which is not a folder: choose another")
    return StorageRoot(given=given, folder=folder, at=at, objects=contract.objects)
