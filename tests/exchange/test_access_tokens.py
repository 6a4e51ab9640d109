"""A partner receives an access token for what it signed, once; nobody else receives one."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from typing import Any

import jwt
import psycopg2
import psycopg2.errors
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol.assertions import (
    ASSERTION_BYTES_MAX,
    CLOCK_SKEW_S,
    LIFETIME_S_MAX,
    TOKEN_LIFETIME_S,
    audience_of,
    claims_of,
)
from medusa_core.protocol.call_documents import AccessToken
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from pipelines.exchange.server.access_tokens import AccessTokens
from pipelines.exchange.signed_assertions import NOT_SIGNED, sign_claims
from tests.agreements.backups import in_time
from tests.catalog.homes_under_test import watcher_of
from tests.protocol import drawn_documents as drawn
from tests.protocol.test_documents import assert_is_one_sentence
from tests.sweeps import examples, long_but

ALPHA, BETA, GAMMA = map(Participant, ("alpha", "beta", "gamma"))
KEYS = {
    name: Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())
    for name in (ALPHA, BETA, GAMMA)
}
AUDIENCE = audience_of(ALPHA, KEYS[ALPHA].public_key().public_bytes_raw())
TABLES = "TRUNCATE medusa_market.access_token, medusa_market.used_assertion"


@pytest.fixture(scope="module")
def urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    """The home of alpha, which knows the keys of itself and of beta."""
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, ALPHA, "medusa_tokens")
    with closing(login(urls.owner)) as connection, connection.cursor() as cursor:
        for name in (ALPHA, BETA):
            key = KEYS[name].public_key().public_bytes_raw().hex()
            cursor.execute("SELECT medusa_api.learn_key(%s, %s)", (name, key))
    yield urls
    drop_home(admin_url, urls.database)


@pytest.fixture(scope="module")
def watcher(postgres_server: EmbeddedServer, urls: HomeUrls) -> Iterator[Engine]:
    """A superuser on that home."""
    with watcher_of(postgres_server.superuser_url(urls.database)) as engine:
        yield engine


@pytest.fixture(scope="module")
def opened(urls: HomeUrls) -> Iterator[ExchangeHome]:
    """The home, opened by its exchange server."""
    with closing(ExchangeHome(urls.exchange, ALPHA)) as home:
        yield home


@pytest.fixture
def home(opened: ExchangeHome, watcher: Engine) -> ExchangeHome:
    """The same without tokens."""
    run(watcher, TABLES)
    return opened


@pytest.fixture
def tokens(home: ExchangeHome) -> AccessTokens:
    return AccessTokens(home, lambda: frozenset({AUDIENCE}))


def login(url: str) -> psycopg2.extensions.connection:
    connection = psycopg2.connect(url.replace("+psycopg2", ""))
    connection.autocommit = True
    return connection


def run(watcher: Engine, statement: str, **values: object) -> list[Any]:
    with watcher.connect() as connection:
        answer = connection.execute(text(statement), values)
        return list(answer.scalars()) if answer.returns_rows else []


def now_ms(home: ExchangeHome) -> int:
    return home.read_clock_ms()


def an_assertion(home: ExchangeHome, key: Ed25519PrivateKey = KEYS[BETA], **changes: Any) -> str:
    """What beta signs for alpha's server, with some claims changed."""
    claims = dict(claims_of(BETA, AUDIENCE, secrets.token_urlsafe(24), now_ms(home)))
    return sign_claims({**claims, **changes}, key)


def test_a_partner_receives_a_token_for_its_signature(
    home: ExchangeHome, tokens: AccessTokens
) -> None:
    issued = tokens.issue(an_assertion(home))
    assert issued.lifetime_s == TOKEN_LIFETIME_S
    assert tokens.holder(issued.token) == BETA
    assert issued.token not in repr(issued)


def test_every_token_is_another_and_only_its_hash_is_stored(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine
) -> None:
    issued = [tokens.issue(an_assertion(home)).token for _ in range(3)]
    assert len(set(issued)) == 3
    stored = {bytes(it) for it in run(watcher, "SELECT hash FROM medusa_market.access_token")}
    assert stored == {sha256(token.encode()).digest() for token in issued}


