"""The site of the page in a process of its own, for a viewer without a login.

    python -m bench.page_server PORT

MEDUSA_DIR names the folder of homes.
"""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from pipelines.base.settings import Settings
from pipelines.pages.readings import Readings
from pipelines.pages.site import Site
from pipelines.pages.viewer import Viewer


async def anybody(_request: Request) -> Viewer:
    """Every request is an operator's."""
    return Viewer(name="bench", may_trigger=True)


def main(port: int) -> None:
    """Serve until ended."""
    site = Site(anybody, Readings(Settings.from_environment(), wait_s=60.0))
    application = Starlette(routes=[Mount("/medusa", routes=site.routes())])
    uvicorn.run(application, port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
