"""The home of alpha with rows of `sums`, granted to beta, and of `big`, granted to nobody."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from medusa_core.commits import OutputSegment
from medusa_core.digest import Digest
from medusa_core.names import NetworkName, Participant
from medusa_core.plans import fingerprint_of
from medusa_core.protocol.assertions import ASSERTION_TYPE, GRANT_TYPE, audience_of, claims_of
from medusa_core.protocol.introductions import introduction_claims
from medusa_core.segments import SegmentFile
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.records import Deployment
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from pipelines.exchange.signed_assertions import sign_claims
from tests.catalog import building as a

ALPHA, BETA, GAMMA = a.ALPHA, Participant("beta"), Participant("gamma")
KEYS = {
    name: Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())
    for name in (ALPHA, BETA, GAMMA)
}
AUDIENCE = audience_of(ALPHA, KEYS[ALPHA].public_key().public_bytes_raw())
ROWS = random.Random(7).randbytes(700_000)
CANARY = b"canary " * 1_000
PLAN = fingerprint_of("{}")


@dataclass
class KeyIdentity:
    """A participant's identity with the key of the tests, and an address that a test sets."""

    participant: Participant
    url: str | None = None
    pin: str | None = None

    def mark(self) -> object:
        return None

    def public_key(self) -> bytes:
        return KEYS[self.participant].public_key().public_bytes_raw()

    def sign(self, claims: Mapping[str, Any]) -> str:
        return sign_claims(claims, KEYS[self.participant])

    def introduction(self) -> str:
        now_ms = int(time.time() * 1_000)
        return self.sign(introduction_claims(self.participant, self.url, self.pin, (), now_ms))

    def audiences(self) -> frozenset[str]:
        return frozenset({audience_of(self.participant, self.public_key())})


def stored(storage: Path, name: str, content: bytes) -> SegmentFile:
    (storage / name).write_bytes(content)
    digest = sha256(content).hexdigest()
    return SegmentFile(path=name, size_bytes=len(content), sha256=digest, rows=2)


def write(catalog: PostgresCatalog, fragment: str, at: int, file: SegmentFile) -> None:
    segment = OutputSegment(
        stream=a.WRITES[fragment],
        range=a.buckets(at, at + 1),
        stability=a.Stability.STABLE,
        buckets={at * a.WIDTH_US: Digest(2, 7, 9)},
        files=(file,),
    )
    catalog.commit(a.a_commit(segment, lease=a.a_lease(fragment), plan=PLAN))


@contextmanager
def published_home(postgres_server: EmbeddedServer, storage: Path) -> Iterator[HomeUrls]:
    """That home, with its files in a folder."""
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, ALPHA, "medusa_served")
    with closing(psycopg2.connect(urls.owner.replace("+psycopg2", ""))) as connection:
        with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
            given = a.a_deployment()
            assignments = tuple(
                a.an_assignment(name, plan=PLAN) for name in (a.LANDING, a.MAIN, a.TAIL)
            )
            catalog.deploy(
                Deployment(
                    network=NetworkName("example"),
                    document="{}",
                    plan=PLAN,
                    plan_document="{}",
                    streams=given.streams,
                    fragments=given.fragments,
                    assignments=assignments,
                )
            )
            for fragment in (a.MAIN, a.TAIL):
                catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
            write(catalog, a.MAIN, 0, stored(storage, "sums.parquet", ROWS))
            write(catalog, a.TAIL, 0, stored(storage, "big.parquet", CANARY))
        connection.autocommit = True
        with connection.cursor() as cursor:
            for name in (ALPHA, BETA, GAMMA):
                key = KEYS[name].public_key().public_bytes_raw().hex()
                cursor.execute("SELECT medusa_api.learn_key(%s, %s)", (name, key))
            cursor.execute("SELECT medusa_api.grant_stream('sums', 'beta')")
    yield urls
    drop_home(admin_url, urls.database)


def form_for(home: ExchangeHome, client: Participant) -> dict[str, str]:
    claims = claims_of(client, AUDIENCE, secrets.token_urlsafe(24), home.read_clock_ms())
    return {
        "grant_type": GRANT_TYPE,
        "client_assertion_type": ASSERTION_TYPE,
        "client_assertion": sign_claims(claims, KEYS[client]),
    }
