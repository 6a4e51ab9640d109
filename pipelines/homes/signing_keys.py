"""A participant's signing key, stored in `keys/<participant>/signing_key` (`secret_files.py`)."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.base.secret_files import SecretFile, secret_file
from pipelines.homes.signatures import SigningKey, signing_key

FILE = "signing_key"
SECRET_BYTES = 32


def key_path(directory: Path, participant: Participant) -> Path:
    """Where a participant's key is stored; `directory` is the folder of homes."""
    return _file(directory, participant).path


def make_key(directory: Path, participant: Participant) -> SigningKey:
    """The participant's key, drawn now if there is none yet; see `load_key`."""
    _file(directory, participant).make(lambda: secrets.token_bytes(SECRET_BYTES).hex())
    return load_key(directory, participant)


def load_key(directory: Path, participant: Participant) -> SigningKey:
    """The participant's key; Unavailable if there is none, Refused if it is not kept as it must."""
    file = _file(directory, participant)
    try:
        return signing_key(bytes.fromhex(file.read(2 * SECRET_BYTES + 1)))
    except FileNotFoundError:
        raise Unavailable(
            f"{participant} has no key to sign with ({file.path}): run medusa apply"
        ) from None
    except ValueError:
        raise Refused(
            f"the key {file.path} is not as Medusa wrote it: restore it from a backup"
        ) from None


def has_key(directory: Path, participant: Participant) -> bool:
    """Whether the participant has a key that may be used."""
    with suppress(Refused, Unavailable):
        load_key(directory, participant)
        return True
    return False


def replace_key(directory: Path, participant: Participant, secret: bytes) -> None:
    """Put another key in the place of the participant's; see `OwnIdentity.rotate`."""
    _file(directory, participant).write(secret.hex())


def _file(directory: Path, participant: Participant) -> SecretFile:
    return secret_file(directory, participant, FILE)
