"""Whether a port can be used, and by whom it is if not."""

from __future__ import annotations

import contextlib
import errno
import os
import socket

from medusa_core.errors import Conflict, Refused
from pipelines.base.process_table import PROC

_LISTENS = "0A"


def require_port(host: str, port: int) -> None:
    """Conflict, with the mend, if another program has the port; Refused if it is none of ours."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = found[0]
        with socket.socket(family, kind) as probe:
            # As a server binds: what waits to be forgotten of an earlier one is no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except PermissionError as error:
        raise Refused(
            f"port {port} may not be used by this user: choose another, `medusa up --port "
            f"{free_port(host)}` for one"
        ) from error
    except socket.gaierror as error:
        raise Refused(f"{host} is no address of this machine: correct --host") from error
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise Refused(f"{host} is no address of this machine: correct --host") from error
        raise Conflict(
            f"port {port} is in use{_by(port)}: end that, or take another, `medusa up --port "
            f"{free_port(host)}` for one"
        ) from error


def free_port(host: str) -> int:
    """A port that nobody uses now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _by(port: int) -> str:
    """By which program, as far as this machine shows it to this user: ` by NAME (process N)`."""
    sockets = set()
    for table in ("net/tcp", "net/tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
    if not sockets:
        return ""
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for handle in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(handle) in sockets:
                        name = (process / "comm").read_text().strip()
                        return f" by {name} (process {process.name})"
    return " by another user's program"
