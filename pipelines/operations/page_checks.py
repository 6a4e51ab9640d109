"""The checks of `medusa doctor --page`: what the operator's page lacks, and what mends it.

Everything is tried as the page does it, on the machine and with the environment of Airflow's API
server: each home is read with its login `page`, no database is started, and the server is asked for
a file that only the page has. Limit: the environment of the server that runs is not seen; a value
that is checked here is in effect after its next start.
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

from sqlalchemy import Connection, make_url

from medusa_core.errors import MedusaError, Refused
from medusa_core.names import Participant
from medusa_core.suggest import counted
from pipelines.base.settings import REPOSITORY, Settings, environment
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.postgres.statements import engine_with_timeouts
from pipelines.catalog.server.embedded_server import recorded_address
from pipelines.catalog.server.migrations import pending
from pipelines.homes.home import SERVER, address_of_server, known_homes, role_url
from pipelines.homes.page_access import ALL, ROLE, VARIABLE, read_access, write_access
from pipelines.operations.findings import Finding, fail, ok, warn
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder
from pipelines.platform.airflow_components.health import status_of

LOGIN = "page"
TIME_LIMIT_MS = 10_000
ANSWER_S_MAX = 10.0
BASE_URL, AUTH_MANAGER = "AIRFLOW__API__BASE_URL", "AIRFLOW__CORE__AUTH_MANAGER"
PLUGINS = "AIRFLOW__CORE__PLUGINS_FOLDER"
SIMPLE_MANAGER = "SimpleAuthManager"
SIMPLE_ROLES = frozenset({"viewer", "user", "op", "admin"})
FILE = "/medusa/static/icon.svg"
READ = ("page_home", "page_lines")
"""Statements of the page that have no values: what they read is what it is granted."""


def page_findings(settings: Settings) -> Iterator[Finding]:
    """Homes first: a server that runs shows nothing without them."""
    try:
        homes = sorted(known_homes(settings.directory))
    except MedusaError as error:
        yield fail("homes", str(error))
        return
    if homes:
        names = ", ".join(homes[:5]) + (" and more" if len(homes) > 5 else "")
        yield ok("homes", f"{counted(len(homes), 'home')} in {settings.directory}: {names}")
    else:
        to_do = "set MEDUSA_DIR to their folder, or run `medusa apply --contracts contracts`"
        yield fail("homes", f"there is no home in {settings.directory}", to_do)
    for home in homes:
        yield _home(settings, home)
    yield _access(environment().get(VARIABLE), homes)
    yield from _airflow(settings)


# ---------------------------------------------------------------- homes


def _home(settings: Settings, home: Participant) -> Finding:
    """One finding: without its server a home has no login, without a login no migration is seen."""
    check = f"page login of {home}"
    migrate = f"run `medusa migrate --participant {home}`"
    try:
        own = address_of_server(settings, home)
        server = own or recorded_address(settings.directory / SERVER)
        if not _answers_at(server):
            start = "run `medusa up`" if own is None else "start it"
            return fail(check, f"its server {server.partition('//')[2]} does not answer", start)
    except MedusaError as error:
        return fail(check, str(error), "run `medusa up`")
    try:
        url = role_url(settings.directory, server, home, LOGIN)
        with errors_of_catalog(is_quoted=False):
            engine = engine_with_timeouts(url, time_limit_ms=TIME_LIMIT_MS)
            try:
                with engine.connect() as connection:
                    return _login(check, migrate, connection)
            finally:
                engine.dispose()
    except Refused as error:
        return fail(check, str(error))
    except MedusaError as error:
        return fail(check, f"{LOGIN} cannot read it ({error})", migrate)


def _login(check: str, migrate: str, connection: Connection) -> Finding:
    """Whether the home has this version's tables, and the login its rights and its limits."""
    missing = pending(connection)
    if missing.names:
        return fail(check, f"its catalog lacks {missing.names[0]}", migrate)
    for statement in READ:
        connection.execute(query(statement)).all()
    if connection.execute(query("transaction_is_read_only")).scalar_one() != "on":
        return fail(check, "its transactions can write", migrate)
    return ok(check, "it reads the home, in transactions that cannot write")


