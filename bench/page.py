"""The operator's page: how long a large federation takes to be shown, and what open pages cost.

    python -m bench page [--streams N] [--participants N] [--segments N] [--seconds S] [--json FILE]

The site runs in a process of its own over a home that SQL has filled. Open pages request their
changes as browsers do, every 5 s with the ETag of the last answer. CPU is that of the site and of
all processes of Postgres. With `--soak MINUTES` pages stay open over homes that run
(`bench/page_soak.py`). Targets: shown within 1 s; one page below 1 %, 20 below 5 % of a core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import psutil
from sqlalchemy import create_engine

from bench.machine import describe_machine
from bench.process_tree import cpu_seconds_of_all
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import SERVER, known_homes, make_home
from pipelines.platform.airflow_components.ports import free_port

FILL = Path(__file__).with_name("page.sql")
ALPHA = Participant("alpha")
PAGES = ("federation", "to-do")
EVERY_S = 5.0


@dataclass(frozen=True)
class Opened:
    """A page that is opened the first time, again, and again with what has not changed."""

    page: str
    first_ms: float
    again_ms: float
    unchanged_ms: float
    bytes: int


@dataclass(frozen=True)
class Cost:
    """What some open pages cost, in per cent of a core."""

    pages: int
    site: float
    postgres: float

    @property
    def total(self) -> float:
        """Both."""
        return self.site + self.postgres


def fill(server: EmbeddedServer, database: str, options: argparse.Namespace) -> None:
    """Make the rows of the federation."""
    numbers = {name: getattr(options, name) for name in ("streams", "participants", "segments")}
    engine = create_engine(server.superuser_url(database), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(FILL.read_text().format(**numbers).replace("%", "%%"))
    engine.dispose()


@contextmanager
def served(directory: Path) -> Iterator[tuple[str, int]]:
    """The site at a free port, when it answers."""
    port = free_port("127.0.0.1")
    environment = {**os.environ, "MEDUSA_DIR": str(directory), "MEDUSA_CATALOG_URL": ""}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.page_server", str(port)], env=environment
    )
    url = f"http://127.0.0.1:{port}/medusa"
    try:
        while True:
            try:
                httpx.get(f"{url}/static/icon.svg")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def opened(client: httpx.Client, page: str) -> Opened:
    """Open a page three times."""

    def timed(path: str, etag: str = "") -> tuple[float, httpx.Response]:
        began_s = time.perf_counter()
        answer = client.get(path, headers={"If-None-Match": etag} if etag else {})
        assert answer.status_code in (200, 304), answer.text
        return (time.perf_counter() - began_s) * 1_000, answer

    first_ms, first = timed(page)
    again_ms, _ = timed(page)
    unchanged_ms, _ = timed(f"{page}?part=1", first.headers["etag"])
    return Opened(page, first_ms, again_ms, unchanged_ms, len(first.content))


def cost(url: str, site: int, server: int, pages: int, seconds: float) -> Cost:
    """Keep pages open for so long; `site` and `server` are processes by their numbers."""
    etags: dict[int, str] = {}
    with httpx.Client(base_url=url, timeout=60) as client:
        began_s, before = (
            time.perf_counter(),
            (cpu_seconds_of_all(site), cpu_seconds_of_all(server)),
        )
        number = 0
        while time.perf_counter() - began_s < seconds:
            at = number % pages
            path = f"{PAGES[at % len(PAGES)]}?part=1"
            headers = {"If-None-Match": etags[at]} if at in etags else {}
            etags[at] = client.get(path, headers=headers).headers.get("etag", "")
            number += 1
            due_s = began_s + number * EVERY_S / pages
            time.sleep(max(due_s - time.perf_counter(), 0))
        took_s = time.perf_counter() - began_s
        after = (cpu_seconds_of_all(site), cpu_seconds_of_all(server))
    return Cost(pages, *((b - a) / took_s * 100 for a, b in zip(before, after, strict=True)))


def main(arguments: Sequence[str]) -> int:
    """Make the federation, measure, print."""
    parser = argparse.ArgumentParser(prog="bench page", description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--participants", type=int, default=100)
    parser.add_argument("--segments", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    from bench.__main__ import work_folder

    base = Settings.from_environment(os.environ).directory
    with work_folder(base) as folder:
        if options.soak:
            from bench.page_soak import soak

            code, document = soak(folder, options.soak)
        else:
            code, document = 0, measure(folder, options)
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return code


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    settings = replace(Settings.from_environment({"MEDUSA_DIR": str(folder)}), catalog_url=None)
    with EmbeddedServer(folder / SERVER) as server:
        with make_home(settings, ALPHA, keep=True):
            pass
        began_s = time.perf_counter()
        fill(server, known_homes(folder)[ALPHA], options)
        made_s = time.perf_counter() - began_s
        print(f"{options.streams:,} streams, {options.participants:,} participants, "
              f"{options.segments:,} segments (made in {made_s:.0f} s)")  # fmt: skip
        postmaster = next(
            c.pid
            for c in psutil.net_connections("tcp")
            if c.status == psutil.CONN_LISTEN and c.laddr.port == server.port and c.pid
        )
        with served(folder) as (url, site):
            with httpx.Client(base_url=url, timeout=60) as client:
                shown = [opened(client, page) for page in PAGES]
            for one in shown:
                print(f"{one.page:12} first {one.first_ms:7.0f} ms   again {one.again_ms:6.1f} ms"
                      f"   unchanged {one.unchanged_ms:5.1f} ms   {one.bytes:,} bytes")  # fmt: skip
            costs = [cost(url, site, postmaster, pages, options.seconds) for pages in (1, 20)]
            for spent in costs:
                print(f"{spent.pages:3} open: {spent.total:.2f} % of a core (site "
                      f"{spent.site:.2f}, Postgres {spent.postgres:.2f})")  # fmt: skip
    return {
        "machine": describe_machine(),
        "opened": [asdict(one) for one in shown],
        "costs": [{**asdict(one), "total": one.total} for one in costs],
    }
