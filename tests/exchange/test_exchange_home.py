"""A partner sees the streams that are granted to it; nothing else is there for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256

import psycopg2
import psycopg2.errors
import pytest

from medusa_core.errors import Diverged, Refused
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol.call_documents import (
    Acknowledgement,
    OfferedStream,
    read_offers,
    write_offers,
)
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from tests.catalog import building as a
from tests.sweeps import long_but

BETA, GAMMA = Participant("beta"), Participant("gamma")
START, ALL = Version(0), 1_000


def hash_of(name: str) -> str:
    return sha256(name.encode()).hexdigest()


HASHES = {stream: hash_of(f"rows of {stream}") for stream in (a.SUMS, a.BIG)}
LANDED = hash_of("landed records")


@pytest.fixture(scope="module")
def urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    """The home of alpha: rows of `sums` and `big`, and a landed file of `src`."""
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, a.ALPHA, "medusa_published")
    with closing(PostgresCatalog(urls.job, a.ALPHA)) as catalog:
        catalog.deploy(a.a_deployment())
        for fragment, stream in ((a.MAIN, a.SUMS), (a.TAIL, a.BIG)):
            catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
            file = a.a_file(2, f"{stream}.parquet", HASHES[stream])
            segments = (a.a_segment(0, 1, stream=stream, rows={0: 2}, file=file),)
            catalog.commit(a.a_commit(*segments, lease=a.a_lease(fragment)))
    with closing(login(urls.owner)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO medusa.file (stream, path, size_bytes, sha256, rows) "
            "VALUES ('sums', 'landed.parquet', 10, %s, 2)",
            (LANDED,),
        )
    yield urls
    drop_home(admin_url, urls.database)


@pytest.fixture(scope="module")
def home(urls: HomeUrls) -> Iterator[ExchangeHome]:
    """The home, opened by its exchange server."""
    with closing(ExchangeHome(urls.exchange, a.ALPHA)) as home:
        yield home


@pytest.fixture
def granted(urls: HomeUrls, home: ExchangeHome) -> Iterator[ExchangeHome]:
    """The same while beta may read `sums`, and gamma `big`."""
    owner(urls, "SELECT medusa_api.grant_stream('sums', 'beta')")
    owner(urls, "SELECT medusa_api.grant_stream('big', 'gamma')")
    yield home
    owner(urls, "SELECT medusa_api.withdraw_stream('sums', 'beta')")
    owner(urls, "SELECT medusa_api.withdraw_stream('big', 'gamma')")


def login(url: str) -> psycopg2.extensions.connection:
    connection = psycopg2.connect(url.replace("+psycopg2", ""))
    connection.autocommit = True
    return connection


def owner(urls: HomeUrls, statement: str) -> object:
    """The first value of what a statement of the owner answers with."""
    with closing(login(urls.owner)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
        return row[0] if row else None


def test_a_partner_reads_the_news_that_this_home_has(granted: ExchangeHome, urls: HomeUrls) -> None:
    with closing(PostgresCatalog(urls.job, a.ALPHA)) as catalog:
        expected = catalog.line_news(a.SUMS, a.ME, START, segments_max=ALL)
    found = granted.published_news(BETA, a.SUMS, 0, START, segments_max=ALL)
    assert found is not None
    assert [p.segment.buckets for p in found.segments] == [
        p.segment.buckets for p in expected.segments
    ]
    assert found.key == expected.key
    assert found.plans == expected.plans


def test_a_partner_finds_a_file_by_its_hash(granted: ExchangeHome) -> None:
    found = granted.published_file(BETA, HASHES[a.SUMS])
    assert found == a.a_file(2, "sums.parquet", HASHES[a.SUMS])
    assert granted.published_files(BETA, [HASHES[a.SUMS]]) == (found,)
    with pytest.raises(Refused, match="65 files cannot be sent together"):
        granted.published_files(BETA, [HASHES[a.SUMS]] * 65)


@pytest.mark.parametrize(
    "partner",
    long_but(3, ["beta", "beta' OR true --", "stranger", "gamma", "alpha", ""], quick=True),
)
@pytest.mark.parametrize("stream", ["sums", "big", "src", "none", "su%", ""])
def test_what_is_not_granted_is_not_there(granted: ExchangeHome, partner: str, stream: str) -> None:
    may = (partner, stream) in {("beta", "sums"), ("gamma", "big")}
    who, name = Participant(partner), StreamName(stream)
    news = granted.published_news(who, name, 0, START, segments_max=ALL)
    assert (news is not None) == may
    wide = Acknowledgement(
        stream=name, replica=0, version=Version(0), through_us=0, limit_ms=1, path_ms=0
    )
    assert granted.acknowledge(who, wide) == may
    if name in HASHES:
        assert (granted.published_file(who, HASHES[name]) is not None) == may
        assert len(granted.published_files(who, ["", HASHES[name]])) == may


def test_a_file_of_no_segment_and_a_hash_of_no_file_are_not_there(granted: ExchangeHome) -> None:
    """A landed file may hold records of several streams, of which one is granted."""
    for digest in (LANDED, hash_of("other"), "", HASHES[a.SUMS].upper(), "%"):
        assert granted.published_file(BETA, digest) is None
        assert granted.published_files(BETA, [digest]) == ()


@pytest.mark.parametrize("replica", long_but(1, [-1, 1, 2**31 - 1], quick=True))
def test_a_line_that_this_home_does_not_compute_is_not_there(
    granted: ExchangeHome, replica: int
) -> None:
    assert granted.published_news(BETA, a.SUMS, replica, START, segments_max=ALL) is None


def test_each_partner_is_offered_its_own_streams(granted: ExchangeHome) -> None:
    sums = OfferedStream(
        name=a.SUMS,
        kind="derived",
        width_us=a.WIDTH_US,
        columns=a.a_stream(a.SUMS).columns,
        key=(),
        replicas=(0,),
        lineage=(("alpha/src", "alpha/sums"),),
    )
    assert granted.published_streams(BETA) == (sums,)
    assert [one.name for one in granted.published_streams(GAMMA)] == [a.BIG]
    assert granted.published_streams(Participant("stranger")) == ()
    assert read_offers(write_offers(a.ALPHA, (sums,))) == (a.ALPHA, (sums,))


def test_a_stream_is_not_there_after_its_grant_has_ended_nor_does_it_hold_rows(
    granted: ExchangeHome, urls: HomeUrls
) -> None:
    acknowledgement = Acknowledgement(
        stream=a.SUMS, replica=0, version=Version(0), through_us=0, limit_ms=1_000, path_ms=0
    )
    assert granted.acknowledge(BETA, acknowledgement)
    holds = "SELECT count(*) FROM medusa.hold WHERE holder = 'beta'"
    assert owner(urls, holds) == 1
    assert owner(urls, "SELECT medusa_api.withdraw_stream('sums', 'beta')") is True
    assert owner(urls, "SELECT medusa_api.withdraw_stream('sums', 'beta')") is False
    assert granted.published_news(BETA, a.SUMS, 0, START, segments_max=ALL) is None
    assert granted.published_file(BETA, HASHES[a.SUMS]) is None
    assert granted.published_streams(BETA) == ()
    assert not granted.acknowledge(BETA, acknowledgement)
    assert owner(urls, holds) == 0


def test_a_grant_is_made_once_of_a_stream_that_is_here_to_another_participant(
    granted: ExchangeHome, urls: HomeUrls
) -> None:
    assert owner(urls, "SELECT medusa_api.grant_stream('sums', 'beta')") is False
    for arguments, sentence in (
        ("'none', 'beta'", "stream 'none' is not deployed here"),
        ("'sums', 'alpha'", "alpha reads its own streams without a grant"),
        ("'sums', 'no name'", "is not a name"),
        ("NULL, 'beta'", "stream NULL is not deployed here"),
        ("'sums', NULL", "NULL is not a name"),
    ):
        with pytest.raises(psycopg2.Error, match=sentence):
            owner(urls, f"SELECT medusa_api.grant_stream({arguments})")


def test_a_partner_that_was_removed_is_granted_nothing_until_it_has_joined_again(
    granted: ExchangeHome, urls: HomeUrls
) -> None:
    join = (
        f"SELECT medusa_api.add_partner('gamma', '{'ab' * 32}', 'https://localhost:9', NULL, "
        "false, true) IS NULL"
    )
    declare = "SELECT medusa_api.declare_readers('big', 'readers', '{gamma}')"
    owner(urls, join)
    assert owner(urls, "SELECT medusa_api.remove_partner('gamma')") is True
    assert owner(urls, declare) is False
    with pytest.raises(psycopg2.Error, match="gamma was removed from this home: invite it again"):
        owner(urls, "SELECT medusa_api.grant_stream('big', 'gamma')")
    assert granted.published_streams(GAMMA) == ()
    owner(urls, join)
    assert owner(urls, declare) is True
    assert [one.name for one in granted.published_streams(GAMMA)] == [a.BIG]


def test_a_request_beyond_all_range_is_refused(granted: ExchangeHome) -> None:
    for after, most in ((-1, ALL), (0, 0), (0, 10_001), (0, -5)):
        with pytest.raises(Refused, match="cannot be sent: request a version from 0 on"):
            granted.published_news(BETA, a.SUMS, 0, Version(after), segments_max=most)
    with pytest.raises(Diverged, match="its home was set back"):
        granted.published_news(BETA, a.SUMS, 0, Version(99), segments_max=ALL)


def an_envelope(sender: Participant) -> Envelope:
    return Envelope(
        kind=EnvelopeKind.STATUS,
        sender=sender,
        receiver=a.ALPHA,
        nonce="ab" * 16,
        sent_at_ms=1,
        expires_at_ms=2,
        body=b"{}",
        signature=bytes(64),
    )


def test_a_partner_delivers_its_own_envelopes_alone(home: ExchangeHome, urls: HomeUrls) -> None:
    owner(urls, f"SELECT medusa_api.learn_key('beta', '{'ab' * 32}')")
    assert home.deliver(BETA, [an_envelope(BETA)]) == ("taken",)
    with pytest.raises(Refused, match="gamma delivers an envelope of another sender"):
        home.deliver(GAMMA, [an_envelope(GAMMA), an_envelope(BETA)])


@pytest.mark.parametrize("role", ["analyst", "airflow", "job", "owner"])
def test_no_other_role_calls_in_the_name_of_a_partner(urls: HomeUrls, role: str) -> None:
    calls = (
        "medusa.published_streams('beta')",
        "medusa.published_progress('beta')",
        "medusa.published_file('beta', '')",
        "medusa.published_files('beta', '{}')",
        "medusa.published_news('beta', 'sums', 0, 0, 1)",
        "medusa.acknowledge_as('beta', 'sums', 0, 1, 0)",
        "medusa_market.deliver_envelopes('beta', '[]')",
    )
    with closing(login(getattr(urls, role))) as connection, connection.cursor() as cursor:
        for call in calls:
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(f"SELECT {call}")
