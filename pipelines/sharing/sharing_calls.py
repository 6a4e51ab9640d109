"""The calls of Delta Sharing as routes of the exchange server, below `/delta-sharing`.

A recipient proves itself by its token. What is not shared and what does not exist have one answer,
404; every error has the form of the protocol.

The modules that read rows are imported with the first table: a home that shares nothing does not
load them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from medusa_core.errors import Refused
from medusa_core.names import StreamName, Version
from pipelines.catalog.sharing_records import TokenHolder
from pipelines.exchange.server.access_tokens import RecentHolders, hash_of
from pipelines.exchange.server.connections import claim, claimed_by
from pipelines.exchange.server.partner_budgets import PartnerBudgets, TooManyRequests
from pipelines.exchange.server.request_parts import bearer_of, body_of, text_of
from pipelines.exchange.server.responses import LimitedResponse, document_response
from pipelines.sharing import answer_lines as answers
from pipelines.sharing.address_signatures import Signatures
from pipelines.sharing.call_parts import (
    Call,
    CallProblem,
    answered,
    change_options,
    check_schema,
    fault,
    not_found,
    number_of,
    query_of,
    unknown_call,
)
from pipelines.sharing.file_calls import FILE_PATH, PREFIX, FileCalls
from pipelines.sharing.recipient_limits import (
    RequestRate,
    SharingLimits,
    UsageMeter,
    claimant_of,
)
from pipelines.sharing.table_names import SCHEMA, TableName, table_name

if TYPE_CHECKING:
    from pipelines.sharing.file_rows import FileRows
    from pipelines.sharing.shared_tables import ChangedFile, SharedTable
    from pipelines.sharing.sharing_home import SharingHome

BODY_BYTES_MAX = 256 << 10
_TABLE = "/shares/{share}/schemas/{schema}/tables/{table}"

Found = TypeVar("Found")
RecipientCall = Callable[[Request, TokenHolder], Awaitable[Response]]


class SharingCalls:
    """The calls of one home; `mount` is what the exchange server serves.

    `storage` is the home's storage root, `folder` where shared files are kept.
    """

    def __init__(
        self, home: SharingHome, storage: Path, folder: Path, limits: SharingLimits | None = None
    ) -> None:
        self._home = home
        self._limits = limits or SharingLimits()
        self._budgets = PartnerBudgets(self._limits.server)
        self._rate = RequestRate(self._limits)
        self._recent: RecentHolders[TokenHolder] = RecentHolders()
        self._usage = UsageMeter(home.note_recipient_usage)
        self._signatures = Signatures()
        self._files = FileCalls(
            home, self._budgets, self._rate, self._usage, self._signatures, folder, storage
        )
        calls: tuple[tuple[str, str, RecipientCall], ...] = (
            ("GET", "/shares", self._shares),
            ("GET", "/shares/{share}", self._share),
            ("GET", "/shares/{share}/schemas", self._schemas),
            ("GET", "/shares/{share}/schemas/{schema}/tables", self._tables),
            ("GET", "/shares/{share}/all-tables", self._tables),
            ("GET", f"{_TABLE}/version", self._version),
            ("GET", f"{_TABLE}/metadata", self._metadata),
            ("POST", f"{_TABLE}/query", self._query),
            ("GET", f"{_TABLE}/changes", self._changes),
        )
        routes = [
            Route(path, answered(self._for_recipient(call)), methods=[method])
            for method, path, call in calls
        ]
        for route in routes:
            (route.methods or set()).discard("HEAD")
        routes.append(Route(FILE_PATH, answered(self._files.file), methods=["GET", "HEAD"]))
        application = Starlette(
            routes=routes, exception_handlers={HTTPException: unknown_call, Exception: fault}
        )
        application.router.redirect_slashes = False
        self.mount = Mount(PREFIX, app=application)
        # A name may hold a line break, which `.` does not match: these are calls of tools too.
        self.mount.path_regex = re.compile(self.mount.path_regex.pattern, re.DOTALL)

    def close(self) -> None:
        """Note what was used, and end the thread."""
        self._files.close()
        self._usage.close()

    # Around each call

    def _for_recipient(self, call: RecipientCall) -> Call:
        """The call for the holder of a request's token, within its budgets."""

        async def answer(request: Request) -> Response:
            holder = await self._holder(request)
            recipient = claimant_of(holder.recipient)
            if not claim(request.scope, recipient) or not self._rate.take(holder.recipient):
                raise TooManyRequests
            with ExitStack() as held:
                held.enter_context(self._budgets.request(recipient))
                response = await call(request, holder)
                if isinstance(response, LimitedResponse):
                    # Its budget is held until the last byte is sent.
                    held.push(response.held)
                    held.enter_context(self._budgets.memory(recipient, response.memory_bytes))
                    response.held = held.pop_all()
                    sent = response.memory_bytes
                    self._usage.count(
                        holder.recipient, _stream_of(request), requests=1, bytes_=sent
                    )
                return response

        return answer

    async def _holder(self, request: Request) -> TokenHolder:
        """The holder of a request's token; looked up in the budget of the connection's recipient.

        A recipient that is refused for its rate is looked up twice a second at most.
        """
        token = bearer_of(request)
        holder = await self._holder_of(hash_of(token), request) if token else None
        if holder is None:
            raise CallProblem(
                401, "UNAUTHENTICATED", "the token is not valid, has expired or was revoked"
            )
        return holder

    async def _holder_of(self, token_hash: bytes, request: Request) -> TokenHolder | None:
        holder = self._recent.find(token_hash)
        if holder is None:
            claimant = claimed_by(request.scope)
            with self._budgets.request(claimant):
                holder = await self._budgets.call(
                    claimant, self._recent.look_up, token_hash, self._home.recipient_of
                )
        return holder

    async def _call(
        self, holder: TokenHolder, function: Callable[..., Found], *args: Any, **kwargs: Any
    ) -> Found:
        return await self._budgets.call(claimant_of(holder.recipient), function, *args, **kwargs)

    # Lists

    async def _shares(self, request: Request, holder: TokenHolder) -> Response:
        names = await self._call(holder, self._home.shared_names, holder.token_id)
        share = str(self._home.participant)
        shares = {share: {"name": share, "id": answers.share_id(share)}} if names else {}
        return self._page(request, holder, "shares", shares)

    async def _share(self, request: Request, holder: TokenHolder) -> Response:
        share, _ = await self._in_share(request, holder)
        document = {"share": {"name": share, "id": answers.share_id(share)}}
        return document_response(json.dumps(document).encode(), answers.JSON_TYPE)

    async def _schemas(self, request: Request, holder: TokenHolder) -> Response:
        share, _ = await self._in_share(request, holder)
        return self._page(request, holder, "schemas", {SCHEMA: {"name": SCHEMA, "share": share}})

    async def _tables(self, request: Request, holder: TokenHolder) -> Response:
        share, names = await self._in_share(request, holder)
        check_schema(request)
        tables = (
            TableName(name, has_tentative) for name in names for has_tentative in (False, True)
        )
        items = {str(table): answers.table_item(share, table) for table in sorted(tables, key=str)}
        return self._page(request, holder, "tables", items)

    async def _in_share(
        self, request: Request, holder: TokenHolder
    ) -> tuple[str, Sequence[StreamName]]:
        """The share of a request and its streams; it is there if one of them is."""
        names = await self._call(holder, self._home.shared_names, holder.token_id)
        self._check_share(request)
        if not names:
            raise not_found()
        return str(self._home.participant), names

    def _check_share(self, request: Request) -> None:
        if request.path_params["share"].lower() != self._home.participant:
            raise not_found()

    def _page(
        self, request: Request, holder: TokenHolder, listed: str, items: Mapping[str, Any]
    ) -> Response:
        """The items after a page token, as many as the request asks for."""
        number = number_of(text_of(request, "maxResults", str(self._limits.page_max)), "maxResults")
        number = min(number, self._limits.page_max)
        token = text_of(request, "pageToken", "")
        names = sorted(items)
        if token:
            last = self._signatures.page_after(holder.recipient, listed, token)
            names = [name for name in names if name > last]
        else:
            last = ""
        shown = names[:number]
        following = None
        if len(names) > len(shown):
            following = self._signatures.page_token(
                holder.recipient, listed, shown[-1] if shown else last
            )
        content = answers.page([items[name] for name in shown], following)
        return document_response(content, answers.JSON_TYPE)

    # Tables

    async def _table(self, request: Request, holder: TokenHolder) -> SharedTable:
        """The table of a request."""
        self._check_share(request)
        check_schema(request)
        name = table_name(request.path_params["table"])
        if name is None:
            raise not_found()
        return await self._call(holder, self._found_table, holder.token_id, name)

    def _found_table(self, token_id: int, name: TableName) -> SharedTable:
        from pipelines.sharing.shared_tables import SharedTable

        stream = self._home.shared_stream(token_id, name.stream)
        if stream is None:
            raise not_found()
        return SharedTable(home=self._home, token_id=token_id, name=name, stream=stream)

    async def _version(self, request: Request, holder: TokenHolder) -> Response:
        table = await self._table(request, holder)
        version = table.stream.version
        starting = text_of(request, "startingTimestamp", "")
        if starting:
            version = await self._call(
                holder, table.version_at, "startingTimestamp", starting, is_after=True
            )
        return document_response(b"", answers.JSON_TYPE, _versioned(version))

    async def _metadata(self, request: Request, holder: TokenHolder) -> Response:
        table = await self._table(request, holder)
        written = self._lines(request, table)
        return self._answer(written, written.head(), table.stream.version)

    async def _query(self, request: Request, holder: TokenHolder) -> Response:
        table = await self._table(request, holder)
        query = query_of(await body_of(request, BODY_BYTES_MAX, self._limits.server.body_s_max))
        version, is_past = table.stream.version, True
        if query.version is not None:
            version = await self._call(holder, table.version_of, "version", query.version)
        elif query.timestamp is not None:
            version = await self._call(holder, table.version_at, "timestamp", query.timestamp)
        else:
            is_past = False
        written = self._lines(request, table)
        found = await self._call(holder, _snapshot, table, version, query.limit)
        documents, expires_ms = written.head(version if is_past else None), None
        for rows in self._limited(found):
            file = await self._files.prepare(holder, table.name.stream, rows)
            url, expires_ms = self._files.address(request, holder, table.name.stream, file)
            documents.append(written.file(file, url, expires_ms))
        return self._answer(written, documents, version, expires_ms)

    async def _changes(self, request: Request, holder: TokenHolder) -> Response:
        table = await self._table(request, holder)
        first, last = await self._call(holder, _ends_of, table, change_options(request))
        written = self._lines(request, table)
        is_past = text_of(request, "includeHistoricalMetadata", "").lower() == "true"
        documents, expires_ms = written.head(first if is_past else None), None
        found: Sequence[ChangedFile] = await self._call(holder, _changed, table, first, last)
        for change in self._limited(found):
            file = await self._files.prepare(holder, table.name.stream, change.rows)
            if not file.rows:
                continue
            url, expires_ms = self._files.address(request, holder, table.name.stream, file)
            version, made_at_ms = change.version.version, change.version.made_at_ms or 0
            documents.append(
                written.change(change.kind, file, url, expires_ms, version, made_at_ms)
            )
        return self._answer(written, documents, first, expires_ms)

    def _limited(self, found: Sequence[Found]) -> Sequence[Found]:
        if len(found) > self._limits.files_max:
            raise Refused(
                f"the answer would name {len(found)} files, more than {self._limits.files_max}: "
                "request fewer versions or a limit of rows"
            )
        return found

    def _lines(self, request: Request, table: SharedTable) -> answers.TableLines:
        capabilities = answers.capabilities_of(request.headers.get(answers.CAPABILITIES))
        return answers.TableLines(
            share=str(self._home.participant), table=table.name,
            schema_string=table.schema_string, capabilities=capabilities,
        )  # fmt: skip

    def _answer(
        self, written: answers.TableLines, documents: Sequence[Mapping[str, Any]],
        version: Version, expires_ms: int | None = None,
    ) -> Response:  # fmt: skip
        content = answers.lines([*documents, *written.end(expires_ms)])
        headers = {**_versioned(version), **written.capabilities.headers}
        return document_response(content, answers.LINES_TYPE, headers)


