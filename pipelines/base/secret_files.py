"""Secret files of a participant: each may be read by its user alone, and is never in a catalog.

They are stored below `keys/<participant>/` in the folder of homes: folders of mode 0700, files of
mode 0600, all owned by the user and none a link. A file that others could have read is not secret:
it is refused before its content is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, check_name
from pipelines.base.files import write_atomically

FOLDER = "keys"


@dataclass(frozen=True, slots=True)
class SecretFile:
    """The file of a secret, and the folders above it that nobody else may enter."""

    path: Path
    folders: tuple[Path, ...]

    def make(self, draw: Callable[[], str]) -> None:
        """Write a secret that is drawn now, unless the file exists.

        It is never replaced: two processes that draw at once end with one secret.
        """
        try:
            for folder in self.folders:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _check_own(folder, os.lstat(folder), is_folder=True)
            if not os.path.lexists(self.path):
                with suppress(FileExistsError):
                    write_atomically(self.path, draw() + "\n", mode=0o600, replaces=False)
        except FileExistsError as error:
            raise Refused(f"{error.filename} is not a folder: keep the secret in one") from None
        except OSError as error:
            raise Unavailable(
                f"the secret {self.path} cannot be written ({error.strerror}): mend its folder"
            ) from error

    def write(self, content: str) -> None:
        """Replace the content of a file whose folders exist, at once or not at all."""
        try:
            write_atomically(self.path, content.rstrip("\n") + "\n", mode=0o600)
        except OSError as error:
            raise Unavailable(
                f"the secret {self.path} cannot be written ({error.strerror}): mend its folder"
            ) from error

    def remove(self) -> None:
        """Remove the file, if there is one."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(
                f"the secret {self.path} cannot be removed ({error.strerror}): remove it yourself"
            ) from error

    def read(self, length_max: int) -> str:
        """The content, without white space at its ends; at most one byte more than `length_max`.

        Raises FileNotFoundError if there is no file, Refused if others could have read it.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            for folder in self.folders:
                _check_own(folder, os.lstat(folder), is_folder=True)
            opened = os.open(self.path, flags)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Refused(
                f"the secret {self.path} cannot be read ({error.strerror}): it must be a file of "
                "your own, no link"
            ) from None
        try:
            _check_own(self.path, os.fstat(opened), is_folder=False)
            return os.read(opened, length_max + 1).decode("ascii", "replace").strip()
        finally:
            os.close(opened)


def secret_file(directory: Path, participant: Participant, *names: str) -> SecretFile:
    """A secret of a participant; `directory` is the folder of homes."""
    keys = directory / FOLDER
    path = keys.joinpath(check_name("participant", participant), *names)
    above = [folder for folder in path.parents if folder.is_relative_to(keys)]
    return SecretFile(path, tuple(reversed(above)))


def _check_own(path: Path, found: os.stat_result, *, is_folder: bool) -> None:
    is_kind = stat.S_ISDIR(found.st_mode) if is_folder else stat.S_ISREG(found.st_mode)
    if not is_kind:
        kind = "folder" if is_folder else "file"
        raise Refused(f"{path} is not a {kind}: keep the secret in one")
    if found.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to another user: keep the secret in a folder of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        mode = "0700" if is_folder else "0600"
        raise Refused(
            f"{path} may be read by others (mode {stat.S_IMODE(found.st_mode):04o}): set it to "
            f"{mode}, and draw another secret if somebody has read it"
        )
