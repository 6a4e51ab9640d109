"""The parts of requests of Delta Sharing, and its answers that are errors.

Every error has the form of the protocol. No answer names a path or anything else of this machine.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from medusa_core.errors import Conflict, Expired, MedusaError, Refused
from medusa_core.names import StreamName
from medusa_core.protocol.document_fields import has_more_elements
from pipelines.exchange.server.partner_budgets import TooManyRequests
from pipelines.exchange.server.request_parts import BodyTooLarge, text_of
from pipelines.sharing.address_signatures import SIGNATURE, FileAddress
from pipelines.sharing.answer_lines import error_document
from pipelines.sharing.table_names import SCHEMA, table_name

log = logging.getLogger(__name__)

Call = Callable[[Request], Awaitable[Response]]

QUERY_ELEMENTS_MAX, QUERY_ARRAYS_MAX = 10_000, 1_000
_NUMBER = re.compile(r"[0-9]{1,18}")
_HIDDEN = "the table cannot be read now: try later"


class CallProblem(Exception):
    """An answer of the protocol that is an error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class TableQuery:
    """The body of a query: of which version, or as of when, and about how many rows are wanted."""

    version: int | None
    timestamp: str | None
    limit: int | None


def query_of(body: bytes) -> TableQuery:
    """What a query names; hints about rows other than their number are not followed."""
    if has_more_elements(body, QUERY_ELEMENTS_MAX, QUERY_ARRAYS_MAX):
        raise Refused(
            f"the body has more than {QUERY_ELEMENTS_MAX} elements or {QUERY_ARRAYS_MAX} arrays: "
            "send fewer hints"
        )
    try:
        document = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Refused("the body is not a JSON object: send {} or one with a version") from None
    if not isinstance(document, dict):
        raise Refused("the body is not a JSON object: send {} or one with a version")
    version, timestamp, limit = (document.get(n) for n in ("version", "timestamp", "limitHint"))
    for name, value in (("version", version), ("limitHint", limit)):
        if value is not None and (type(value) is not int or not 0 <= value < 10**18):
            raise Refused(f"{name} is not a whole number from 0 on: give one")
    if timestamp is not None and not isinstance(timestamp, str):
        raise Refused("timestamp is not a text: write it as 2024-04-19T08:00:00Z")
    if version is not None and timestamp is not None:
        raise Refused("both version and timestamp are given: give one of them")
    for name in ("startingVersion", "refreshToken"):
        if document.get(name) is not None:
            raise Refused(f"{name} is not supported here: request the changes of the table instead")
    return TableQuery(version, timestamp, limit)


def change_options(request: Request) -> Mapping[str, str]:
    names = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
    given = {name: text_of(request, name, "") for name in names}
    if (given["startingVersion"] == "") == (given["startingTimestamp"] == ""):
        raise Refused("give startingVersion or startingTimestamp, and one of them only")
    if given["endingVersion"] and given["endingTimestamp"]:
        raise Refused("both endingVersion and endingTimestamp are given: give one of them")
    return given


def number_of(given: str, name: str) -> int:
    if not _NUMBER.fullmatch(given):
        raise Refused(f"{name} is not a whole number from 0 on: give one")
    return int(given)


def check_schema(request: Request) -> None:
    """There is one schema; the name may be in upper case."""
    if request.path_params.get("schema", SCHEMA).lower() != SCHEMA:
        raise not_found()


def address_of_request(request: Request) -> tuple[FileAddress | None, str]:
    named = request.path_params
    name = table_name(named["stream"])
    if name is None or not all(_NUMBER.fullmatch(named[n]) for n in ("expires", "token")):
        return None, ""
    address = FileAddress(
        token_id=int(named["token"]), stream=StreamName(named["stream"]), key=named["key"],
        expires_s=int(named["expires"]),
    )  # fmt: skip
    signature = text_of(request, SIGNATURE, "")
    return address, signature if signature.isascii() else ""


def not_found() -> CallProblem:
    return CallProblem(
        404, "RESOURCE_DOES_NOT_EXIST", "there is nothing of this name that is shared with you"
    )


def expired_address() -> CallProblem:
    return CallProblem(
        404, "RESOURCE_DOES_NOT_EXIST",
        "the address of the file is not valid, or no longer: read the table again",
    )  # fmt: skip


def answered(call: Call) -> Call:
    """The call with its errors in the form of the protocol."""

    async def answer(request: Request) -> Response:
        try:
            return await call(request)
        except CallProblem as problem:
            return _error(problem.status, problem.code, problem.message)
        except TooManyRequests:
            return _error(429, "RESOURCE_EXHAUSTED", "too many requests: send fewer at a time")
        except BodyTooLarge:
            return _error(413, "INVALID_PARAMETER_VALUE", "the body is too large: send less")
        except Expired as error:
            return _error(400, "RESOURCE_EXPIRED", str(error))
        except Refused as error:
            return _error(400, "INVALID_PARAMETER_VALUE", str(error))
        except Conflict as error:
            return _error(409, "CONFLICT", str(error))
        except MedusaError as error:
            # It may name a path or a database of this machine.
            log.warning("a recipient was not answered: %s", error)
            return _error(503, "TEMPORARILY_UNAVAILABLE", _HIDDEN)

    return answer


def _error(status: int, code: str, message: str) -> Response:
    headers = {}
    if status == 401:
        # A client that guesses tokens needs a new connection for each guess.
        headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
    elif status == 429:
        headers = {"Retry-After": "1"}
    content = error_document(code, message)
    return Response(content, status, headers, media_type="application/json")


async def unknown_call(request: Request, error: Exception) -> Response:
    return _error(404, "RESOURCE_DOES_NOT_EXIST", "there is no such call")


async def fault(request: Request, error: Exception) -> Response:
    """A fault of this program: the answer says nothing of what is inside, the log does."""
    log.error("a call of Delta Sharing ended with a fault", exc_info=error)
    return _error(503, "TEMPORARILY_UNAVAILABLE", _HIDDEN)
