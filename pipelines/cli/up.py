"""`medusa up`: start the platform in the background, or hold it in the foreground.

In the background a second process of this command is the supervisor, in a session of its own; this
one follows its progress until everything is up, and prints where.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.cli import arguments

if TYPE_CHECKING:
    from pipelines.operations.platform_start import Password, PlatformRequest, PlatformStart

HELP = "start Airflow and a database, and keep them running"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa up`."""
    port = "port of Airflow's pages and API (default: as before, at first 8080)"
    parser.add_argument("--port", type=arguments.port, metavar="N", help=port)
    host = "address to listen on (default: as before, at first 127.0.0.1)"
    parser.add_argument("--host", metavar="ADDRESS", help=host)
    stays = "run until interrupted, as containers and service managers need it"
    parser.add_argument("--foreground", action="store_true", help=stays)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Start the platform; 0 when all of it is up or, in the foreground, has ended."""
    from pipelines.operations.platform_start import FailedStart, hold_platform, start_platform

    request = _request(options)
    if options.foreground:
        hold_platform(settings, request, _print_password, _print)
        return 0
    result = start_platform(settings, request, _print)
    if isinstance(result, FailedStart):
        print(f"medusa: {result.sentence}", file=sys.stderr)
        return result.exit_code
    _print(render(result))
    return 0


def _request(options: argparse.Namespace) -> PlatformRequest:
    from pipelines.operations.platform_start import PlatformRequest

    command = [sys.executable, "-P", "-m", "pipelines.cli.main", "up", "--foreground"]
    command += ["--port", str(options.port)] if options.port else []
    command += ["--host", options.host] if options.host else []
    return PlatformRequest(port=options.port, host=options.host, foreground=command)


def render(result: PlatformStart) -> str:
    """Where everything is."""
    from pipelines.platform.airflow_components.airflow_folder import USER

    folder, state = result.folder, result.state
    secret = f"password in {folder.passwords}"
    if result.password is not None:
        secret = f"password {result.password} (shown this once)"
    psql = state.get("psql") or "there is no home yet: run `medusa apply`, then `medusa up` again"
    lines = ["up already"] if result.was_up else []
    lines += state.get("notes", ())
    lines.append(f"Airflow  {state['url']}  user {USER}, {secret}")
    lines.append(f"psql     {psql}")
    lines.append(f"reports  {folder.directory / 'reports'}")
    return "\n".join(lines)


def _print_password(password: Password) -> None:
    from pipelines.platform.airflow_components.airflow_folder import USER

    if password.is_new and sys.stdout.isatty():
        _print(f"user {USER}, password {password.text} (kept in {password.folder.passwords})")
    else:
        # The output of a container is kept for long, and read by others.
        _print(f"user {USER}, password in {password.folder.passwords}")


def _print(sentence: str) -> None:
    print(sentence, flush=True)
