"""What a server gives to a client and recognises later: file addresses and page tokens.

Each is signed with a random key of this process, for one token's holder or one recipient, so that
it can be neither guessed nor altered nor used by others. An address is valid for an hour, and only
while the token counts and the stream is shared with its holder. It ends with the process: a client
then reads the table again.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.base import clock

LIFETIME_S = 3_600
SIGNATURE_CHARACTERS = 64
SIGNATURE = "X-Amz-Signature"
"""The name of the signature in an address: clients of the delta form know a signed one by it."""

_WRONG_PAGE = (
    "the page token is not one that this server gave you for this list: request the first page"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAddress:
    """The file of a name, for the holder of a token, until a time."""

    token_id: int
    stream: StreamName
    key: str
    expires_s: int


class Signatures:
    """Signs and recognises; `now_s` is the wall clock."""

    def __init__(self, now_s: Callable[[], float] = clock.wall_s) -> None:
        self._secret = secrets.token_bytes(32)
        self._now_s = now_s

    def address_of(self, token_id: int, stream: StreamName, key: str) -> tuple[str, int]:
        """The path of a file, below the root of the calls, and when it expires (Unix ms)."""
        expires_s = int(self._now_s()) + LIFETIME_S
        address = FileAddress(token_id=token_id, stream=stream, key=key, expires_s=expires_s)
        signature = self._signed("file", _words(address))
        path = f"/files/{expires_s}/{token_id}/{stream}/{key}.parquet?{SIGNATURE}={signature}"
        return path, expires_s * 1_000

    def recognised(self, address: FileAddress, signature: str) -> bool:
        """Whether this server has signed an address, which has not expired."""
        signed = self._signed("file", _words(address))
        return hmac.compare_digest(signed, signature) and self._now_s() < address.expires_s

    def page_token(self, recipient: str, listed: str, last: str) -> str:
        """The token of the page behind the item `last` of a recipient's list."""
        signature = self._signed("page", f"{recipient} {listed} {last}")
        return base64.urlsafe_b64encode(f"{signature}{last}".encode()).decode().rstrip("=")

    def page_after(self, recipient: str, listed: str, token: str) -> str:
        """The item behind which a page begins; Refused for a token that is not of this list."""
        try:
            padded = token.encode("ascii") + b"=" * (-len(token) % 4)
            text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        except (ValueError, binascii.Error):
            raise Refused(_WRONG_PAGE) from None
        signature, last = text[:SIGNATURE_CHARACTERS], text[SIGNATURE_CHARACTERS:]
        signed = self._signed("page", f"{recipient} {listed} {last}")
        if not hmac.compare_digest(signed, signature):
            raise Refused(_WRONG_PAGE)
        return last

    def _signed(self, kind: str, words: str) -> str:
        return hmac.new(self._secret, f"{kind} {words}".encode(), sha256).hexdigest()


def _words(address: FileAddress) -> str:
    return f"{address.token_id} {address.stream} {address.key} {address.expires_s}"
