"""A partner's file from the object store to which its exchange server redirects.

The store is the one that the partner's file in the contracts of this home names, and no other. Its
certificate is checked against public authorities, and no credentials of this home are sent: the URL
is signed by the partner.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from medusa_core.errors import Unavailable
from pipelines.exchange.client.http_client import HttpClient, Response
from pipelines.exchange.server_certificates import public_context

PAUSE_S = 60.0
"""How long files are read from the partner's server after an object could not be read."""


@asynccontextmanager
async def object_response(
    origin: str, location: str, headers: Mapping[str, str], options: Iterable[tuple[int, int, int]],
    *, connect_s: float, silent_s: float,
) -> AsyncIterator[Response]:  # fmt: skip
    """The response to a GET of `location`, which must be at the server `origin`.

    Raises Unavailable unless it has the object, and what `HttpClient.send` raises.
    """
    if not location.startswith(f"{origin}/"):
        raise Unavailable(f"a file is redirected to another server than {origin}: it is not read")
    context = await asyncio.to_thread(public_context)
    client = HttpClient(origin, context, 1, options)
    response: Response | None = None
    try:
        response = await client.send(
            "GET", location.removeprefix(origin), headers=headers,
            connect_s=connect_s, silent_s=silent_s,
        )  # fmt: skip
        if response.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise Unavailable(f"the object store {origin} answers {response.status}")
        yield response
    finally:
        with suppress(Exception):  # whatever it is, the connection is given up
            if response is not None:
                await response.aclose()
        await client.aclose()
