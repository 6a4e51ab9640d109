"""A site over homes of the suite's server, requested as by a browser, with whoever is logged in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from sqlalchemy import create_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes
from pipelines.pages.dag_runs import DagRun
from pipelines.pages.readings import Readings
from pipelines.pages.site import Site
from pipelines.pages.viewer import Viewer

ALPHA, BETA = Participant("alpha"), Participant("beta")
OPERATOR = Viewer(name="ola", roles=frozenset({"op"}), may_trigger=True, may_see_runs=True)


@dataclass
class Shown:
    """A site, and who looks at it; None: nobody is logged in."""

    settings: Settings
    server: EmbeddedServer
    viewer: Viewer | None = OPERATOR
    fresh_s: float = 0.0
    wait_s: float = 60.0
    runs: tuple[DagRun, ...] = ()
    readings: Readings = field(init=False)

    def __post_init__(self) -> None:
        self.readings = Readings(self.settings, fresh_s=self.fresh_s, wait_s=self.wait_s)
        site = Site(self._who, self.readings, runs=lambda: self.runs)
        self.version = site.version
        self.application = Starlette(routes=[Mount("/medusa", routes=site.routes())])

    async def _who(self, _request: Request) -> Viewer | None:
        return self.viewer

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """The answer to a request below /medusa."""

        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.application)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.get(f"/medusa/{path}", headers=headers)

        return asyncio.run(answer())

    def document(self, path: str) -> Any:
        """The JSON of a page."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def part(self, page: str) -> str:
        """The part of a page that is requested again and again."""
        answer = self.get(f"{page}{'&' if '?' in page else '?'}part=1")
        assert answer.status_code == 200, answer.text
        return answer.text

    def sql(self, participant: Participant, statement: str) -> None:
        """Change a home past its laws, as its server's administrator."""
        url = self.server.superuser_url(known_homes(self.settings.directory)[participant])
        engine = create_engine(url)
        try:
            with engine.begin() as connection:
                connection.exec_driver_sql("SET session_replication_role = replica")
                connection.exec_driver_sql(statement)
        finally:
            engine.dispose()
