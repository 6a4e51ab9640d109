"""Ed25519 signatures; keys are 32 bytes, signatures 64."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A participant's own key; its text never shows it."""

    _key: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"SigningKey(public_key={self.public_key.hex()})"

    @property
    def public_key(self) -> bytes:
        """By which others know it."""
        return self._key.public_key().public_bytes_raw()

    @property
    def private_key(self) -> Ed25519PrivateKey:
        """For a library that signs with it."""
        return self._key

    def sign(self, message: bytes) -> bytes:
        """A signature over a message, which begins with a domain of its own."""
        return self._key.sign(message)


def signing_key(secret: bytes) -> SigningKey:
    """The key with these 32 secret bytes; ValueError for other than 32."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(secret))


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the owner of a key signed a message."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
