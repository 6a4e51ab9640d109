"""Checks that a port is free, and finds the process that uses it if not."""

from __future__ import annotations

import contextlib
import errno
import socket

import psutil

from medusa_core.errors import Conflict, Refused


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
    """` by NAME (process N)`, the program that has a port, as far as the system shows it."""
    with contextlib.suppress(psutil.Error):
        for one in psutil.net_connections("tcp"):
            if one.status != psutil.CONN_LISTEN or one.laddr.port != port:
                continue
            if one.pid is None:
                return " by another user's program"
            return f" by {psutil.Process(one.pid).name()} (process {one.pid})"
    return ""