@pytest.mark.parametrize(
    "token", ["", "x", "x" * 43, "ä" * 43, "\0" * 43, "' OR true --" + "x" * 31]
)
def test_a_token_that_was_not_issued_counts_for_nobody(tokens: AccessTokens, token: str) -> None:
    assert tokens.holder(token) is None


def test_an_assertion_counts_once(home: ExchangeHome, tokens: AccessTokens) -> None:
    assertion = an_assertion(home)
    tokens.issue(assertion)
    with pytest.raises(Refused, match="beta has used this assertion before: sign another"):
        tokens.issue(assertion)


def unsigned(home: ExchangeHome, algorithm: str) -> str:
    """The claims under a header without a signature."""
    parts = ({"alg": algorithm, "typ": "JWT"}, claims_of(BETA, AUDIENCE, "n" * 32, now_ms(home)))
    words = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join((*words, b"")).decode()


def with_hmac(home: ExchangeHome, secret: bytes) -> str:
    """The claims, signed with a secret that everybody knows: beta's public key."""
    import hmac

    header = {"alg": "HS256", "typ": "JWT"}
    claims = claims_of(BETA, AUDIENCE, "n" * 32, now_ms(home))
    text_ = b".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, claims)
    )
    signature = hmac.new(secret, text_, sha256).digest()
    return (text_ + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def with_own_key_in_the_header(home: ExchangeHome) -> str:
    """A key of the attacker's in the header, for a reader that takes it from there."""
    key = KEYS[GAMMA].public_key().public_bytes_raw()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(key).decode().rstrip("=")}
    claims = dict(claims_of(BETA, AUDIENCE, "n" * 32, now_ms(home)))
    return jwt.encode(claims, KEYS[GAMMA], algorithm="EdDSA", headers={"jwk": jwk, "kid": "../x"})


def with_header(home: ExchangeHome, **changes: Any) -> str:
    """What beta has signed with its key, whatever the header says."""
    header = {"alg": "EdDSA", "typ": "JWT", **changes}
    claims = claims_of(BETA, AUDIENCE, secrets.token_urlsafe(24), now_ms(home))
    words = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({k: v for k, v in header.items() if v != "missing"}, claims)
    )
    text_ = b".".join(words)
    signature = base64.urlsafe_b64encode(KEYS[BETA].sign(text_)).rstrip(b"=")
    return (text_ + b"." + signature).decode()


PUBLIC = KEYS[BETA].public_key()
PEM = PUBLIC.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
FORGED: Mapping[str, Callable[[ExchangeHome], str]] = {
    "algorithm none": lambda home: unsigned(home, "none"),
    "algorithm None": lambda home: unsigned(home, "None"),
    "EdDSA without a signature": lambda home: unsigned(home, "EdDSA"),
    "HS256 with the public key": lambda home: with_hmac(home, PUBLIC.public_bytes_raw()),
    "HS256 with the public key as PEM": lambda home: with_hmac(home, PEM),
    "signed by another": lambda home: an_assertion(home, KEYS[GAMMA]),
    "signed by the server's own key": lambda home: an_assertion(home, KEYS[ALPHA]),
    "the attacker's key in the header": with_own_key_in_the_header,
    "a partner without a known key": lambda home: sign_claims(
        claims_of(GAMMA, AUDIENCE, "n" * 32, now_ms(home)), KEYS[GAMMA]
    ),
    "the home itself": lambda home: sign_claims(
        claims_of(ALPHA, AUDIENCE, "n" * 32, now_ms(home)), KEYS[ALPHA]
    ),
    "an issuer that is no name": lambda home: an_assertion(home, iss="beta'; DROP"),
    "no issuer": lambda home: jwt.api_jws.encode(b"{}", KEYS[BETA], algorithm="EdDSA"),
    "an issuer that is a list": lambda home: jwt.api_jws.encode(
        b'{"iss":["beta"]}', KEYS[BETA], algorithm="EdDSA"
    ),
    "claims that are a list": lambda home: jwt.api_jws.encode(
        b'["beta"]', KEYS[BETA], algorithm="EdDSA"
    ),
    "nothing": lambda home: "",
    "three dots": lambda home: "...",
    "half a surrogate": lambda home: "\ud800.\ud800.\ud800",
    "deeply nested claims": lambda home: jwt.api_jws.encode(
        b"[" * 1_500, KEYS[BETA], algorithm="EdDSA"
    ),
    **{
        f"the header says {name} {value!r}": lambda home, name=name, value=value: with_header(
            home, **{name: value}
        )
        for name, value in (
            ("alg", "none"),
            ("alg", "eddsa"),
            ("alg", "HS256"),
            ("alg", "RS256"),
            ("alg", "ES256K"),
            ("alg", ["EdDSA"]),
            ("alg", None),
            ("alg", "missing"),
            ("alg", 7),
            ("b64", False),
            ("crit", ["exp"]),
            ("crit", ["b64"]),
            ("crit", []),
            ("kid", 7),
        )
    },
    "another signature": lambda home: an_assertion(home)[:-8] + "AAAAAAAA",
    "changed claims": lambda home: _swapped(an_assertion(home), an_assertion(home)),
}


