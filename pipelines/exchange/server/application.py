"""The exchange server as an ASGI application: the calls of the protocol under `/v1`.

Each call finds the partner by its access token and asks the catalog for that partner alone. What is
not granted and what does not exist have one answer, 404. The catalog is called in threads, so that
one slow call delays no other; each partner has a budget of its own. Every answer has a header
`Server-Timing` with durations: `inside`, how long it took; for answers that may wait also `read`,
how long until the home was read, to which the ages in the answer refer.

TLS, the number of connections and the size of headers are for `https_server` to keep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ParamSpec, Protocol, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol import call_documents as calls
from medusa_core.protocol.assertions import ASSERTION_TYPE, GRANT_TYPE, check_claims
from medusa_core.protocol.document_fields import Field, WrongField
from medusa_core.protocol.envelope_documents import (
    ENVELOPES_BYTES_MAX,
    read_envelopes,
    write_deliveries,
)
from medusa_core.protocol.file_batches import (
    BATCH_BYTES_MAX,
    FILE_BYTES_MAX,
    HEAD_BYTES,
    REQUEST_BYTES_MAX,
    frame_head,
    read_files,
)
from medusa_core.protocol.introductions import INTRODUCTION, Introduction
from medusa_core.protocol.invitations import hash_of_secret, read_joining
from medusa_core.protocol.news_documents import HASH, STREAM, write_news
from medusa_core.protocol.problems import MEDIA_TYPE, ProblemKind, kind_of, write_problem
from medusa_core.segments import SegmentFile
from pipelines.base import clock
from pipelines.catalog.partner_records import LinkState
from pipelines.exchange.link_recorder import LinkRecorder
from pipelines.exchange.server.access_tokens import AccessRecords, AccessTokens
from pipelines.exchange.server.connections import claim, claimed_by
from pipelines.exchange.server.openapi import news_numbers, wait_numbers
from pipelines.exchange.server.partner_budgets import (
    PartnerBudgets,
    ServerLimits,
    TooManyRequests,
)
from pipelines.exchange.server.request_parts import (
    BodyTooLarge,
    bearer_of,
    body_of,
    form_of,
    numbers_of,
    range_of,
    text_of,
)
from pipelines.exchange.server.responses import (
    FILE_BATCH,
    PARQUET,
    LimitedResponse,
    batch_response,
    document_response,
    file_response,
    opened_file,
)
from pipelines.exchange.signed_assertions import verified_claims
from pipelines.exchange.signed_introductions import verified_introduction
from pipelines.storage.store import store_of

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope

log = logging.getLogger(__name__)

JSON = "application/json"
LOOK_S = 0.5
"""For how long a look at a home counts in which nothing has happened since; so much later a grant
that was given or taken is seen."""

NO_TOKEN = "there is no valid access token: request one"
TOO_LARGE = "the body is too large: send less"
TOO_MANY = "too many requests at once: wait for the answers to the others"
NOT_FOUND = "there is nothing of this name for you: ask the operator for a grant"


class PublishingHome(AccessRecords, Protocol):
    """What the server calls of its home."""

    @property
    def participant(self) -> Participant:
        """Whose home this is."""

    def published_streams(self, partner: Participant) -> tuple[calls.OfferedStream, ...]:
        """The streams that a partner may read."""

    def published_news(self, partner: Participant, stream: StreamName, replica: int,
                       after: Version, *, segments_max: int) -> LineNews | None:  # fmt: skip
        """What happened to a line after a version; None: nothing for this partner."""

    def published_progress(self, partner: Participant) -> tuple[calls.LineProgress, ...]:
        """The lines that a partner may read."""

    def published_file(self, partner: Participant, sha256: str) -> SegmentFile | None:
        """The file with a hash; None: none for this partner."""

    def published_files(
        self, partner: Participant, hashes: Sequence[str]
    ) -> tuple[SegmentFile, ...]:
        """The files with these hashes, in their order, that there are for this partner."""

    def acknowledge(self, partner: Participant, acknowledgement: calls.Acknowledgement) -> bool:
        """Move the partner's hold; False: the stream is not there for this partner."""

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """Put envelopes of the partner into the inbox; an answer to each."""

    def join_partner(self, secret_hash: bytes, introduction: Introduction) -> None:
        """Let an invited participant join; Refused if the invitation is not for it, or over."""


class ServerIdentity(Protocol):
    """The key of the home's participant."""

    def audiences(self) -> frozenset[str]:
        """What assertions for this server may name."""

    def introduction(self) -> str:
        """What the server says of itself, signed."""


