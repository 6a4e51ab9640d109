"""A participant's public key in its contract: 32 bytes, written in one way."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.contracts.participants import read_participants
from pipelines.contracts.public_keys import public_key_text
from tests.contracts.writing import ALPHA, write_contracts

KEY = bytes(range(32))


def key_in(folder: Path, text: str) -> bytes | None:
    """The key that alpha's contract gives."""
    directory = write_contracts(folder, {"participants/alpha.yaml": f"{ALPHA}public_key: {text}\n"})
    return read_participants(directory)[0].public_key


def test_a_key_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert key_in(tmp_path, public_key_text(KEY)) == KEY


def test_a_participant_without_a_key_has_none(tmp_path: Path) -> None:
    directory = write_contracts(tmp_path, {"participants/alpha.yaml": ALPHA})
    assert read_participants(directory)[0].public_key is None


@pytest.mark.parametrize(
    "text",
    [
        b64encode(KEY).decode(),
        f"rsa:{b64encode(KEY).decode()}",
        f"ed25519:{b64encode(KEY[:31]).decode()}",
        f"ed25519:{b64encode(KEY + b'0').decode()}",
        f"ed25519: {b64encode(KEY).decode()}",
        f"ed25519:{KEY.hex()}",
        f"ed25519:{b64encode(bytes([255] * 32)).decode().replace('/', '_')}",
        # The last letter's lowest bits are no part of the key: another spelling of the same.
        f"ed25519:{b64encode(KEY).decode().replace('8=', '9=')}",
        "ed25519:é",
        "ed25519:",
    ],
)
def test_what_is_no_key_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused, match=r"alpha.yaml, line 7: public_key is no public key: write"):
        key_in(tmp_path, f'"{text}"')
