"""The checks of each home by `medusa doctor`: migrations, clock, LISTEN, leases, partners.

Nothing is changed: a home is read with the login of its jobs. One notification is sent, on which
listeners look and find nothing.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg2.extensions
from sqlalchemy import Connection, Engine, create_engine, text

from medusa_core.decide import Wait
from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.settings import PARTICIPANT, Settings
from pipelines.base.time_text import duration
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.home_database import CONNECT_S_MAX, catalog_url
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.server.migrations import pending
from pipelines.contracts.storage_roots import check_owner
from pipelines.homes.deployed_fragments import decisions_of
from pipelines.homes.home import checked_storage, known_homes, open_homes, owner_of
from pipelines.homes.signing_keys import has_key
from pipelines.operations.findings import Finding, State, fail, ok, warn
from pipelines.operations.partner_checks import partner_findings
from pipelines.participant.notification_queue import USED_MAX, queue_sentence
from pipelines.storage.object_settings import read_settings
from pipelines.watching.log_fields import fragment_of

CHANNEL = "medusa_progress"
HEARD_S_MAX = 5.0
SKEW_MS_WARN, SKEW_MS_FAIL = 1_000, 60_000
STALE_MS = 60_000


def home_findings(settings: Settings) -> Iterator[Finding]:
    """The findings of every home that the folder or the URL names; none if there is no home."""
    try:
        homes = known_homes(settings.directory)
        with open_homes(settings, alone=False) as opened:
            for name in homes:
                try:
                    url = opened.url(name)
                except MedusaError as error:
                    yield fail(f"home of {name}", str(error))
                    continue
                assert url is not None, "it is known"
                yield from _findings(name, url, is_shared=settings.catalog_url is not None)
                yield from bucket_findings(settings, name)
                if has_key(settings.directory, name):
                    yield from partner_findings(settings, name)
        url = settings.catalog_url
        if not homes and url is not None and PARTICIPANT not in url:
            participant = _resident(url)
            if participant is not None:
                yield from _findings(participant, url, is_shared=True)
    except MedusaError as error:
        yield fail("homes", str(error))


def bucket_findings(settings: Settings, name: Participant) -> Iterator[Finding]:
    """Whether the bucket of a home can be written, read and removed from, if it has one."""
    check = f"object store of {name}"
    try:
        root = checked_storage(settings.directory, name)
        objects = read_settings(root)
        if objects is None:
            return
        from pipelines.storage.object_store import Bucket

        Bucket(root, objects).check()
        if owner_of(settings.directory, name) is not None:
            check_owner(settings.directory, name, root, objects)
    except MedusaError as error:
        yield fail(check, str(error))
        return
    yield ok(check, f"{objects.address}: an object was put, read and removed")


def _resident(url: str) -> Participant | None:
    """Who lives in a database; None if nobody, or if it is not reached."""
    try:
        with _connected(url) as (_, connection):
            if not connection.execute(query("schema_made")).one().has_tables:
                return None
            name = connection.execute(query("read_home")).scalar()
            return Participant(name) if name else None
    except MedusaError:
        return None


@contextmanager
def _connected(url: str) -> Iterator[tuple[Engine, Connection]]:
    engine = create_engine(
        catalog_url(url),
        isolation_level="AUTOCOMMIT",
        connect_args={"connect_timeout": CONNECT_S_MAX},
    )
    try:
        with errors_of_catalog(), engine.connect() as connection:
            yield engine, connection
    finally:
        engine.dispose()


def _findings(name: str, url: str, *, is_shared: bool) -> Iterator[Finding]:
    """In the order in which one needs the other: without its tables a home has no leases.

    `is_shared`: the server is not Medusa's own.
    """
    try:
        with _connected(url) as (engine, connection):
            migrated = _migrations(name, connection)
            yield migrated
            yield _clock(name, connection)
            yield _listens(name, engine, connection)
            yield _notifications(name, connection)
            if is_shared:
                yield from _shared_databases(name, connection)
    except MedusaError as error:
        yield fail(f"home of {name}", str(error))
        return
    if migrated.state is State.OK:
        try:
            yield _leases(name, url)
        except MedusaError as error:
            yield fail(f"leases of {name}", str(error))


def _migrations(name: str, connection: Connection) -> Finding:
    check = f"migrations of {name}"
    try:
        missing = pending(connection)
    except MedusaError as error:
        return fail(check, str(error))
    if missing.names:
        lacking = ", ".join(missing.names[:3]) + (" and more" if len(missing.names) > 3 else "")
        to_do = f"run `medusa migrate --participant {name}`"
        return fail(check, f"its catalog lacks {lacking}", to_do)
    return ok(check, "it has the tables and functions of this version")


def _clock(name: str, connection: Connection) -> Finding:
    """The database's clock against this machine's, less what the question itself took."""
    check = f"clock of {name}"
    began_s = clock.wall_s()
    database_s = float(connection.execute(query("clock_in_seconds")).scalar_one())
    answered_s = clock.wall_s()
    ahead_ms = (database_s - (began_s + answered_s) / 2) * 1_000
    known_ms = max(abs(ahead_ms) - (answered_s - began_s) * 500, 0)
    return clock_finding(check, ahead_ms, known_ms)


def clock_finding(check: str, ahead_ms: float, known_ms: float) -> Finding:
    """The verdict over a clock: ahead by so much, of which `known_ms` is certain."""
    side = "ahead of" if ahead_ms > 0 else "behind"
    apart = duration(max(round(abs(ahead_ms)), 1) * 1_000)
    if known_ms < SKEW_MS_WARN:
        return ok(check, f"the catalog's clock is within {apart} of this machine's")
    say: Callable[[str, str, str], Finding] = fail if known_ms >= SKEW_MS_FAIL else warn
    return say(
        check,
        f"the catalog's clock is {apart} {side} this machine's",
        "set both by the same time server, since live records are dated here and leases there",
    )


def _listens(name: str, engine: Engine, connection: Connection) -> Finding:
    """Whether what one connection notifies another hears."""
    check = f"LISTEN in {name}"
    token = f"doctor {uuid4().hex}"
    with engine.connect() as other:
        driver = other.connection.driver_connection
        assert isinstance(driver, psycopg2.extensions.connection)
        other.execute(text(f"LISTEN {CHANNEL}"))
        began_s = clock.monotonic_s()
        connection.execute(query("ring"), {"channel": CHANNEL, "token": token})
        left_s = HEARD_S_MAX
        while left_s > 0:
            left_s = began_s + HEARD_S_MAX - clock.monotonic_s()
            select.select([driver], [], [], max(left_s, 0))
            driver.poll()
            # Looked for once more when the time is over: this machine may have stood still.
            if any(heard.payload == token for heard in driver.notifies):
                took_ms = (clock.monotonic_s() - began_s) * 1_000
                return ok(check, f"a NOTIFY on {CHANNEL} was heard after {took_ms:.0f} ms")
            driver.notifies.clear()
    return fail(
        check,
        f"a NOTIFY on {CHANNEL} was not heard within {HEARD_S_MAX:g} s",
        "let MEDUSA_CATALOG_URL name Postgres itself, not a pooler that shares connections",
    )


def _notifications(name: str, connection: Connection) -> Finding:
    check = f"notifications of {name}"
    used = float(connection.execute(query("notifications_used")).scalar_one())
    if used > USED_MAX:
        return fail(check, queue_sentence(used))
    return ok(check, f"{used:.0%} of the server's queue of notifications is in use")


def _shared_databases(name: str, connection: Connection) -> Iterator[Finding]:
    """What logins of a home can enter besides it; an embedded server lets them in nowhere else."""
    check = f"databases of {name}"
    entered = connection.execute(query("shared_databases")).scalars().all()
    if entered:
        yield warn(
            check,
            f"its logins may enter {' and '.join(entered)} of the server, where one session can "
            "keep the notifications of all homes from being removed",
            f"as the administrator: REVOKE CONNECT ON DATABASE {', '.join(entered)} FROM PUBLIC",
        )


def _leases(name: str, url: str) -> Finding:
    """Leases that ended a minute ago or more, of fragments for which there is something to do."""
    check = f"leases of {name}"
    catalog = PostgresCatalog(url, Participant(name))
    try:
        leases = catalog.leases()
        assigned = {(a.fragment, a.partition, a.producer) for a in catalog.assignments()}
        busy = {fragment_of(d) for d in decisions_of(catalog) if not isinstance(d, Wait)}
    finally:
        catalog.close()
    held = sum(record.is_held for record in leases)
    stale = [
        record
        for record in leases
        if record.expires_in_ms <= -STALE_MS
        and record.lease.key.fragment in busy
        and (key := record.lease.key)
        and (key.fragment, key.partition, key.producer) in assigned
    ]
    if not stale:
        return ok(check, f"{held} held, none left behind with work to do")
    since = duration(-max(record.expires_in_ms for record in stale) * 1_000)
    names = ", ".join(dict.fromkeys(record.lease.key.fragment for record in stale))
    return fail(
        check,
        f"nobody has computed {names} for {since} or longer, and there is work",
        f"run `medusa run --participant {name}`",
    )
