"""A participant's public key as a contract has it: `ed25519:` and the base64 of its 32 bytes."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode

from pipelines.contracts.fields import text_of
from pipelines.contracts.yaml_values import Value

PREFIX = "ed25519:"
KEY_BYTES = 32


def public_key_of(value: Value) -> bytes:
    """The 32 bytes; Refused unless they are written in their canonical form."""
    text = text_of(value)
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES or public_key_text(key) != text:
        raise value.refused(
            f"is no public key: write {PREFIX} and the base64 of its {KEY_BYTES} bytes"
        )
    return key


def public_key_text(key: bytes) -> str:
    """A public key as it is written in a participant's contract."""
    return f"{PREFIX}{b64encode(key).decode('ascii')}"
