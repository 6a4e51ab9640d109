"""Access to a home by psql: the command, and its passwords in a separate file.

The login shown is an analyst's: it reads final rows and changes nothing.
"""

from __future__ import annotations

import shlex
import shutil
from contextlib import suppress
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from medusa_core.errors import Refused, Unavailable
from pipelines.base.settings import Settings
from pipelines.catalog.server.server_programs import installed_programs
from pipelines.homes.home import address_of_server, known_homes, role_url
from pipelines.homes.home_logins import pgpass_line
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder


def write_passwords(
    folder: PlatformFolder, settings: Settings, embedded_address: str
) -> str | None:
    """Write the analysts' passwords of all homes; returns the command for the first of them.

    Homes whose password is missing are left out; None if there is no other home.
    """
    logins = []
    for participant in sorted(known_homes(settings.directory)):
        address = address_of_server(settings, participant) or embedded_address
        with suppress(Refused, Unavailable):
            url = role_url(settings.directory, address, participant, "analyst")
            logins.append(make_url(url))
    if not logins:
        return None
    folder.write_pgpass([pgpass_line(login) for login in logins])
    return _command(folder.pgpass, logins[0])


def _command(pgpass: Path, login: URL) -> str:
    words = [_psql(), "-h", str(login.host), "-p", str(login.port or 5432)]
    words += ["-U", str(login.username), str(login.database)]
    return f"PGPASSFILE={shlex.quote(str(pgpass))} {shlex.join(words)}"


def _psql() -> str:
    """The machine's psql, else the one that comes with the embedded server."""
    if shutil.which("psql"):
        return "psql"
    for folders in installed_programs().values():
        for folder in folders:
            if (folder / "psql").exists():
                return str(folder / "psql")
    return "psql"
