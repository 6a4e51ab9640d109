"""Reports and certificates over HTTP, below /medusa/pages, for users logged in to Airflow.

Only files of the two folders that hold pages are served, whatever the request, and no page may
run a script from elsewhere or be framed by another site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.airflow.task_links import FOLDERS

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


def pages_app() -> Any:
    """The application that Airflow's server mounts."""

    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import FileResponse

    from pipelines.base.settings import Settings

    app = FastAPI(title="Medusa", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/pages/{below:path}", dependencies=[Depends(get_user)])
    def page(below: str) -> FileResponse:
        file = page_file(Settings.from_environment().directory, below)
        if file is None:
            raise HTTPException(404, "there is no such page: run the DAG again that wrote it")
        return FileResponse(file, media_type=KINDS[file.suffix], headers=HEADERS)

    return app