def _answers_at(server: str) -> bool:
    """Whether something accepts connections at the address of a Postgres server."""
    url = make_url(server)
    if not url.host:
        return True  # a socket of its own: connecting says whether it answers
    try:
        with socket.create_connection((url.host, url.port or 5432), ANSWER_S_MAX):
            return True
    except OSError:
        return False


# ---------------------------------------------------------------- who sees what


def _access(value: str | None, homes: Sequence[Participant]) -> Finding:
    try:
        access = read_access(value)
    except MedusaError as error:
        return fail(VARIABLE, str(error), f"correct it, or run `unset {VARIABLE}`")
    if access is None:
        return ok(VARIABLE, "not set: everybody who may look at DAGs is shown all homes")
    shown = frozenset[str]().union(*access.values())
    if unknown := sorted(shown - {ALL} - set(homes)):
        known = {who: seen & {ALL, *homes} for who, seen in access.items()}
        kept = {who: seen for who, seen in known.items() if seen}
        return warn(VARIABLE, f"there is no home of {', '.join(unknown)}", _export(kept))
    if hidden := [home for home in homes if ALL not in shown and home not in shown]:
        admins = access.get(f"{ROLE}admin", frozenset())
        more = {**access, f"{ROLE}admin": admins | set(hidden)}
        return fail(VARIABLE, f"nobody is shown {', '.join(hidden)}", _export(more))
    if roles := sorted(_unknown_roles(access)):
        kept = {who: seen for who, seen in access.items() if who not in roles}
        known_roles = ", ".join(sorted(SIMPLE_ROLES))
        return warn(VARIABLE, f"{', '.join(roles)} is not a role of Airflow's simple auth manager "
                              f"({known_roles})", _export(kept))  # fmt: skip
    return ok(VARIABLE, write_access(access))


def _export(access: dict[str, frozenset[str]]) -> str:
    if not access:
        return f"run `unset {VARIABLE}`"
    return f"run `export {VARIABLE}={shlex.quote(write_access(access))}`"


def _unknown_roles(access: Iterable[str]) -> Iterator[str]:
    """Roles that no user can have; those of another auth manager are not known here."""
    if SIMPLE_MANAGER in environment().get(AUTH_MANAGER, SIMPLE_MANAGER):
        for who in access:
            if who.startswith(ROLE) and who.removeprefix(ROLE) not in SIMPLE_ROLES:
                yield who


# ---------------------------------------------------------------- Airflow


def _airflow(settings: Settings) -> Iterator[Finding]:
    try:
        yield ok("airflow", f"Airflow {version('apache-airflow-core')}")
    except PackageNotFoundError:
        yield fail("airflow", "Airflow is not installed beside Medusa", "run `make setup`")
        return
    folder = PlatformFolder(settings.directory)
    own = environment().get(BASE_URL)
    url = (own or _address(folder)).rstrip("/")
    status = status_of(f"{url}{FILE}")
    if status is None:
        start = "run `medusa up`" if own is None else f"start it: `{_server(url)}`"
        yield fail("api-server", f"nothing answers at {url}", start)
        return
    yield ok("api-server", f"it answers at {url}")
    if status == 200:
        yield ok("plugin", "the server has the page, and the menu entry Medusa")
        return
    again = f"stop it, and start it with the plugin: `{_server(url)}`"
    if own is None and folder.is_made and folder.is_supervised():
        again = "run `medusa down && medusa up`"
    yield fail("plugin", f"the server has no page (status {status})", again)


def _server(url: str) -> str:
    """The command that starts Airflow's server with Medusa's plugin."""
    plugins = REPOSITORY / "pipelines" / "airflow" / "plugins"
    port = urlsplit(url).port or 80
    return f"{PLUGINS}={shlex.quote(str(plugins))} airflow api-server --port {port}"


def _address(folder: PlatformFolder) -> str:
    """Where `medusa up` has put the server, or would."""
    chosen = folder.chosen()
    host, port = str(chosen.get("host") or "127.0.0.1"), chosen.get("port") or 8080
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