def _swapped(one: str, other: str) -> str:
    """The claims of one assertion under the signature of another."""
    return ".".join((*one.split(".")[:2], other.split(".")[2]))


@pytest.mark.parametrize("case", long_but(10, FORGED, quick=True))
def test_what_no_partner_signed_is_refused_by_one_sentence(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine, case: str
) -> None:
    with pytest.raises(Refused) as caught:
        tokens.issue(FORGED[case](home))
    assert str(caught.value) == NOT_SIGNED
    assert run(watcher, "SELECT count(*) FROM medusa_market.used_assertion") == [0]


WRONG_CLAIMS: Mapping[str, tuple[Callable[[int], Mapping[str, Any]], str]] = {
    "another server": (
        lambda now: {"aud": audience_of(GAMMA, KEYS[ALPHA].public_key().public_bytes_raw())},
        "meant for another server",
    ),
    "another key of this server": (
        lambda now: {"aud": audience_of(ALPHA, bytes(32))},
        "another key of this one",
    ),
    "several audiences": (lambda now: {"aud": [AUDIENCE, "x"]}, "aud is"),
    "no audience": (lambda now: {"aud": ""}, "aud is empty, not one audience"),
    "expired": (
        lambda now: {"iat": now - 120 - CLOCK_SKEW_S - 2, "exp": now - CLOCK_SKEW_S - 2},
        "it expired 6",
    ),
    "of the future": (
        lambda now: {"iat": now + CLOCK_SKEW_S + 300, "exp": now + CLOCK_SKEW_S + 390},
        "in the future: set the clocks",
    ),
    "valid for too long": (lambda now: {"exp": now + LIFETIME_S_MAX + 60}, "more than 600 s"),
    "expired before it was issued": (lambda now: {"exp": now - 1}, "or for no time"),
    "issued for another": (lambda now: {"sub": "gamma"}, "beta issues it for gamma"),
    "a short nonce": (lambda now: {"jti": "1"}, "jti is '1', not a nonce"),
    "a nonce that is a number": (lambda now: {"jti": 7}, "jti is 7, not text"),
    "a time that is text": (lambda now: {"exp": "never"}, "exp is 'never', not an integer"),
    "a time that is a double": (lambda now: {"exp": now + 0.5}, "not an integer"),
    "an endless time": (lambda now: {"exp": 2**62}, "exp is"),
}


@pytest.mark.parametrize("case", long_but(5, WRONG_CLAIMS, quick=True))
def test_signed_claims_that_do_not_count_are_refused(
    home: ExchangeHome, tokens: AccessTokens, case: str
) -> None:
    changes, sentence = WRONG_CLAIMS[case]
    now_s = now_ms(home) // 1_000
    claims = {**claims_of(BETA, AUDIENCE, "n" * 32, now_s * 1_000), **changes(now_s)}
    assertion = jwt.api_jws.encode(json.dumps(claims).encode(), KEYS[BETA], algorithm="EdDSA")
    with pytest.raises(Refused) as caught:
        tokens.issue(assertion)
    assert sentence in str(caught.value)


