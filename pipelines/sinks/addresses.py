"""The address of a table's database: a URL in which secrets are named, not written.

`${NAME}` refers to a variable of the driver's environment and is replaced when a connection is
made, never before: neither contracts nor catalogs, logs, plans or status hold the value. A URL
may be one such name as a whole, or have names for its parts, whose values are escaped. Only
variables for sinks may be named (`SINK_VARIABLES`): the URL also names the host that receives them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from medusa_core.errors import Refused
from pipelines.base.settings import SINK_VARIABLES

NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})\}")
_SCHEMES = ("postgres", "postgresql", "postgresql+psycopg2")
_SECRET_OPTIONS = ("password", "passfile", "sslpassword", "service", "servicefile", "requiressl")
_ESCAPED = "medusa0named"


def check_address(stream: str, url: str) -> None:
    """Refuse a URL that is none, that holds a password, or that names a variable which is not for
    sinks; its text is not repeated."""
    _check_names(stream, url)
    if NAMED.fullmatch(url):
        return
    rest = NAMED.sub(_ESCAPED, url)
    if "$" in rest or "{" in rest or "}" in rest:
        raise Refused(
            f"the sink of {stream} has a url with a $ that names no variable: write "
            "${MEDUSA_SINK_NAME} with letters, digits and _"
        )
    parsed = _parsed(stream, rest)
    has_secret = parsed.password is not None and parsed.password != _ESCAPED
    if has_secret or any(option.lower() in _SECRET_OPTIONS for option in parsed.query):
        raise Refused(
            f"the sink of {stream} has a url with a password in it: put it into the environment "
            "and write ${MEDUSA_SINK_NAME} in its place"
        )


def resolve_address(stream: str, url: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What to connect with, as libpq names it.

    Raises Refused, naming the variable and never its value, if one is not set, is no URL or is not
    for sinks.
    """
    missing = [name for name in _check_names(stream, url) if not environment.get(name)]
    if missing:
        raise Refused(
            f"the sink of {stream} needs {missing[0]}, which is not set: export it where medusa "
            "runs"
        )
    whole = NAMED.fullmatch(url)
    if whole:
        text, named = environment[whole[1]].strip(), f" in {whole[1]}"
    else:
        text, named = NAMED.sub(lambda found: quote(environment[found[1]], safe=""), url), ""
    return _parameters(_parsed(stream, text, named))


def _check_names(stream: str, url: str) -> list[str]:
    """The variables that a URL names; Refused for one that is not for sinks."""
    names = NAMED.findall(url)
    for name in names:
        if not name.startswith(SINK_VARIABLES):
            raise Refused(
                f"the sink of {stream} names the variable {name}, but a sink receives only "
                f"variables that begin with {SINK_VARIABLES}: export it as {SINK_VARIABLES}{name}, "
                "and write that name"
            )
    return names


def _parsed(stream: str, text: str, named: str = "") -> URL:
    scheme = text.partition("://")[0]
    try:
        if scheme not in _SCHEMES:
            raise ValueError(scheme)
        url = make_url(text)
        if "@" in (url.host or ""):
            # What lies before it is a part of the password.
            raise ValueError(scheme)
        return url
    except (ArgumentError, ValueError):
        # `from None`: the cause repeats the text.
        raise Refused(
            f"the sink of {stream} has a url{named} that is not one of Postgres: write "
            "postgresql://user:${MEDUSA_SINK_PASSWORD}@host:5432/database, or ${MEDUSA_SINK_NAME} "
            "for all of it, with %40 for an @ in the password"
        ) from None


def _parameters(url: URL) -> dict[str, str]:
    found = {
        "host": url.host,
        "port": None if url.port is None else str(url.port),
        "user": url.username,
        "password": None if url.password is None else str(url.password),
        "dbname": url.database,
    }
    options = {name: value for name, value in url.query.items() if isinstance(value, str)}
    return {**options, **{name: value for name, value in found.items() if value}}
