"""Two homes in one folder: alpha publishes many streams, beta may read and imports them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
from sqlalchemy import text

from bench.processes import REPOSITORY, ContenderFailed
from medusa_core.columns import declare_columns
from medusa_core.commits import Cause, Commit, Lease, LeaseKey, OutputSegment
from medusa_core.digest import Digest
from medusa_core.exchange import import_fragment
from medusa_core.grid import Range
from medusa_core.names import FIRST_EPOCH, NetworkName, Participant, StreamName
from medusa_core.plans import fingerprint_of
from medusa_core.segments import Producer, SegmentFile, Stability
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.records import Assignment, Deployment, StreamRecord
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.exchange.server_certificates import make_certificate
from pipelines.homes.exchange_addresses import read_address
from pipelines.homes.home import SERVER, Home, open_home, open_homes
from pipelines.homes.signing_keys import make_key
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import file_schema
from pipelines.storage.segment_files import keep_files, new_attempt, write_durably, write_file

ALPHA, BETA = Participant("alpha"), Participant("beta")
PLAN = fingerprint_of("{}")
WIDTH_US = 10_000_000
COLUMNS = {"key": "string", "n": "bigint"}
ROWS = 5
HOUR_MS = 3_600_000
FILES = StreamName("files")
"""The stream of the files that are fetched and not imported: their bytes are no rows."""

LEARN = text("SELECT medusa_api.learn_key(:name, :key)")
GRANT = text("SELECT medusa_api.grant_stream(:stream, :reader)")


def names_of(streams: int) -> list[StreamName]:
    """The streams that are imported."""
    return [StreamName(f"s{number:04}") for number in range(streams)]


def writing(stream: StreamName) -> str:
    """The fragment that writes a stream."""
    return f"many/{stream}"


@dataclass(slots=True)
class Producing:
    """Alpha's home, and what is committed to it as its driver would."""

    home: Home
    leases: Mapping[StreamName, Lease]
    at: dict[StreamName, int]

    def segment(self, stream: StreamName) -> OutputSegment:
        """The next bucket of a stream, with a file of its own, synced."""
        at_us = self.at[stream] * WIDTH_US
        numbers = np.arange(ROWS)
        columns = declare_columns(f"stream {stream}", COLUMNS)
        rows = [[f"key {n}" for n in numbers], numbers, numbers + at_us, np.full(ROWS, at_us)]
        table = pa.table(rows, schema=file_schema(columns))
        file = write_file(self.home.storage, stream, new_attempt(), table)
        keep_files(self.home.storage, [file])
        digests = digests_by_bucket(table, columns, np.full(ROWS, at_us))
        return self._segment(stream, digests[at_us], [file])

    def commit(self, stream: StreamName, segment: OutputSegment) -> int:
        """Commit; the line's version."""
        lease = self.leases[stream]
        commit = Commit(lease=lease, plan=PLAN, cause=Cause.NORMAL, segments=(segment,))
        return self.home.catalog.commit(commit).versions[stream]

    def stored(self, contents: Sequence[bytes]) -> list[SegmentFile]:
        """Files with these contents, of one segment of a stream that beta may read."""
        files = []
        for content in contents:
            path = f"{FILES}/{new_attempt()}.parquet"
            write_durably(self.home.storage / path, content)
            digest = sha256(content).hexdigest()
            files.append(SegmentFile(path=path, size_bytes=len(content), sha256=digest, rows=1))
        segment = self._segment(FILES, Digest(len(files), 7, 9), files)
        self.commit(FILES, segment)
        return files

    def _segment(
        self, stream: StreamName, digest: Digest, files: Sequence[SegmentFile]
    ) -> OutputSegment:
        at_us = self.at[stream] * WIDTH_US
        self.at[stream] += 1
        return OutputSegment(
            stream=stream,
            range=Range(at_us, at_us + WIDTH_US),
            stability=Stability.STABLE,
            buckets={at_us: digest},
            files=tuple(files),
        )


@contextmanager
def two_homes(folder: Path, streams: int) -> Iterator[tuple[Settings, EmbeddedServer]]:
    """Both homes, deployed, and beta with the right to read; nothing is served yet."""
    settings = replace(Settings.from_environment({}), directory=folder.absolute())
    with EmbeddedServer(settings.directory / SERVER) as server:
        with ExitStack() as stack:
            homes = stack.enter_context(open_homes(settings, alone=True))
            for participant in (ALPHA, BETA):
                homes.make(participant, None).catalog.deploy(deployment(streams))
        keys = {name: make_key(settings.directory, name).public_key.hex() for name in (ALPHA, BETA)}
        for name in (ALPHA, BETA):
            with (
                open_home(settings, name, as_owner=True) as home,
                home.catalog.engine.connect() as sql,
            ):
                for known, key in keys.items():
                    sql.execute(LEARN, {"name": known, "key": key})
                for stream in (*names_of(streams), FILES) if name == ALPHA else ():
                    sql.execute(GRANT, {"stream": stream, "reader": BETA})
        yield settings, server


def deployment(streams: int) -> Deployment:
    """Of both homes: alpha writes all streams, beta imports those with rows."""
    imported = names_of(streams)
    names = [*imported, FILES]
    owners = {writing(name): ALPHA for name in names}
    owners |= {import_fragment(name): BETA for name in imported}
    return Deployment(
        network=NetworkName("many"),
        document="{}",
        plan=PLAN,
        plan_document="{}",
        streams=tuple(
            StreamRecord(name=name, kind="derived", width_us=WIDTH_US, columns=COLUMNS)
            for name in names
        ),
        fragments={
            **{writing(name): ((), (name,)) for name in names},
            **{import_fragment(name): ((), ()) for name in imported},
        },
        assignments=tuple(
            Assignment(fragment=name, producer=Producer(who), epoch=FIRST_EPOCH, plan=PLAN)
            for name, who in owners.items()
        ),
    )


@contextmanager
def producing(settings: Settings, streams: int) -> Iterator[Producing]:
    """Alpha with its leases, and a first bucket of each stream."""
    with open_home(settings, ALPHA) as home:
        names = [*names_of(streams), FILES]
        leases = {name: _lease(home.catalog, name) for name in names}
        alpha = Producing(home, leases, dict.fromkeys(names, 0))
        for name in names[:-1]:
            alpha.commit(name, alpha.segment(name))
        yield alpha


def _lease(catalog: PostgresCatalog, stream: StreamName) -> Lease:
    key = LeaseKey(fragment=writing(stream), producer=Producer(ALPHA))
    return catalog.acquire_lease(key, FIRST_EPOCH, "bench", HOUR_MS)


def environment(settings: Settings) -> dict[str, str]:
    """What a process needs to find the homes."""
    return {**os.environ, "MEDUSA_DIR": str(settings.directory), "MEDUSA_CATALOG_URL": ""}


@contextmanager
def serving(settings: Settings, *, tls: bool) -> Iterator[subprocess.Popen[str]]:
    """`medusa serve` of alpha, until the block ends; with TLS as between machines."""
    command = [sys.executable, "-m", "pipelines.cli.main", "serve", "--participant", ALPHA]
    if tls:
        certificate = settings.directory / "bench.pem"
        if not certificate.exists():
            make_certificate(certificate, ALPHA)
        command += ["--certificate", str(certificate)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=environment(settings),
    )
    assert process.stdout is not None
    try:
        if not process.stdout.readline():
            raise ContenderFailed("medusa serve has ended")
        url = read_address(settings.directory, ALPHA).url
        assert url.startswith("https:" if tls else "http:")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()