def test_a_claim_that_is_missing_is_named(home: ExchangeHome, tokens: AccessTokens) -> None:
    claims = dict(claims_of(BETA, AUDIENCE, "n" * 32, now_ms(home)))
    for name in claims.keys() - {"iss"}:
        fewer = {key: value for key, value in claims.items() if key != name}
        with pytest.raises(Refused, match=f"not valid: {name} is missing; sign another"):
            tokens.issue(sign_claims(fewer, KEYS[BETA]))


@pytest.mark.parametrize("off_s", [-(CLOCK_SKEW_S - 30), CLOCK_SKEW_S - 30])
def test_clocks_may_differ_by_the_tolerance(
    home: ExchangeHome, tokens: AccessTokens, off_s: int
) -> None:
    claims = claims_of(BETA, AUDIENCE, "n" * 32, now_ms(home) + off_s * 1_000)
    assertion = sign_claims(claims, KEYS[BETA])
    tokens.issue(assertion)
    with pytest.raises(Refused, match="has used this assertion before"):
        tokens.issue(assertion)


def test_an_assertion_is_remembered_for_as_long_as_it_could_be_accepted(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine
) -> None:
    claims = claims_of(BETA, AUDIENCE, "n" * 32, now_ms(home))
    tokens.issue(sign_claims(claims, KEYS[BETA]))
    (until_s,) = run(
        watcher, "SELECT extract(epoch FROM expires_at) FROM medusa_market.used_assertion"
    )
    assert claims["exp"] + CLOCK_SKEW_S <= float(until_s) < claims["exp"] + CLOCK_SKEW_S + 30


@pytest.mark.parametrize(
    "header",
    [{"jku": "http://127.0.0.1:1/"}, {"x5u": "file:///etc/passwd"}, {"x5c": ["AAAA"]},
     {"kid": "../../etc/passwd"}, {"zip": "DEF"}, {"cty": "JWT"}, {"typ": "x" * 900}],
    ids=lambda header: next(iter(header)),
)  # fmt: skip
def test_what_a_header_says_of_keys_and_contents_decides_nothing(
    home: ExchangeHome, tokens: AccessTokens, header: dict[str, Any]
) -> None:
    assert tokens.holder(tokens.issue(with_header(home, **header)).token) == BETA


@pytest.mark.parametrize(("first", "last"), [(GAMMA, BETA), (BETA, GAMMA), (ALPHA, BETA)])
def test_claims_that_are_named_twice_are_nobodys_but_the_signers(
    home: ExchangeHome, tokens: AccessTokens, first: Participant, last: Participant
) -> None:
    content = json.dumps(claims_of(last, AUDIENCE, "n" * 32, now_ms(home)))
    twice = f'{{"iss":"{first}","sub":"{first}",{content[1:]}'.encode()
    assertion = jwt.api_jws.encode(twice, KEYS[BETA], algorithm="EdDSA")
    if last == BETA:
        assert tokens.holder(tokens.issue(assertion).token) == BETA
        return
    with pytest.raises(Refused) as caught:
        tokens.issue(assertion)
    assert str(caught.value) == NOT_SIGNED