def _ends_of(table: SharedTable, given: Mapping[str, str]) -> tuple[Version, Version]:
    """The first and the last version whose changes are requested."""
    if given["startingVersion"]:
        number = number_of(given["startingVersion"], "startingVersion")
        first = table.version_of("startingVersion", number)
    else:
        first = table.version_at("startingTimestamp", given["startingTimestamp"], is_after=True)
    last = table.stream.version
    if given["endingVersion"]:
        last = table.version_of("endingVersion", number_of(given["endingVersion"], "endingVersion"))
    elif given["endingTimestamp"]:
        last = table.version_at("endingTimestamp", given["endingTimestamp"])
    if last < first:
        raise Refused(f"the changes would end at version {last}, before they begin at {first}")
    return first, last


def _snapshot(table: SharedTable, version: Version, limit: int | None) -> list[FileRows]:
    """The files of a snapshot, or as many of them as have `limit` rows."""
    found, rows = [], 0
    for file, its_rows in table.snapshot(version):
        if limit is not None and rows >= limit:
            break
        found.append(file)
        rows += its_rows
    return found


def _changed(table: SharedTable, first: Version, last: Version) -> list[ChangedFile]:
    return list(table.changes(first, last))


def _stream_of(request: Request) -> str:
    name = table_name(request.path_params.get("table", ""))
    return "" if name is None else name.stream


def _versioned(version: Version) -> Mapping[str, str]:
    return {"Delta-Table-Version": str(version)}