class Progress(Protocol):
    """What happens in the home."""

    @property
    def is_connected(self) -> bool:
        """Whether it hears of everything that happens."""

    def next(self) -> asyncio.Event:
        """What is set when something happens from now on."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The lines that a partner may read: as long as nothing `happens`, and until `ends_s`."""

    happens: asyncio.Event
    ends_s: float
    key: str
    content: bytes


class _Problem(Exception):
    """An answer that is a problem of a kind that no error has."""

    def __init__(self, kind: ProblemKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


P = ParamSpec("P")
Found = TypeVar("Found")
Call = Callable[[Request], Awaitable[Response]]
PartnerCall = Callable[[Request, Participant], Awaitable[Response]]


class ExchangeServer:
    """The calls of one home's exchange server; `application` is the ASGI application.

    `mounts` are served beside them, and answer everything below their own paths.
    """

    def __init__(
        self,
        home: PublishingHome,
        storage: Path,
        identity: ServerIdentity,
        version: str,
        progress: Progress,
        limits: ServerLimits | None = None,
        links: LinkRecorder | None = None,
        mounts: Sequence[BaseRoute] = (),
    ) -> None:
        self._links = links or LinkRecorder()
        self._progress = progress
        self._home = home
        self._storage = storage
        self._version = version
        self._limits = limits or ServerLimits()
        self._identity = identity
        self._tokens = AccessTokens(home, identity.audiences)
        self._looks: dict[Participant, _Look] = {}
        self._budgets = PartnerBudgets(self._limits)
        self._call = self._budgets.call
        partners_calls: tuple[tuple[str, str, PartnerCall], ...] = (
            ("GET", "/v1/streams", self._streams),
            ("GET", "/v1/progress", self._lines),
            ("GET", "/v1/news", self._news),
            ("GET", "/v1/files/{sha256}", self._file),
            ("POST", "/v1/files", self._batch),
            ("POST", "/v1/acknowledgements", self._acknowledge),
            ("POST", "/v1/envelopes", self._deliver),
            ("GET", "/v1/health", self._health),
        )
        routes = [
            Route("/v1/token", self._timed(self._token), methods=["POST"]),
            Route("/v1/introduction", self._timed(self._introduce), methods=["GET"]),
            Route("/v1/partners", self._timed(self._join), methods=["POST"]),
        ]
        routes += [
            Route(path, self._timed(self._for_partner(call)), methods=[method])
            for method, path, call in partners_calls
        ]
        self.application = Starlette(
            routes=[*routes, *mounts],
            exception_handlers={HTTPException: _unknown_call, Exception: _fault},
        )
        self.application.router.redirect_slashes = False
        for route in routes:
            # Starlette answers HEAD like GET, and would read a file whose bytes nobody takes.
            (route.methods or set()).discard("HEAD")

    # Around each call

    def _timed(self, call: Call) -> Call:
        """The call with its time, and with its errors as problems."""

        async def answer(request: Request) -> Response:
            began_s = clock.monotonic_s()
            try:
                response = await call(request)
            except _Problem as problem:
                response = _problem(problem.kind, problem.detail)
            except BodyTooLarge:
                response = _problem(ProblemKind.TOO_LARGE, TOO_LARGE)
            except TooManyRequests:
                response = _problem(ProblemKind.TOO_MANY_REQUESTS, TOO_MANY)
            except MedusaError as error:
                response = _problem(kind_of(error), str(error))
            if response.status_code == ProblemKind.UNAUTHORIZED.status:
                # A client that guesses tokens needs a new connection for each guess.
                response.headers["Connection"] = "close"
            response.headers["Server-Timing"] = _timing(request, began_s)
            return response

        return answer

    def _for_partner(self, call: PartnerCall) -> Call:
        """The call for the partner that a request's token was issued to, within its budget."""

        async def answer(request: Request) -> Response:
            partner = await self._partner(request)
            if partner is None:
                raise _Problem(ProblemKind.UNAUTHORIZED, NO_TOKEN)
            if not claim(request.scope, partner):
                raise TooManyRequests
            with ExitStack() as held:
                held.enter_context(self._budgets.request(partner))
                response = await self._recorded(call, request, partner)
                if isinstance(response, LimitedResponse):
                    # Its budget is held until the last byte is sent.
                    held.push(response.held)
                    held.enter_context(self._budgets.memory(partner, response.memory_bytes))
                    response.held = held.pop_all()
                return response

        return answer

    async def _recorded(
        self, call: PartnerCall, request: Request, partner: Participant
    ) -> Response:
        """The answer to a call; what the link with the partner has had of it is recorded."""
        began_s = clock.monotonic_s()
        try:
            response = await call(request, partner)
        except (MedusaError, _Problem, TooManyRequests, BodyTooLarge) as error:
            self._links.note_failure(partner, _sentence(error), LinkState.REACHABLE)
            raise
        took_s = clock.monotonic_s() - began_s - getattr(request.state, "waited_s", 0.0)
        is_file = response.media_type in (PARQUET, FILE_BATCH)
        self._links.note_answer(partner, took_s=None if is_file else took_s)
        if isinstance(response, LimitedResponse):
            response.on_sent = lambda sent: self._links.note_bytes(partner, sent=sent)
        return response

    async def _body(self, request: Request, partner: Participant, bytes_max: int) -> bytes:
        """The body of a partner's request."""
        body = await body_of(request, bytes_max, self._limits.body_s_max)
        self._links.note_bytes(partner, received=len(body))
        return body

    async def _partner(
        self, request: Request, *, is_recent_enough: bool = True
    ) -> Participant | None:
        """The holder of a request's token; looked up in the budget of the connection's partner."""
        token = bearer_of(request)
        if token is None:
            return None
        found = self._tokens.recent_holder(token) if is_recent_enough else None
        if found is None:
            holder = claimed_by(request.scope)
            with self._budgets.request(holder):
                found = await self._budgets.call(holder, self._tokens.holder, token)
        return found

    # The calls

    async def _token(self, request: Request) -> Response:
        holder = claimed_by(request.scope)
        with self._budgets.request(holder):
            body = await body_of(request, calls.SMALL_BYTES_MAX, self._limits.token_s_max)
            form = form_of(request, body)
            if form.get("grant_type") != GRANT_TYPE:
                raise Refused(f"the grant type is not {GRANT_TYPE}")
            if form.get("client_assertion_type") != ASSERTION_TYPE:
                raise Refused(f"the type of the assertion is not {ASSERTION_TYPE}")
            assertion = form.get("client_assertion", "")
            introduction = form.get("introduction", "")
            issued = await self._budgets.call(holder, self._tokens.issue, assertion, introduction)
        response = _document(calls.write_token(issued))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _introduce(self, request: Request) -> Response:
        holder = claimed_by(request.scope)
        with self._budgets.request(holder):
            signed = await self._budgets.call(holder, self._identity.introduction)
        return _document(INTRODUCTION.write({"introduction": signed}))

    async def _join(self, request: Request) -> Response:
        holder = claimed_by(request.scope)
        with self._budgets.request(holder):
            body = await body_of(request, calls.SMALL_BYTES_MAX, self._limits.token_s_max)
            await self._budgets.call(holder, self._joined, body)
        return Response(status_code=204)

    def _joined(self, body: bytes) -> None:
        """Let the participant join that has signed a request with the key that it brings."""
        joining = read_joining(body)
        now_ms = self._home.read_clock_ms()
        claims = verified_claims(joining.assertion, joining.public_key)
        accepted = check_claims(claims, self._identity.audiences(), now_ms)
        _, introduction = verified_introduction(
            joining.introduction, accepted.partner, [joining.public_key], now_ms
        )
        self._home.join_partner(hash_of_secret(joining.secret), introduction)

    async def _streams(self, request: Request, partner: Participant) -> Response:
        streams = await self._call(partner, self._home.published_streams, partner)
        return _document(calls.write_offers(self._home.participant, streams))

    async def _lines(self, request: Request, partner: Participant) -> Response:
        async def look() -> tuple[str, bytes]:
            happens, now_s = self._progress.next(), clock.monotonic_s()
            last = self._looks.pop(partner, None)
            # A partner asks again with each answer: most often nothing has happened meanwhile.
            if last is None or last.happens is not happens or now_s > last.ends_s:
                content = await self._call(partner, self._read_lines, request, partner)
                last = _Look(happens, now_s + LOOK_S, sha256(content).hexdigest(), content)
            if self._progress.is_connected and len(last.content) <= calls.SMALL_BYTES_MAX:
                self._looks[partner] = last
            return last.key, last.content

        given = numbers_of(request, wait_numbers(self._limits))
        key, content = await self._changed(request, given["wait_ms"], look)
        return document_response(content, JSON, {"ETag": f'"{key}"'})

    def _read_lines(self, request: Request, partner: Participant) -> bytes:
        lines = _read(request, self._home.published_progress, partner)
        return calls.write_progress(lines)

    async def _news(self, request: Request, partner: Participant) -> Response:
        given = numbers_of(request, news_numbers(self._limits))
        stream = StreamName(_named(STREAM, text_of(request, "stream")))

        def read() -> tuple[str, bytes]:
            # Written at once: news that waited to be written would count in no budget.
            news = _read(
                request, self._home.published_news, partner, stream, given["replica"],
                Version(given["after"]), segments_max=given["segments_max"],
            )  # fmt: skip
            if news is None:
                raise _Problem(ProblemKind.NOT_FOUND, NOT_FOUND)
            return news.key, write_news(news)

        async def look() -> tuple[str, bytes]:
            return await self._call(partner, read)

        key, content = await self._changed(request, given["wait_ms"], look)
        return document_response(content, JSON, {"ETag": f'"{key}"'})

    async def _changed(
        self, request: Request, wait_ms: int, look: Callable[[], Awaitable[tuple[str, bytes]]]
    ) -> tuple[str, bytes]:
        """What is there with its key, once that is not what the parameter `known` names."""
        known = text_of(request, "known", "")
        ends_s = clock.monotonic_s() + wait_ms / 1_000
        while True:
            happens = self._progress.next()
            key, found = await look()
            if key != known or clock.monotonic_s() >= ends_s:
                return key, found
            del found  # a request that waits holds nothing in memory
            # A partner that was removed must not wait, nor be known from a moment ago.
            if await self._partner(request, is_recent_enough=False) is None:
                raise _Problem(ProblemKind.UNAUTHORIZED, NO_TOKEN)
            waits_s = clock.monotonic_s()
            has_left = await _has_left(request, happens, ends_s - waits_s)
            waited_s = getattr(request.state, "waited_s", 0.0)
            request.state.waited_s = waited_s + clock.monotonic_s() - waits_s
            if has_left:
                raise _Problem(ProblemKind.UNAVAILABLE, "the connection ended before the answer")

    async def _file(self, request: Request, partner: Participant) -> Response:
        digest = _named(HASH, request.path_params["sha256"])
        origin = request.headers.get(calls.OBJECTS_HEADER)
        if origin is not None:
            url = await self._call(partner, self._object_url, partner, digest, origin)
            if url is not None:
                self._links.note_file(partner)
                headers = {"Location": url, "Cache-Control": "no-store"}
                return Response(status_code=307, headers=headers)
        found = await self._call(partner, self._found_file, partner, digest)
        if found is None:
            raise _Problem(ProblemKind.NOT_FOUND, NOT_FOUND)
        file, opened = found
        part = range_of(request, file.size_bytes)
        first, end = part or (0, file.size_bytes)
        headers = {"Accept-Ranges": "bytes", "ETag": f'"{file.sha256}"'}
        if first >= end:
            opened.close()
            headers["Content-Range"] = f"bytes */{file.size_bytes}"
            return Response(status_code=416, headers=headers)
        if part is not None:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{file.size_bytes}"
        opened.seek(first)
        status = 200 if part is None else 206
        self._links.note_file(partner)

        async def read(bytes_max: int) -> bytes:
            # A partner that was removed meanwhile receives no more of it.
            if await self._partner(request) is None:
                return b""
            return await self._call(partner, opened.read, bytes_max)

        return file_response(opened, read, end - first, status, headers)

    def _object_url(self, partner: Participant, digest: str, origin: str) -> str | None:
        """Where this partner may read the file at an object store that it names, if it is there.

        Without valid settings or keys of the store the file is sent from here.
        """
        file = self._home.published_file(partner, digest)
        if file is None:
            return None
        try:
            return store_of(self._storage).object_url(file.path, origin)
        except MedusaError as error:
            # Its text names files of this machine.
            log.error("file %s is not redirected to its object: %s", digest[:12], error)
            return None

    def _found_file(self, partner: Participant, digest: str) -> tuple[SegmentFile, BinaryIO] | None:
        """The file with a hash, opened; None: none for this partner."""
        file = self._home.published_file(partner, digest)
        return None if file is None else (file, opened_file(self._storage, file))

    async def _batch(self, request: Request, partner: Participant) -> Response:
        hashes = read_files(await self._body(request, partner, REQUEST_BYTES_MAX))
        with self._budgets.memory(partner, BATCH_BYTES_MAX):
            frames = await self._call(partner, self._read_frames, partner, hashes)
        for _ in frames:
            self._links.note_file(partner)

        async def is_allowed() -> bool:
            # A partner that was removed meanwhile receives no more of it.
            return await self._partner(request) is not None

        return batch_response(b"".join(frames), is_allowed)

    def _read_frames(self, partner: Participant, hashes: Sequence[str]) -> list[bytes]:
        """The small files with these hashes, each with its head, up to the size of a batch.

        One that is damaged here is left out: a request for it alone says so.
        """
        frames: list[bytes] = []
        left = BATCH_BYTES_MAX
        for file in self._home.published_files(partner, hashes):
            size = file.size_bytes
            if size > FILE_BYTES_MAX or size + HEAD_BYTES > left:
                continue
            with suppress(Unavailable, OSError):
                with opened_file(self._storage, file) as opened:
                    content = opened.read(size)
                if len(content) == size:
                    frames.append(frame_head(file.sha256, size) + content)
                    left -= len(frames[-1])
        return frames

    async def _acknowledge(self, request: Request, partner: Participant) -> Response:
        body = await self._body(request, partner, calls.SMALL_BYTES_MAX)
        acknowledgement = calls.read_acknowledgement(body)
        if not await self._call(partner, self._home.acknowledge, partner, acknowledgement):
            raise _Problem(ProblemKind.NOT_FOUND, NOT_FOUND)
        return Response(status_code=204)

    async def _deliver(self, request: Request, partner: Participant) -> Response:
        with self._budgets.memory(partner, ENVELOPES_BYTES_MAX):
            async with self._budgets.large_body(partner):
                body = await self._body(request, partner, ENVELOPES_BYTES_MAX)
                envelopes = await self._call(partner, read_envelopes, body)
            answers = await self._call(partner, self._home.deliver, partner, envelopes)
        return _document(write_deliveries(answers))

    async def _health(self, request: Request, partner: Participant) -> Response:
        clock_ms = await self._call(partner, self._home.read_clock_ms)
        health = calls.Health(
            participant=self._home.participant, version=self._version, clock_ms=clock_ms
        )
        return _document(calls.write_health(health))


def _sentence(error: Exception) -> str:
    """What is reported of an error."""
    match error:
        case BodyTooLarge():
            return TOO_LARGE
        case TooManyRequests():
            return TOO_MANY
    return str(error)


def _read(
    request: Request, function: Callable[P, Found], *args: P.args, **kwargs: P.kwargs
) -> Found:
    """What a call of the home returns; the request remembers when it was made."""
    request.state.read_s = clock.monotonic_s()
    return function(*args, **kwargs)


def _timing(request: Request, began_s: float) -> str:
    """The durations of an answer since a request began; that until the home was read is rounded
    down, since the ages in the answer count from there."""
    parts = [f"inside;dur={(clock.monotonic_s() - began_s) * 1_000:.1f}"]
    read_s = getattr(request.state, "read_s", None)
    if read_s is not None:
        parts.append(f"read;dur={int((read_s - began_s) * 1_000)}")
    return ", ".join(parts)


async def _has_left(request: Request, happens: asyncio.Event, seconds: float) -> bool:
    """Wait until something happens; True if the client closes the connection before."""

    async def leaves() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    waits = asyncio.create_task(happens.wait())
    left = asyncio.create_task(leaves())
    try:
        await asyncio.wait((waits, left), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return left.done()
    finally:
        waits.cancel()
        left.cancel()


def _named(field: Field, name: str) -> str:
    """The name, if it is one that something may have: else there is nothing of this name."""
    try:
        field.check(name)
    except WrongField:
        raise _Problem(ProblemKind.NOT_FOUND, NOT_FOUND) from None
    return name


def _document(content: bytes) -> LimitedResponse:
    return document_response(content, JSON)


def _problem(kind: ProblemKind, detail: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if kind is ProblemKind.UNAUTHORIZED else {}
    return Response(write_problem(kind, detail), kind.status, headers, media_type=MEDIA_TYPE)


async def _unknown_call(request: Request, error: Exception) -> Response:
    """A path or a method that is no call: not there either."""
    return _problem(ProblemKind.NOT_FOUND, NOT_FOUND)


async def _fault(request: Request, error: Exception) -> Response:
    """A fault of this program: the answer says nothing of what is inside, the log does."""
    log.error("the call %r ended with a fault", request.scope["path"], exc_info=error)
    return _problem(ProblemKind.UNAVAILABLE, "the server cannot answer this now: try later")
