"""Text from anywhere, made fit for a log line, a label or a terminal: no password, not too long.

Errors of drivers and libraries may repeat a URL or a connection string. Passwords are taken out by
their place (after `user:` in a URL, behind `password=`) and, where they are known and not as short
as an ordinary word, by their value. Limit: any other secret is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"
LENGTH_MAX = 2_000
SECRET_LENGTH_MIN = 8

# To the last @ of the word: a password that nobody escaped may hold any character.
_IN_URL = re.compile(r"(?P<before>\b[a-zA-Z][a-zA-Z0-9+.\-]*://[^\s:/?#@]*):\S*@")
_IN_WORDS = re.compile(
    r"(?P<before>(?:password|passwd|pwd)[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&]+)",
    re.IGNORECASE,
)


class SafeText:
    """Makes text safe to show; `secrets` are passwords, or URLs that may hold one."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        found: set[str] = set()
        for secret in secrets:
            found |= _forms(_password_of(secret) if secret else "")
        # The longest first: one may be part of another.
        self._secrets = sorted(found, key=len, reverse=True)

    def __call__(self, text: object) -> str:
        """The text without passwords, lone surrogates and NUL, cut at 2,000 characters."""
        safe = str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        safe = safe.replace("\0", "\ufffd")
        for secret in self._secrets:
            safe = safe.replace(secret, HIDDEN)
        safe = _IN_URL.sub(rf"\g<before>:{HIDDEN}@", safe)
        safe = _IN_WORDS.sub(rf"\g<before>{HIDDEN}", safe)
        return safe if len(safe) <= LENGTH_MAX else safe[: LENGTH_MAX - 1] + "…"


def _password_of(secret: str) -> str:
    """The password in a URL; the text itself if it is none."""
    _, separator, rest = secret.partition("://")
    if not separator:
        return secret
    who, at, _ = rest.rpartition("@")
    return who.partition(":")[2] if at else ""


def _forms(password: str) -> set[str]:
    """The password as it may be written: as it is, and with what a URL would escape."""
    plain = unquote(password)
    forms = {password, plain, quote(plain, safe=""), quote_plus(plain)}
    return {form for form in forms if len(form) >= SECRET_LENGTH_MIN}
