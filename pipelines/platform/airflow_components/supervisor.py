"""The supervisor: starts a database and Airflow, keeps them running, and ends all it started.

    1. be the only one (a lock for as long as it lives), end processes of an earlier one
    2. the database's server: the embedded one, which it then owns, or the configured one
    3. Airflow's database and its schema
    4. Airflow's components, kept running (`component_supervision.py`)
    5. on request, or when a start fails, end components, then marked jobs, then the server

Wherever it is killed, the next `medusa up` or `down` finds all of it recorded. A platform that
was up and then lost its database starts again from 2, as often as required.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from medusa_core.errors import MedusaError, Refused, Unavailable
from pipelines.base import clock
from pipelines.base.settings import REPOSITORY, Settings, environment
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import SERVER
from pipelines.platform.airflow_components.airflow_database import Pulse, make_database, revision_of
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.component_processes import end, marked
from pipelines.platform.airflow_components.component_supervision import Keeping
from pipelines.platform.airflow_components.components import MIGRATION, Children, end_recorded
from pipelines.platform.airflow_components.environment import LOOPBACK, Place, airflow_environment
from pipelines.platform.airflow_components.platform_state import StateFile, now_ms
from pipelines.platform.airflow_components.ports import require_port

MIGRATION_MS_MAX = 300_000
LOOK_AGAIN_S = 0.1
BEGIN_AGAIN_S = 10
JOBS_GRACE_MS = 20_000
DEFAULT_PORT = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformOptions:
    """The options of `medusa up`; None: as before."""

    port: int | None = None
    host: str | None = None


def supervise(
    settings: Settings, options: PlatformOptions, write_line: Callable[[str], None]
) -> NoReturn:
    """Start everything and keep it; ends by KeyboardInterrupt or by a MedusaError alone.

    `write_line` receives each line of the supervisor's log.
    Conflict: a supervisor lives, or the port is in use. Unavailable: something does not come up.
    Nothing that it started runs any more when it has ended.
    """
    folder = PlatformFolder(settings.directory)
    folder.make()
    with folder.supervising():
        state_file = StateFile(folder, write_line)
        try:
            while True:
                try:
                    _run(folder, settings, options, state_file)
                except Unavailable as error:
                    if not state_file.was_up:
                        raise
                    state_file.log(f"everything is begun again in {BEGIN_AGAIN_S} s: {error}")
                    clock.sleep_s(BEGIN_AGAIN_S)
        except MedusaError as error:
            state_file.say("failed", sentence=str(error), exit_code=error.exit_code)
            raise
        except BaseException:
            state_file.say("ended")
            raise


def chosen_address(folder: PlatformFolder, options: PlatformOptions) -> tuple[str, int]:
    """Host and port: from the options, as before, or the defaults."""
    chosen = folder.chosen()
    port = options.port or chosen.get("port") or DEFAULT_PORT
    host = options.host or chosen.get("host") or LOOPBACK
    if not isinstance(port, int) or not isinstance(host, str):
        raise Refused(f"{folder.root / 'platform.json'} is not as it was written: remove it")
    return host, port


def _run(
    folder: PlatformFolder, settings: Settings, options: PlatformOptions, state_file: StateFile
) -> NoReturn:
    state_file.say("starting", "the database")
    left = end_recorded(folder)
    if left:
        state_file.log(f"ended {left} processes that an earlier supervisor left behind")
    host, port = chosen_address(folder, options)
    require_port(host, port)
    secrets = folder.secrets(is_embedded=settings.catalog_url is None)
    folder.password()
    with ExitStack() as stack:
        server: EmbeddedServer | None = None
        admin_url = settings.catalog_url_of("postgres")
        if admin_url is None:
            server = stack.enter_context(EmbeddedServer(settings.directory / SERVER))
            admin_url = server.superuser_url()
        url = make_database(admin_url, secrets.database, secrets.database_password)
        place = Place(
            directory=settings.directory,
            root=folder.root,
            dags=REPOSITORY / "dags",
            own_dags=folder.own_dags,
            plugins=REPOSITORY / "pipelines" / "airflow" / "plugins",
            programs=Path(sys.executable).parent,
            passwords=folder.passwords,
            host=host,
            port=port,
            database_url=url,
            catalog_url=settings.catalog_url,
        )
        variables = airflow_environment(place, secrets, environment())
        children = Children(folder, place.programs, variables)
        pulse = stack.enter_context(closing(Pulse(url)))
        try:
            _migrate(folder, children, state_file, url)
            folder.choose(port=port, host=host)
            state_file.say("starting", "Airflow", url=place.reached_at)
            Keeping(
                settings=settings,
                folder=folder,
                place=place,
                server=server,
                pulse=pulse,
                children=children,
                state_file=state_file,
            ).keep()
        finally:
            state_file.say("stopping")
            children.end_all()
            end(lambda: marked(secrets.mark), grace_ms=JOBS_GRACE_MS)


def _migrate(folder: PlatformFolder, children: Children, state_file: StateFile, url: str) -> None:
    """Bring Airflow's schema up to its version, unless it is known to be there."""
    ours = version("apache-airflow-core")
    known = folder.chosen().get("schema")
    if known is not None and known == {"airflow": ours, "revision": revision_of(url)}:
        return
    state_file.say("starting", "Airflow's tables")
    children.start(MIGRATION, ("db", "migrate"))
    waits_until_ms = now_ms() + MIGRATION_MS_MAX
    while (code := children.exit_code(MIGRATION)) is None and now_ms() < waits_until_ms:
        clock.sleep_s(LOOK_AGAIN_S)
    children.end((MIGRATION,))
    if code != 0:
        raise Unavailable(
            f"Airflow's tables cannot be made: the reason is in {children.log(MIGRATION)}"
        )
    folder.choose(schema={"airflow": ours, "revision": revision_of(url)})
