"""A participant's signing key: a file that only its user may read, never in a catalog.

It is stored in `keys/<participant>/` below the folder of homes: a folder of mode 0700, a file of
mode 0600, both owned by the user and not links. Otherwise it is refused before its content is
read: a key that others could have read is not secret.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, check_name
from pipelines.base.files import write_atomically
from pipelines.homes.signatures import SigningKey, signing_key

FOLDER, FILE = "keys", "signing_key"
SECRET_BYTES = 32


def key_path(directory: Path, participant: Participant) -> Path:
    """Where a participant's key lies; `directory` is the folder of homes."""
    return directory / FOLDER / check_name("participant", participant) / FILE


def make_key(directory: Path, participant: Participant) -> SigningKey:
    """The participant's key, drawn now if there is none yet; see `load_key`."""
    path = key_path(directory, participant)
    try:
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not os.path.lexists(path):
            _check_folder(path)
            _write(path)
    except OSError as error:
        raise Unavailable(
            f"the key {path} cannot be written ({error.strerror}): mend its folder"
        ) from error
    return load_key(directory, participant)


def load_key(directory: Path, participant: Participant) -> SigningKey:
    """The participant's key; Unavailable if there is none, Refused if it is not kept as it must."""
    path = key_path(directory, participant)
    try:
        _check_folder(path)
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unavailable(
            f"{participant} has no key to sign with ({path}): run medusa apply"
        ) from None
    except OSError as error:
        raise Refused(
            f"the key {path} cannot be read ({error.strerror}): it must be a file of your own, no "
            "link"
        ) from None
    try:
        _check_own(path, os.fstat(opened), is_folder=False)
        text = os.read(opened, 2 * SECRET_BYTES + 2)
    finally:
        os.close(opened)
    try:
        return signing_key(bytes.fromhex(text.decode("ascii").strip()))
    except ValueError:
        raise Refused(
            f"the key {path} is not as Medusa wrote it: restore it from a backup"
        ) from None


def _write(path: Path) -> None:
    """Draw a key, and never over another: two processes that draw at once end with one key."""
    text = secrets.token_bytes(SECRET_BYTES).hex() + "\n"
    with suppress(FileExistsError):
        write_atomically(path, text, mode=0o600, replaces=False)


def _check_folder(path: Path) -> None:
    for folder in (path.parent.parent, path.parent):
        _check_own(folder, os.lstat(folder), is_folder=True)


def _check_own(path: Path, found: os.stat_result, *, is_folder: bool) -> None:
    is_kind = stat.S_ISDIR(found.st_mode) if is_folder else stat.S_ISREG(found.st_mode)
    if not is_kind:
        raise Refused(f"{path} is not a {'folder' if is_folder else 'file'}: keep the key in one")
    if found.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to another user: keep the key in a folder of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        mode = "0700" if is_folder else "0600"
        raise Refused(
            f"{path} may be read by others (mode {stat.S_IMODE(found.st_mode):04o}): set it to "
            f"{mode}, and draw another key if somebody has read it"
        )
