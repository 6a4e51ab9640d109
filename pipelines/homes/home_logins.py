"""The passwords of a home's logins, each in a secret file `keys/<participant>/logins/<role>`.

A process reads only the file of the role that it logs in as. For psql the password is in a file
`<role>.pgpass` beside it: in an address it could be read in the list of processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.engine import URL

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.base.secret_files import SecretFile, secret_file
from pipelines.catalog.server.home_databases import FORMER_ROLES, ROLES, new_password

FOLDER = "logins"
LENGTH_MAX = 200
_PASSWORD = re.compile(r"[!-~]{1,200}")


def make_passwords(directory: Path, participant: Participant) -> Mapping[str, str]:
    """The password of each role; a password without a file is drawn and written.

    Those of roles that homes no longer have are removed.
    """
    for role in ROLES:
        _file(directory, participant, role).make(new_password)
    for role in FORMER_ROLES:
        _file(directory, participant, role).remove()
    return {role: read_password(directory, participant, role) for role in ROLES}


def read_password(directory: Path, participant: Participant, role: str) -> str:
    """The password of a role.

    Raises Unavailable if its file is missing, Refused if others can read it or it was altered.
    """
    file = _file(directory, participant, role)
    try:
        password = file.read(LENGTH_MAX)
    except FileNotFoundError:
        raise Unavailable(
            f"the login {role} of the home of {participant} has no password ({file.path}): run "
            "medusa apply again as the administrator of its server"
        ) from None
    if not _PASSWORD.fullmatch(password):
        raise Refused(
            f"the password {file.path} is not as Medusa wrote it: remove it, and run medusa apply "
            "again as the administrator of its server"
        )
    return password


def write_password_file(directory: Path, participant: Participant, role: str, login: URL) -> Path:
    """The file from which libpq reads the password of a login, written for its present address."""
    read_password(directory, participant, role)  # its folder is there, and nobody else enters it
    file = _file(directory, participant, f"{role}.pgpass")
    file.write(pgpass_line(login))
    return file.path


def pgpass_line(login: URL) -> str:
    """A login as a line of a password file of libpq."""
    parts = (login.host, login.port or 5432, login.database, login.username, login.password)
    return ":".join(str(part).replace("\\", "\\\\").replace(":", "\\:") for part in parts)


def _file(directory: Path, participant: Participant, role: str) -> SecretFile:
    return secret_file(directory, participant, FOLDER, role)
