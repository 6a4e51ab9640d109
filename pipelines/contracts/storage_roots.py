"""Storage roots: a separate folder for each participant; a home's storage root never changes.

Where files are objects of a bucket, the folder has copies of them, and is the default one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.contracts.participants import ParticipantContract
from pipelines.contracts.yaml_values import Value
from pipelines.homes.home import (
    RECORD,
    default_storage,
    known_homes,
    objects_of,
    owner_of,
    record_objects,
    storage_of,
)
from pipelines.storage.object_settings import SETTINGS, ObjectSettings, read_settings

OWN = (
    "airflow", "branches", "drivers", "exchange", "java", "keys", "logs", "networks", "postgres",
    "running", "spark",
)  # fmt: skip
"""Folders of MEDUSA_DIR that are Medusa's own."""

FOLDER = "its folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRoot:
    """A participant's root: `given` as its contract has it (None: the default), and the folder.

    `objects` are the settings of its bucket, None if its files are in the folder.
    """

    given: str | None
    folder: Path
    at: Value
    objects: ObjectSettings | None = None

    def prepare(self, directory: Path, participant: Participant) -> None:
        """Record the bucket of a home, take it as its owner and store its settings in the folder.

        `directory` is MEDUSA_DIR. Refused if another home owns the objects; Unavailable if the
        folder cannot be written, or the bucket not be reached, which only new settings need.
        """
        objects, owner = self.objects, owner_of(directory, participant)
        try:
            if objects is None:
                if owner is not None:
                    # The home was not made; its contract named a bucket before.
                    (self.folder / SETTINGS).unlink(missing_ok=True)
                    record_objects(directory, participant, None, None)
                return
            is_recorded = objects_of(directory, participant) == objects.location
            if owner is not None and is_recorded and objects.is_stored_in(self.folder):
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Recorded first: an ID that is put and then lost would be that of another home.
            owner = owner or os.urandom(16).hex()
            record_objects(directory, participant, objects.location, owner)
            check_owner(directory, participant, self.folder, objects)
            objects.write(self.folder)
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
    current_locations = {p: _recorded_location(directory, p) for p in known}
    for participant, root in roots.items():
        if participant in known:
            _check_bucket(participant, root, current_locations[participant])
    _check_apart(roots, current_locations)
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


def check_owner(
    directory: Path, participant: Participant, root: Path, objects: ObjectSettings
) -> None:
    """Refused if the objects of a home are those of another one, which has the same prefix.

    The bucket has the ID of the home that came first in an object; if it has none, that of this
    home is put. Raises what a request to the bucket raises.
    """
    # Imported where it is needed: it loads an S3 client.
    from pipelines.storage.object_store import Bucket

    owner = owner_of(directory, participant)
    if owner is None:
        raise Refused(
            f"{directory / RECORD} has no ID of the owner of {objects.address}: run medusa apply, "
            "which writes it"
        )
    if Bucket(root, objects).owner(owner) != owner:
        raise Refused(
            f"{objects.address} at {objects.url} has the objects of another home than that of "
            f"{participant} in {directory}: write a prefix that is used by no other home. If the "
            "other home does not exist any more, remove the object medusa-owner there"
        )


def _recorded_location(directory: Path, participant: Participant) -> str | None:
    """The URL below which a home has its objects; None if its files are in its folder.

    The settings in the folder are read only for a home that was made before it was recorded.
    """
    recorded = objects_of(directory, participant)
    if recorded is not None:
        return recorded
    found = read_settings(storage_of(directory, participant))
    return None if found is None else found.location


def _check_bucket(participant: Participant, root: StorageRoot, current: str | None) -> None:
    if _location(root) != current:
        raise root.at.refused(
            f"keeps the files of {participant} in {_location(root) or FOLDER}, whose home has them "
            f"in {current or FOLDER}: that cannot be changed in place; write the old one"
        )


def _check_apart(
    roots: Mapping[Participant, StorageRoot], current: Mapping[Participant, str | None]
) -> None:
    """Refused if objects of two participants have a place in common."""
    locations = {name: location for name, location in current.items() if location is not None}
    for participant, root in roots.items():
        location = _location(root)
        if location is None:
            continue
        for neighbour, taken in locations.items():
            shorter, longer = sorted((f"{location}/", f"{taken}/"), key=len)
            if neighbour != participant and longer.startswith(shorter):
                raise root.at.refused(
                    f"keeps the files of {participant} in {location}, but {taken} is that of "
                    f"{neighbour}: give each participant a prefix of its own"
                )
        locations[participant] = location


def _location(root: StorageRoot) -> str | None:
    return None if root.objects is None else root.objects.location


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
