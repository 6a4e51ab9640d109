"""The parts of a request, each within its limits: token, query, body and byte range.

What is wrong with a part is Refused, in one sentence.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from medusa_core.errors import Refused, Unavailable
from medusa_core.protocol.document_fields import IntegerField, Schema, WrongField

FORM = "application/x-www-form-urlencoded"
FIELDS_MAX = 16
_TOKEN = re.compile(r"Bearer ([0-9A-Za-z_-]{1,256})")
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_NUMBER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class NumberParameter:
    """A whole number of a query: its range, and its default; None: it must be given."""

    field: IntegerField
    default: int | None = None

    @property
    def schema(self) -> Schema:
        """The same as JSON Schema."""
        default = {} if self.default is None else {"default": self.default}
        return {**self.field.schema, **default}


class BodyTooLarge(Exception):
    """A body is larger than the call takes."""


def bearer_of(request: Request) -> str | None:
    """The access token of a request; None if it has none of the right form."""
    values = request.headers.getlist("authorization")
    found = _TOKEN.fullmatch(values[0]) if len(values) == 1 else None
    return found[1] if found else None


def numbers_of(request: Request, parameters: Mapping[str, NumberParameter]) -> Mapping[str, int]:
    """Whole numbers of the query by name, each within its range."""
    found = {}
    for name, parameter in parameters.items():
        default = parameter.default
        value = text_of(request, name, None if default is None else str(default))
        if not _NUMBER.fullmatch(value):
            raise Refused(f"parameter {name} is not a whole number: give one")
        found[name] = int(value)
        try:
            parameter.field.check(found[name])
        except WrongField as wrong:
            raise Refused(f"parameter {name} {wrong.problem}: give another") from None
    return found


def text_of(request: Request, name: str, default: str | None = None) -> str:
    """A text of the query; without a default it must be there."""
    values = request.query_params.getlist(name)
    if not values and default is not None:
        return default
    if len(values) != 1:
        raise Refused(f"parameter {name} is given {len(values)} times: give it once")
    return values[0]


async def body_of(request: Request, bytes_max: int, seconds_max: float) -> bytes:
    """The body, which is read in a limited time and never grows beyond its limit.

    Raises BodyTooLarge, Refused for a body that is compressed, and Unavailable for a slow one.
    """
    if "content-encoding" in request.headers:
        raise Refused("the body has a content encoding: send it as it is")
    parts, length = [], 0
    try:
        async with asyncio.timeout(seconds_max):
            async for part in request.stream():
                length += len(part)
                if length > bytes_max:
                    raise BodyTooLarge
                parts.append(part)
    except TimeoutError:
        raise Unavailable(f"the body did not arrive in {seconds_max:g} s: send it again") from None
    except ClientDisconnect:
        raise Unavailable("the connection ended before the body did: send it again") from None
    return b"".join(parts)


def form_of(request: Request, body: bytes) -> Mapping[str, str]:
    """The fields of a form, each given once."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Refused(f"the body is not a form: send it as {FORM}")
    try:
        pairs = parse_qsl(body.decode("ascii"), strict_parsing=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Refused(f"the body is not a form of {FIELDS_MAX} fields at most") from None
    if len(dict(pairs)) != len(pairs):
        raise Refused("the form has a field twice: send each once")
    return dict(pairs)


def range_of(request: Request, size_bytes: int) -> tuple[int, int] | None:
    """First byte and end of the requested part; None: all of it, or nothing of it is there.

    A request for several ranges, or of another form, is answered with the whole file, as RFC 9110
    allows. An empty part is one that begins behind the end.
    """
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    if found is None:
        return None
    first = int(found[1])
    last = int(found[2]) if found[2] else size_bytes - 1
    if last < first and found[2]:
        return None
    return first, min(last + 1, size_bytes)
