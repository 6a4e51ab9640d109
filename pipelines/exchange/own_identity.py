"""The participant's own key and address, as its exchange uses them.

The key and the successions that lead to it are read from their files each time, so that a key
that was rotated is used by all processes at once, without a restart.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol.assertions import audience_of
from medusa_core.protocol.introductions import introduction_claims, succession_claims
from pipelines.base import clock
from pipelines.base.files import FileLock
from pipelines.base.secret_files import secret_file
from pipelines.exchange.signed_assertions import (
    sign_claims,
    unverified_claims,
)
from pipelines.homes.exchange_addresses import ServerAddress, is_public, read_address
from pipelines.homes.signatures import signing_key
from pipelines.homes.signing_keys import SECRET_BYTES, key_path, load_key, replace_key

SUCCESSIONS, SUCCESSIONS_BYTES_MAX = "successions", 1 << 20
LOCK = "rotation.lock"


class OwnIdentity:
    """A participant's own key and address, as its client and its server use them.

    `directory` is the folder of homes, into which the server writes where it is reached.
    """

    def __init__(self, directory: Path, participant: Participant) -> None:
        self._directory = directory
        self._participant = participant
        self._key_path = key_path(directory, participant)

    def mark(self) -> object:
        """What changes with the key; cheaper to find than the key."""
        try:
            return os.stat(self._key_path).st_mtime_ns
        except OSError:
            return None

    def public_key(self) -> bytes:
        """By which others know the participant."""
        return load_key(self._directory, self._participant).public_key

    def sign(self, claims: Mapping[str, Any]) -> str:
        """The token with these claims. Raises Unavailable if there is no key."""
        return sign_claims(claims, load_key(self._directory, self._participant).private_key)

    def introduction(self) -> str:
        """The introduction as of now."""
        address = self._public_address()
        claims = introduction_claims(
            self._participant,
            None if address is None else address.url,
            None if address is None else address.pin,
            self._successions(),
            int(clock.wall_s() * 1_000),
        )
        return self.sign(claims)

    def audiences(self) -> frozenset[str]:
        """What assertions for this server may name: its present key, and those before it."""
        present = load_key(self._directory, self._participant).public_key
        before = (_keys_of(token)[0] for token in self._successions())
        return frozenset(audience_of(self._participant, key) for key in (present, *before))

    def rotate(self) -> bytes:
        """Draw another key, which the present one signs; returns it.

        If it is interrupted, the present key still counts, or the new one does. Raises Conflict
        if another process rotates the key at this moment.
        """
        path = key_path(self._directory, self._participant)
        try:
            lock = FileLock(path.with_name(LOCK), mode=0o600)
        except BlockingIOError:
            raise Conflict(
                f"another process rotates the key of {self._participant}: wait for its end"
            ) from None
        with lock:
            present = load_key(self._directory, self._participant)
            secret = secrets.token_bytes(SECRET_BYTES)
            drawn = signing_key(secret)
            now_ms = int(clock.wall_s() * 1_000)
            claims = succession_claims(
                self._participant, present.public_key, drawn.public_key, now_ms
            )
            # Before the key: a succession to a key that nobody has leads nowhere.
            succession = sign_claims(claims, present.private_key)
            self._write_successions((*self._successions(), succession))
            replace_key(self._directory, self._participant, secret)
        return drawn.public_key

    # Inside

    def _public_address(self) -> ServerAddress | None:
        """Where partners elsewhere reach the server; None while there is no such place."""
        try:
            address = read_address(self._directory, self._participant)
        except Unavailable:
            return None
        return address if is_public(address.url) else None

    def _successions(self) -> tuple[str, ...]:
        """Those that lead to the present key, the oldest first.

        One that leads elsewhere is of a rotation that was interrupted.
        """
        needed = load_key(self._directory, self._participant).public_key
        chain: list[str] = []
        for token in reversed(self._written_successions()):
            before, key = _keys_of(token)
            if key == needed:
                chain.insert(0, token)
                needed = before
        return tuple(chain)

    def _written_successions(self) -> Sequence[str]:
        file = secret_file(self._directory, self._participant, SUCCESSIONS)
        try:
            return file.read(SUCCESSIONS_BYTES_MAX).split()
        except FileNotFoundError:
            return ()

    def _write_successions(self, tokens: Sequence[str]) -> None:
        file = secret_file(self._directory, self._participant, SUCCESSIONS)
        file.write("\n".join(tokens) + "\n")


def _keys_of(succession: str) -> tuple[bytes, bytes]:
    """The key before and its successor, of a token in the participant's own file."""
    claims = unverified_claims(succession, bytes_max=SUCCESSIONS_BYTES_MAX)
    try:
        return bytes.fromhex(claims["before"]), bytes.fromhex(claims["key"])
    except (KeyError, TypeError, ValueError):
        raise Refused(
            f"the file {SUCCESSIONS} of the keys is not as Medusa wrote it: restore it from a "
            "backup"
        ) from None
