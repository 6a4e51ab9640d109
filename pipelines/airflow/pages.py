"""Medusa below /medusa of Airflow's server: the operator's page, reports and certificates.

They are for users who are logged in to Airflow and may look at DAGs; reports and certificates,
which may be about any home, are for those of them from whom `MEDUSA_PAGE_HOMES` hides none. Of
files only those of the two folders that hold reports are served, whatever the request, and no page
may run a script from elsewhere or be framed by another site.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pipelines.airflow.recent_runs import last_runs
from pipelines.airflow.task_links import FOLDERS
from pipelines.pages.viewer import Viewer, sees_all

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".woff2": "font/woff2",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self' data: 'unsafe-inline'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def page_file(directory: Path, below: str) -> Path | None:
    """The file that is meant; None where there is none to be shown."""
    root = directory.resolve()
    try:
        file = (root / below).resolve()
        inside = file.relative_to(root)
    except (ValueError, OSError):
        return None
    if not inside.parts or inside.parts[0] not in FOLDERS or file.suffix not in KINDS:
        return None
    return file if file.is_file() else None


def pages_app(authenticate: Callable[[Any], Awaitable[Viewer | None]] | None = None) -> Any:
    """The application that Airflow's server mounts: the operator's page and pages of files.

    `authenticate` finds out who a request is from; by default, Airflow's auth manager.
    """
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import FileResponse, Response

    from medusa_core.errors import MedusaError
    from pipelines.base.settings import Settings, environment
    from pipelines.homes.home import known_homes
    from pipelines.homes.page_access import VARIABLE, read_access
    from pipelines.pages.readings import Readings
    from pipelines.pages.site import Site

    settings = Settings.from_environment()
    authenticate = authenticate or viewer_of
    site = Site(authenticate, Readings(settings), runs=last_runs)

    async def page(request: Request) -> Response:
        viewer = await authenticate(request)
        if viewer is None:
            return Response("log in to Airflow", 401)
        try:
            access = read_access(environment().get(VARIABLE))
            if not sees_all(viewer, access, known_homes(settings.directory)):
                return Response(f"{VARIABLE} hides homes from you, which this may be about", 403)
        except MedusaError as error:
            return Response(str(error), 503)
        file = page_file(settings.directory, request.path_params["below"])
        if file is None:
            return Response("there is no such page: run the DAG again that wrote it", 404)
        return FileResponse(file, media_type=KINDS[file.suffix], headers=HEADERS)

    app = FastAPI(title="Medusa", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_route("/pages/{below:path}", page)
    app.routes.extend(site.routes())
    return app


async def viewer_of(request: Any) -> Viewer | None:
    """Who is logged in to Airflow, and may look at DAGs; None: nobody who may."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
    from fastapi import HTTPException

    try:
        user = await get_user(request, None, await bearer_scheme(request))
    except HTTPException:
        return None
    manager = get_auth_manager()
    if not manager.is_authorized_dag(method="GET", user=user):
        return None
    may_trigger = manager.is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, user=user
    )
    may_see_runs = manager.is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.RUN, user=user
    )
    return Viewer(
        name=str(user.get_name()),
        roles=roles_of(user),
        may_trigger=may_trigger,
        may_see_runs=may_see_runs,
    )


def roles_of(user: Any) -> frozenset[str]:
    """The names of a user's roles, as far as its auth manager has any."""
    found = getattr(user, "roles", None)
    roles = found if isinstance(found, list | tuple | set) else [getattr(user, "role", None)]
    names = (getattr(role, "name", role) for role in roles if role is not None)
    return frozenset(str(getattr(name, "value", name)).lower() for name in names)
