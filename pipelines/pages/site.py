"""The site: pages, their documents as JSON, parts that are requested again, files, documentation.

A Starlette application. The program that mounts it authenticates requests. Each answer
of a page has an ETag, and a page that is requested again with it costs no rendering: what was
rendered is kept until a reading behind it changes.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.settings import Settings, environment
from pipelines.homes.home import known_homes
from pipelines.homes.page_access import VARIABLE, read_access
from pipelines.pages.actions_page import ACTIONS
from pipelines.pages.contracts_page import CONTRACTS
from pipelines.pages.dag_runs import RunSource
from pipelines.pages.docs_page import docs_page, docs_picture
from pipelines.pages.federation_page import FEDERATION
from pipelines.pages.frame import CSP, live_part, plain_page, whole_page
from pipelines.pages.page_kinds import Document, Page, Request, read_at_ms
from pipelines.pages.readings import HomePart, Readings
from pipelines.pages.stream_page import STREAMS
from pipelines.pages.to_do_page import TO_DO
from pipelines.pages.viewer import Viewer, homes_of, sees_all
from pipelines.report.markup import Markup, tag

PAGES: tuple[Page, ...] = (FEDERATION, STREAMS, CONTRACTS, TO_DO, ACTIONS)
"""In the order of the menu; the first one is shown first."""

FILES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
RENDERED_MAX = 64
QUERY_CHARACTERS_MAX = 2_000
FOLDER = Path(__file__).parent

Authenticate = Callable[[HttpRequest], Awaitable[Viewer | None]]
"""Who a request is from; None: nobody who may look."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """What was made of some readings, whose numbers are `of`."""

    of: tuple[int, ...]
    parts: tuple[HomePart, ...]
    read_at_ms: int | None
    document: Document
    live: Markup
    etag: str


class Site:
    """The application and what all its requests share."""

    def __init__(
        self, authenticate: Authenticate, readings: Readings, pages: Sequence[Page] = PAGES,
        runs: RunSource | None = None,
    ) -> None:  # fmt: skip
        self._authenticate = authenticate
        self._readings = readings
        self._pages = tuple(pages)
        self._runs = runs
        self._rendered: OrderedDict[tuple[object, ...], _Rendered] = OrderedDict()
        self._lock = Lock()
        self._files = {name: (FOLDER / name).read_bytes() for name in FILES}
        self.version = sha256(b"".join(self._files.values())).hexdigest()[:12]

    def routes(self) -> list[Route]:
        """For a Starlette application, which may have more."""
        found = [
            Route("/", self._first),
            Route("/static/{name}", self._file),
            Route("/docs/pictures/{name}", self._picture),
            Route("/docs/{name}", self._docs),
        ]
        for page in self._pages:
            found += [
                Route(f"/{page.name}", self._answers(page, self._page)),
                Route(f"/{page.name}.json", self._answers(page, self._json)),
            ]
        return found

    # ------------------------------------------------------------ answers

    async def _first(self, request: HttpRequest) -> Response:
        return RedirectResponse(f"{_root(request)}/{self._pages[0].name}")

    async def _file(self, request: HttpRequest) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            return Response("there is no such file", 404)
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], media_type=FILES[name], headers=headers)

    async def _docs(self, request: HttpRequest) -> Response:
        if await self._authenticate(request) is None:
            return self._refused(request, 401)
        found = await run_in_threadpool(docs_page, request.path_params["name"])
        if found is None:
            return Response("there is no such page of the documentation", 404, HEADERS)
        title, content = found
        text = plain_page(title, content, version=self.version, root=_root(request))
        return Response(text, media_type="text/html", headers=HEADERS)

    async def _picture(self, request: HttpRequest) -> Response:
        if await self._authenticate(request) is None:
            return self._refused(request, 401)
        found = docs_picture(request.path_params["name"])
        if found is None:
            return Response("there is no such picture", 404, HEADERS)
        return FileResponse(found, media_type="image/png", headers=HEADERS)

    def _answers(
        self, page: Page, answer: Callable[[Page, HttpRequest, Viewer], Response]
    ) -> Callable[[HttpRequest], Awaitable[Response]]:
        async def answered(request: HttpRequest) -> Response:
            viewer = await self._authenticate(request)
            if viewer is None:
                return self._refused(request, 401)
            if len(request.url.query) > QUERY_CHARACTERS_MAX:
                return Response("the query is too long", 414, HEADERS)
            try:
                return await run_in_threadpool(answer, page, request, viewer)
            except MedusaError as error:
                # Of the server's own settings: what is wrong with a home is shown in the page.
                _log.warning("%s", error)
                return self._sentence(request, 503, "This cannot be shown now", str(error))

        return answered

    def _page(self, page: Page, request: HttpRequest, viewer: Viewer) -> Response:
        rendered = self._made(page, request, viewer)
        is_part = "part" in request.query_params
        etag = f'"{rendered.etag}"'
        headers = {**HEADERS, "ETag": etag, "X-Medusa-Version": self.version,
                   "X-Medusa-Read-At": str(rendered.read_at_ms or "")}  # fmt: skip
        if is_part and request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        text = rendered.live if is_part else whole_page(
            page, self._pages, rendered.live, version=self.version, root=_root(request),
            viewer=viewer.name, read_at=rendered.read_at_ms,
        )  # fmt: skip
        return Response(text, media_type="text/html", headers=headers)

    def _json(self, page: Page, request: HttpRequest, viewer: Viewer) -> Response:
        rendered = self._made(page, request, viewer)
        whole = {**rendered.document, "read_at_ms": rendered.read_at_ms}
        text = json.dumps(whole, ensure_ascii=True)
        return Response(text, media_type="application/json", headers=HEADERS)

    def _refused(self, request: HttpRequest, status: int) -> Response:
        return self._sentence(
            request, status, "Log in",
            "You are not logged in to Airflow, or your role may not look at DAGs.",
        )  # fmt: skip

    def _sentence(self, request: HttpRequest, status: int, title: str, because: str) -> Response:
        root = _root(request)
        again = tag("a", "Airflow's first page", href=f"{root.removesuffix('/medusa')}/",
                    data_airflow="")  # fmt: skip
        content = tag("div", tag("h1", title), tag("p", because), tag("p", again))
        text = plain_page(title, content, version=self.version, root=root)
        return Response(text, status, HEADERS, "text/html")

    # ------------------------------------------------------------ what is shown

    def _made(self, page: Page, http: HttpRequest, viewer: Viewer) -> _Rendered:
        """The document and its rendering; the last one, if nothing behind it was read again."""
        request = self._request(page, http, viewer)
        key = (page.name, tuple(request.homes), request.sees_all,
               tuple(sorted(request.query.items())), viewer.may_trigger,
               viewer.may_see_runs)  # fmt: skip
        with self._lock:
            known = self._rendered.get(key)
        if known is not None:
            now = self._readings.current(known.parts)
            if known.of == tuple(reading.number for reading in now):
                return replace(known, read_at_ms=read_at_ms(now))
        began_s = clock.monotonic_s()
        document = page.document(request)
        whole = {
            "page": page.name,
            "homes": list(request.homes),
            "problems": request.problems,
            **document,
        }
        live = live_part(page.render(whole), request.problems, len(request.homes))
        of = tuple(reading.number for reading in request.used)
        etag = sha256(live.encode()).hexdigest()[:24]
        read_ms = read_at_ms(request.used)
        rendered = _Rendered(of, tuple(request.parts), read_ms, whole, live, etag)
        # Once for a page: who opens it in many ways must not make everybody's readings older.
        self._readings.charge(page.name, clock.monotonic_s() - began_s - request.read_s)
        with self._lock:
            self._rendered[key] = rendered
            self._rendered.move_to_end(key)
            while len(self._rendered) > RENDERED_MAX:
                self._rendered.popitem(last=False)
        return rendered

    def _request(self, page: Page, http: HttpRequest, viewer: Viewer) -> Request:
        settings: Settings = self._readings.settings
        access = read_access(environment().get(VARIABLE))
        known: list[Participant] = list(known_homes(settings.directory))
        return Request(
            viewer=viewer,
            homes=homes_of(viewer, access, known),
            query={name: http.query_params[name] for name in page.values
                   if name in http.query_params},
            readings=self._readings,
            sees_all=sees_all(viewer, access, known),
            runs=self._runs,
        )  # fmt: skip


def _root(request: HttpRequest) -> str:
    """Where the site is mounted, without a slash at the end."""
    root: Any = request.scope.get("root_path", "")
    return str(root).rstrip("/")