@pytest.mark.sweep
def test_altered_claims_are_refused_or_the_signers(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine
) -> None:
    @settings(max_examples=examples(10, 600), deadline=None, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonce = secrets.token_urlsafe(24)
        claims = json.dumps(claims_of(BETA, AUDIENCE, nonce, now_ms(home))).encode()
        altered = data.draw(drawn.altered(claims))
        try:
            issued = tokens.issue(jwt.api_jws.encode(altered, KEYS[BETA], algorithm="EdDSA"))
        except Refused as refused:
            assert_is_one_sentence(refused)
            return
        assert tokens.holder(issued.token) == BETA

    check()
    holders = run(watcher, "SELECT DISTINCT partner FROM medusa_market.access_token")
    assert set(holders) <= {BETA}


def test_of_many_at_once_with_one_assertion_one_receives_a_token(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine
) -> None:
    assertion = an_assertion(home)
    with ThreadPoolExecutor(8) as threads:
        tries = [threads.submit(tokens.issue, assertion) for _ in range(16)]
        refused = [error for one in tries if (error := one.exception(60)) is not None]
    assert [str(error) for error in refused] == [
        "beta has used this assertion before: sign another"
    ] * 15
    assert run(watcher, "SELECT count(*) FROM medusa_market.access_token") == [1]


def test_a_nonce_of_one_partner_is_not_used_up_by_another(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine
) -> None:
    run(
        watcher,
        "INSERT INTO medusa_market.used_assertion (partner, nonce, expires_at) "
        "VALUES ('gamma', :nonce, clock_timestamp() + interval '5 min')",
        nonce="n" * 32,
    )
    assert tokens.holder(tokens.issue(an_assertion(home, jti="n" * 32)).token) == BETA


def test_a_long_assertion_is_refused_before_it_is_read(tokens: AccessTokens) -> None:
    with pytest.raises(Refused, match="5000 characters: sign a shorter one"):
        tokens.issue("x" * 5_000)
    assert ASSERTION_BYTES_MAX < 5_000


def test_a_token_ends_with_its_time(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine
) -> None:
    token = tokens.issue(an_assertion(home)).token
    run(
        watcher,
        "UPDATE medusa_market.access_token SET issued_at = issued_at - interval '30 min', "
        "expires_at = clock_timestamp()",
    )
    assert tokens.holder(token) is None


def test_a_token_that_the_owner_revokes_ends_at_once(
    home: ExchangeHome, tokens: AccessTokens, urls: HomeUrls
) -> None:
    issued = [tokens.issue(an_assertion(home)) for _ in range(2)]
    with closing(login(urls.owner)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT medusa_api.revoke_tokens('beta')")
        assert cursor.fetchall() == [(2,)]
    assert [tokens.holder(it.token) for it in issued] == [None, None]


def test_a_token_ends_when_its_partner_has_another_key(
    home: ExchangeHome, tokens: AccessTokens, urls: HomeUrls
) -> None:
    token = tokens.issue(an_assertion(home)).token
    keys = [KEYS[name].public_key().public_bytes_raw().hex() for name in (GAMMA, BETA)]
    with closing(login(urls.owner)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT medusa_api.replace_key('beta', %s)", keys[:1])
        assert tokens.holder(token) is None
        with pytest.raises(Refused) as caught:
            tokens.issue(an_assertion(home))
        assert str(caught.value) == NOT_SIGNED
        cursor.execute("SELECT medusa_api.replace_key('beta', %s)", keys[1:])
    assert tokens.holder(token) == BETA


def test_nothing_counts_that_a_disowned_key_signs(
    home: ExchangeHome, tokens: AccessTokens, urls: HomeUrls, watcher: Engine
) -> None:
    token = tokens.issue(an_assertion(home)).token
    key = KEYS[BETA].public_key().public_bytes_raw()
    with closing(login(urls.owner)) as connection, connection.cursor() as cursor:
        # The key that counts for beta is not disowned as beta's, but a disowned key is nobody's.
        cursor.execute("SELECT medusa_api.disown_key('gamma', %s)", (key.hex(),))
    try:
        assert home.partner_keys(BETA) == ()
        assert tokens.holder(token) is None
        with pytest.raises(Refused) as caught:
            tokens.issue(an_assertion(home))
        assert str(caught.value) == NOT_SIGNED
    finally:
        in_time(watcher, "DELETE FROM medusa_market.key_disowned")
    assert home.partner_keys(BETA) == (key,)


def issued(home: ExchangeHome, **changes: Any) -> bool:
    """A token for beta by a direct call, with some arguments changed."""
    arguments: dict[str, Any] = {
        "public_key": KEYS[BETA].public_key().public_bytes_raw(),
        "nonce": secrets.token_urlsafe(24),
        "keep_ms": 1_000,
        "token_hash": secrets.token_bytes(32),
        "lifetime_ms": 1_000,
    }
    partner = changes.pop("partner", BETA)
    return home.issue_token(partner, **{**arguments, **changes})


HOUR_MS = 3_600_000
OWN_KEY = KEYS[ALPHA].public_key().public_bytes_raw()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lifetime_ms": 0}, "lasts for 1 ms to 1 h"),
        ({"lifetime_ms": HOUR_MS + 1}, "lasts for 1 ms to 1 h"),
        ({"lifetime_ms": None}, "lasts for 1 ms to 1 h"),
        ({"keep_ms": 0}, "lasts for 1 ms to 1 h"),
        ({"keep_ms": HOUR_MS + 1}, "lasts for 1 ms to 1 h"),
        ({"keep_ms": None}, "lasts for 1 ms to 1 h"),
        ({"partner": "Beta; --"}, "Beta; --"),
        ({"partner": ALPHA, "public_key": OWN_KEY}, "alpha needs no token of its own home"),
        ({"public_key": OWN_KEY}, "not the one that counts for beta"),
        ({"public_key": None}, "not the one that counts for beta"),
        ({"partner": GAMMA}, "not the one that counts for gamma"),
    ],
)
def test_the_home_itself_refuses_a_token_that_no_server_should_request(
    home: ExchangeHome, watcher: Engine, changes: dict[str, Any], sentence: str
) -> None:
    """By medusa_market.issue_token."""
    with pytest.raises(Refused, match=sentence):
        issued(home, **changes)
    assert run(watcher, "SELECT count(*) FROM medusa_market.access_token") == [0]


def test_a_token_lasts_from_a_millisecond_to_an_hour(home: ExchangeHome, watcher: Engine) -> None:
    for length_ms in (1, HOUR_MS):
        assert issued(home, lifetime_ms=length_ms, keep_ms=length_ms)
    for table in ("access_token", "used_assertion"):
        left_ms = run(watcher, "SELECT extract(epoch FROM expires_at - clock_timestamp()) * 1000 "
                      f"FROM medusa_market.{table} ORDER BY expires_at DESC LIMIT 1")  # fmt: skip
        assert HOUR_MS - 60_000 < left_ms[0] <= HOUR_MS, table


def test_what_is_over_is_removed_by_its_own_partners_next_request(
    home: ExchangeHome, watcher: Engine
) -> None:
    """Of beta a token that is over and one that is not; of gamma one that is over."""
    for partner, over in ((BETA, True), (BETA, False), (GAMMA, True)):
        moved = "interval '-1 minute'" if over else "interval '1 minute'"
        run(watcher, "INSERT INTO medusa_market.used_assertion (partner, nonce, expires_at) "
            f"VALUES (:partner, :nonce, clock_timestamp() + {moved})",
            partner=partner, nonce=f"{partner}-{over}-{'x' * 16}")  # fmt: skip
        run(watcher, "INSERT INTO medusa_market.access_token (hash, partner, public_key, "
            "issued_at, expires_at) VALUES (:hash, :partner, :key, "
            f"clock_timestamp() + {moved} - interval '30 minutes', clock_timestamp() + {moved})",
            hash=secrets.token_bytes(32), partner=partner,
            key=KEYS[partner].public_key().public_bytes_raw())  # fmt: skip
    assert issued(home)
    for table in ("access_token", "used_assertion"):
        counts = f"SELECT count(*) FROM medusa_market.{table} WHERE partner = :partner"
        assert run(watcher, counts, partner=BETA) == [2], table
        assert run(watcher, counts, partner=GAMMA) == [1], table


@pytest.mark.long(quick=True)
def test_a_partner_has_64_tokens_and_the_oldest_ends_first(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine
) -> None:
    of_another = secrets.token_bytes(32)
    run(watcher, "INSERT INTO medusa_market.access_token (hash, partner, public_key, expires_at) "
        "VALUES (:hash, 'gamma', :key, clock_timestamp() + interval '1 minute')",
        hash=of_another, key=KEYS[GAMMA].public_key().public_bytes_raw())  # fmt: skip
    issued: list[AccessToken] = [tokens.issue(an_assertion(home)) for _ in range(66)]
    assert [tokens.holder(it.token) for it in issued[:3]] == [None, None, BETA]
    assert tokens.holder(issued[-1].token) == BETA
    counts = "SELECT count(*) FROM medusa_market.access_token WHERE partner = :partner"
    assert [run(watcher, counts, partner=name) for name in (BETA, GAMMA)] == [[64], [1]]


def test_a_partner_that_requests_too_many_tokens_must_wait(
    home: ExchangeHome, tokens: AccessTokens, watcher: Engine
) -> None:
    fill = (
        "INSERT INTO medusa_market.used_assertion SELECT :partner, 'nonce ' || n, "
        "clock_timestamp() + :lasts * interval '1 min' FROM generate_series(1, 1000) AS n"
    )
    run(watcher, fill, partner="gamma", lasts=5)
    tokens.issue(an_assertion(home))
    run(watcher, TABLES)
    run(watcher, fill, partner="beta", lasts=5)
    run(watcher, "DELETE FROM medusa_market.used_assertion WHERE nonce = 'nonce 1'")
    tokens.issue(an_assertion(home))
    with pytest.raises(Unavailable, match="beta has requested too many tokens"):
        tokens.issue(an_assertion(home))
    run(watcher, "UPDATE medusa_market.used_assertion SET expires_at = clock_timestamp()")
    assert tokens.holder(tokens.issue(an_assertion(home)).token) == BETA


DENIED = (
    "SELECT * FROM medusa_market.access_token",
    "INSERT INTO medusa_market.access_token DEFAULT VALUES",
    "SELECT * FROM medusa_market.used_assertion",
    "DELETE FROM medusa_market.used_assertion",
    "SELECT * FROM medusa_market.party_key",
    "SELECT medusa_api.learn_key('gamma', '00')",
    "SELECT medusa_api.revoke_tokens('beta')",
    "SELECT medusa_api.grant_stream('sums', 'beta')",
    "SELECT * FROM medusa.stream_grant",
    "SELECT medusa.line_news('sums', 'alpha', 0, 0, 1)",
    "SELECT medusa.acknowledge('sums', 'beta', 0, 1, 0)",
    "SELECT medusa_market.take_envelopes('[]')",
    "SELECT * FROM medusa.segment",
    "SELECT * FROM medusa.file",
    "SELECT * FROM medusa.stream",
    "SELECT medusa.commit_step('{}')",
    "SELECT medusa.recall('{}')",
    "SELECT * FROM medusa_market.inbox",
    "CREATE TABLE medusa.mine (n integer)",
    "CREATE TEMP TABLE mine (n integer)",
)


@pytest.mark.parametrize("statement", long_but(6, DENIED, quick=True))
def test_the_exchange_server_may_do_nothing_but_its_calls(urls: HomeUrls, statement: str) -> None:
    with (
        closing(login(urls.exchange)) as connection,
        connection.cursor() as cursor,
        pytest.raises(psycopg2.errors.InsufficientPrivilege),
    ):
        cursor.execute(statement)


@pytest.mark.parametrize("role", ["analyst", "airflow", "job"])
def test_no_other_role_issues_a_token_or_looks_one_up(urls: HomeUrls, role: str) -> None:
    calls = (
        "issue_token('beta', '\\x00', 'n', 1, '\\x00', 1)",
        "token_holder('\\x00')",
        "partner_keys('beta')",
    )
    with closing(login(getattr(urls, role))) as connection, connection.cursor() as cursor:
        for call in calls:
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(f"SELECT medusa_market.{call}")


def test_the_owner_cannot_forge_a_token(urls: HomeUrls) -> None:
    with closing(login(urls.owner)) as connection, connection.cursor() as cursor:
        for statement in (
            "SELECT medusa_market.issue_token('beta', '\\x00', 'n', 1, '\\x00', 1)",
            "INSERT INTO medusa_market.access_token DEFAULT VALUES",
        ):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(statement)
