"""A home with a stream that nobody is granted, and those who try to read it.

The words in CANARIES are in rows, names of files and columns, documents of plans and networks,
quarantined records and envelopes of that home: no answer has one of them.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import psycopg2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from medusa_core.commits import OutputSegment
from medusa_core.digest import Digest
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.names import NetworkName, Participant, StreamName
from medusa_core.plans import fingerprint_of
from medusa_core.protocol.assertions import ASSERTION_TYPE, GRANT_TYPE, claims_of
from medusa_core.protocol.envelope_documents import write_envelopes
from medusa_core.protocol.introductions import introduction_claims
from medusa_core.protocol.invitations import hash_of_secret
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.records import Deployment
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.signed_assertions import sign_claims
from tests.catalog import building as a
from tests.exchange.published_home import ALPHA, AUDIENCE, BETA, GAMMA, KEYS, stored

HIDDEN = StreamName("hidden_stream")
HIDDEN_NETWORK, HIDDEN_FRAGMENT = NetworkName("hidden_network"), "hidden_network/main"
CANARIES = tuple(
    f"canary_{what}" for what in ("row", "file", "column", "plan", "network", "record", "envelope")
)
HIDDEN_NAMES = (HIDDEN, HIDDEN_NETWORK)
"""Names of what nobody is granted: an answer has one only if the request had it."""

HIDDEN_ROWS = b"canary_row " * 500
DELTA, OMEGA, REMOVED, LAPSED = map(Participant, ("delta", "omega", "removed", "lapsed"))
OTHER_KEYS = {
    name: Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())
    for name in (DELTA, OMEGA, REMOVED, LAPSED)
}
ALL_KEYS = {**KEYS, **OTHER_KEYS}
SECRET = "s" * 43


def key_of(name: Participant) -> bytes:
    return ALL_KEYS[name].public_key().public_bytes_raw()


@contextmanager
def hidden_streams(urls: HomeUrls, storage: Path) -> Iterator[None]:
    """In the home of `published_home`, what nobody is granted, and partners of every condition."""
    with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
        plan_document = '{"canary_plan": "sum(canary_column)"}'
        plan = fingerprint_of(plan_document)
        catalog.deploy(
            Deployment(
                network=HIDDEN_NETWORK,
                document='{"canary_network": 1}',
                plan=plan,
                plan_document=plan_document,
                streams=(
                    replace(a.a_stream(HIDDEN), columns={"canary_column": "string"}),
                ),
                fragments={HIDDEN_FRAGMENT: ((), (HIDDEN,))},
                assignments=(a.an_assignment(HIDDEN_FRAGMENT, plan=plan),),
            )
        )  # fmt: skip
        catalog.acquire_lease(a.a_key(HIDDEN_FRAGMENT), a.FIRST, "me", a.HOUR_MS)
        segment = OutputSegment(
            stream=HIDDEN,
            range=a.buckets(0, 1),
            stability=a.Stability.STABLE,
            buckets={0: Digest(2, 7, 9)},
            files=(stored(storage, "canary_file.parquet", HIDDEN_ROWS),),
        )
        lease = a.a_lease(HIDDEN_FRAGMENT)
        catalog.commit(a.a_commit(segment, lease=lease, plan=plan))
    with closing(ExchangeHome(urls.exchange, ALPHA)) as home:
        body = b'{"canary_envelope": 1}'
        home.deliver(GAMMA, [an_envelope(GAMMA, body)])
    with closing(psycopg2.connect(urls.owner.replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO medusa.quarantine (stream, origin, field, reason, content) "
                "VALUES (%s, 'canary_file.csv', 'canary_column', 'wrong', 'canary_record')",
                (HIDDEN,),
            )
            for name in (REMOVED, LAPSED):
                cursor.execute("SELECT medusa_api.learn_key(%s, %s)", (name, key_of(name).hex()))
            for name, secret in ((DELTA, SECRET), (OMEGA, "o" * 43)):
                cursor.execute(
                    "SELECT medusa_api.invite_partner(%s, %s, now() + interval '1 hour')",
                    (name, hash_of_secret(secret).hex()),
                )
        yield


def assertion_of(name: Participant, home: ExchangeHome) -> str:
    nonce = secrets.token_urlsafe(24)
    return sign_claims(claims_of(name, AUDIENCE, nonce, home.read_clock_ms()), ALL_KEYS[name])


def introduction_of(name: Participant, home: ExchangeHome, url: str | None = None) -> str:
    claims = introduction_claims(name, url, None, (), home.read_clock_ms())
    return sign_claims(claims, ALL_KEYS[name])


def an_envelope(sender: Participant, body: bytes = b"{}") -> Envelope:
    """An envelope that nobody has signed."""
    return Envelope(
        kind=EnvelopeKind.OFFER, sender=sender, receiver=ALPHA, nonce=secrets.token_hex(16),
        sent_at_ms=1, expires_at_ms=2, body=body, signature=bytes(64),
    )  # fmt: skip


def real_values(home: ExchangeHome) -> Mapping[str, Callable[[], Any]]:
    """Values that count, by the name of their parameter or field, or of the whole document."""
    files = sorted(HASHES)
    drawn = random.Random(3)
    return {
        "stream": lambda: drawn.choice(("sums", "big", HIDDEN, "none")),
        "sha256": lambda: drawn.choice(files),
        "client_assertion": lambda: assertion_of(GAMMA, home),
        "assertion": lambda: assertion_of(DELTA, home),
        "introduction": lambda: introduction_of(drawn.choice((GAMMA, DELTA)), home),
        "public_key": lambda: key_of(DELTA).hex(),
        "secret": lambda: SECRET,
        "sender": lambda: BETA,
        "receiver": lambda: ALPHA,
        "after": lambda: drawn.choice((0, 0, 1, 9)),
        "through_us": lambda: 0,
        "Envelopes": lambda: write_envelopes([an_envelope(BETA)]).decode(),
        "Range": lambda: drawn.choice(("bytes=0-", "bytes=5-9", "bytes=700000-")),
    }


HASHES = {
    sha256(HIDDEN_ROWS).hexdigest(),
    sha256(b"canary " * 1_000).hexdigest(),
    sha256(random.Random(7).randbytes(700_000)).hexdigest(),
    "0" * 64,
}


def token_for(url: str, name: Participant, home: ExchangeHome) -> str:
    form = {
        "grant_type": GRANT_TYPE,
        "client_assertion_type": ASSERTION_TYPE,
        "client_assertion": assertion_of(name, home),
    }
    answer = httpx.post(f"{url}/v1/token", data=form, trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])
