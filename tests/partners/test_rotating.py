"""Keys change while partners work, and nobody notices but in the catalog."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from medusa_core.errors import Conflict, Refused
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.secret_files import secret_file
from pipelines.exchange import signed_introductions
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.exchange.signed_assertions import verified_claims
from pipelines.exchange.signed_introductions import verified_introduction
from pipelines.homes.signing_keys import key_path, make_key
from pipelines.operations.partner_invitation import check_succession
from pipelines.operations.partner_management import rotate_keys
from pipelines.participant.home_session import open_session
from tests.partners.offices import Office
from tests.partners.test_joining import accepted, invited, is_answered, joined

ALPHA, BETA = Participant("alpha"), Participant("beta")


def test_keys_rotate_on_both_sides_while_no_request_fails(offices: tuple[Office, Office]) -> None:
    alpha, beta = offices
    joined(offices)
    is_over = threading.Event()
    answered = [0, 0]
    failures: list[Exception] = []

    def ask(at: int, caller: Office, partner: Participant) -> None:
        with open_session(caller.settings, caller.participant) as session:
            while not is_over.is_set():
                try:
                    session.exchange.health(partner)
                    session.exchange.progress(partner)
                except Exception as error:  # noqa: BLE001 - the test names each
                    failures.append(error)
                answered[at] += 1

    threads = [
        threading.Thread(target=ask, args=arguments)
        for arguments in ((0, alpha, BETA), (1, beta, ALPHA))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            for one, other in ((alpha, BETA), (beta, ALPHA)):
                rotated = rotate_keys(one.settings, None)
                assert (rotated.informed, rotated.uninformed) == ((other,), {})
                asked = list(answered)
                while min(map(int.__sub__, answered, asked)) < 3:
                    threading.Event().wait(0.01)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(60)
    assert failures == []
    for one, other in ((alpha, beta), (beta, alpha)):
        known = one.sql("SELECT public_key FROM medusa_api.partners")
        assert known == [(OwnIdentity(other.settings.directory, other.participant)
                          .public_key().hex(),)]  # fmt: skip


@pytest.mark.long
def test_a_partner_that_was_away_follows_several_rotations(offices: tuple[Office, Office]) -> None:
    alpha, beta = offices
    joined(offices)
    # As if beta's home were a backup from before.
    identity = OwnIdentity(alpha.settings.directory, ALPHA)
    for _ in range(3):
        alpha.sql("SELECT medusa_api.replace_key('alpha', :key)", key=identity.rotate().hex())
    assert is_answered(beta, "alpha")
    assert beta.sql("SELECT public_key FROM medusa_api.partners") == [
        (identity.public_key().hex(),)
    ]
    assert is_answered(alpha, "beta")


def test_a_partner_that_missed_a_rotation_is_invited_again_and_edits_no_file(
    offices: tuple[Office, Office],
) -> None:
    alpha, beta = offices
    joined(offices)
    path = beta.contracts / "participants" / "alpha.yaml"
    before = path.read_text()
    code = invited(alpha)
    for key in ("rotated once", "rotated twice"):
        rotated = OwnIdentity(alpha.settings.directory, ALPHA).rotate()
        alpha.sql("SELECT medusa_api.replace_key('alpha', :key)", key=rotated.hex())
        accepted(beta, code)
        assert beta.sql("SELECT public_key FROM medusa_api.partners") == [(rotated.hex(),)], key
        assert (path.read_text(), is_answered(beta, "alpha")) == (before, True)
        alpha.sql("SELECT medusa_api.remove_partner('beta')")
        code = invited(alpha)


@pytest.mark.long
def test_an_earlier_key_counts_for_a_week_unless_the_owner_replaces_it(
    offices: tuple[Office, Office],
) -> None:
    alpha, beta = offices
    joined(offices)
    before = OwnIdentity(beta.settings.directory, BETA).public_key()
    rotate_keys(beta.settings, None)
    counting = "SELECT medusa_market.is_current_key('beta', :key)"
    assert alpha.sql(counting, key=before) == [(True,)]
    alpha.sql("ALTER TABLE medusa_market.party_key DISABLE TRIGGER USER")
    try:
        alpha.sql(
            "UPDATE medusa_market.party_key SET learned_at = now() - interval '8 days' "
            "WHERE is_succession"
        )
    finally:
        alpha.sql("ALTER TABLE medusa_market.party_key ENABLE TRIGGER USER")
    assert alpha.sql(counting, key=before) == [(False,)]
    assert is_answered(beta, "alpha")
    present = OwnIdentity(beta.settings.directory, BETA).public_key()
    alpha.sql("SELECT medusa_api.replace_key('beta', :key)", key="cd" * 32)
    assert alpha.sql(counting, key=present) == [(False,)]
    assert not is_answered(beta, "alpha")


def test_the_code_of_an_invitation_does_not_bring_back_a_key_that_the_owner_replaced(
    offices: tuple[Office, Office],
) -> None:
    alpha, beta = offices
    code = invited(alpha, replaces_key=True)
    accepted(beta, code)
    alpha.sql("SELECT medusa_api.replace_key('beta', :key)", key="cd" * 32)
    with pytest.raises(Refused, match="is over"):
        accepted(beta, code)
    assert alpha.sql("SELECT public_key FROM medusa_api.partners") == [("cd" * 32,)]


@pytest.mark.long
def test_a_rotation_that_was_interrupted_is_finished_by_the_next(
    offices: tuple[Office, Office],
) -> None:
    alpha, _ = offices
    joined(offices)
    drawn = OwnIdentity(alpha.settings.directory, ALPHA).rotate()  # the catalog does not know it
    assert rotate_keys(alpha.settings, None).public_key == drawn
    assert alpha.sql("SELECT medusa_market.key_of('alpha') = :key", key=drawn) == [(True,)]
    assert rotate_keys(alpha.settings, None).public_key != drawn


@pytest.fixture
def own(tmp_path: Path) -> OwnIdentity:
    make_key(tmp_path, ALPHA)
    return OwnIdentity(tmp_path, ALPHA)


def known_by(first: bytes, own: OwnIdentity) -> bytes:
    """The key that a partner finds that knows the first one."""
    now_ms = int(clock.wall_s() * 1_000)
    return verified_introduction(own.introduction(), ALPHA, [first], now_ms)[1].public_key


def test_an_introduction_leads_from_each_earlier_key_to_the_present_one(own: OwnIdentity) -> None:
    keys = [own.public_key(), *(own.rotate() for _ in range(4))]
    for key in keys:
        assert known_by(key, own) == own.public_key() == keys[-1]
    assert len(own.audiences()) == len(keys)


def test_after_too_many_rotations_an_earlier_key_leads_nowhere(own: OwnIdentity) -> None:
    first = own.public_key()
    for _ in range(17):
        own.rotate()
    with pytest.raises(Refused, match="let one operator invite the other again"):
        known_by(first, own)


def test_a_succession_to_a_key_that_was_never_used_leads_nowhere(
    own: OwnIdentity, tmp_path: Path
) -> None:
    first = own.public_key()
    secret = key_path(tmp_path, ALPHA).read_text()
    own.rotate()
    secret_file(tmp_path, ALPHA, "signing_key").write(secret)  # killed before the key was written
    assert own.public_key() == first == known_by(first, own)
    second = own.rotate()
    assert known_by(first, own) == second


def test_an_introduction_costs_few_signatures_whoever_sends_it(
    own: OwnIdentity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [own.public_key(), *(own.rotate() for _ in range(7))]
    stranger = tmp_path / "stranger"
    make_key(stranger, ALPHA)
    forged = OwnIdentity(stranger, ALPHA)
    for _ in range(16):
        forged.rotate()
    verified: list[bytes] = []

    def verify(token: str, key: bytes, **options: int) -> Mapping[str, object]:
        verified.append(key)
        return verified_claims(token, key, **options)

    monkeypatch.setattr(signed_introductions, "verified_claims", verify)
    now_ms = int(clock.wall_s() * 1_000)
    with pytest.raises(Refused, match="is not signed"):
        verified_introduction(forged.introduction(), ALPHA, known, now_ms)
    assert len(verified) == len(known)
    # One that is true is verified once for each key on the way.
    verified.clear()
    verified_introduction(own.introduction(), ALPHA, known[:1], now_ms)
    assert len(verified) == len(known)


def test_an_invitation_by_a_stranger_is_not_that_of_the_partner_whose_introduction_it_shows(
    own: OwnIdentity, tmp_path: Path
) -> None:
    known = {"this home": own.public_key()}
    check_succession(ALPHA, known, own.rotate(), own.introduction())
    make_key(tmp_path / "stranger", ALPHA)
    stranger = OwnIdentity(tmp_path / "stranger", ALPHA)
    with pytest.raises(Refused, match="is not signed with the key that is known here"):
        check_succession(ALPHA, known, stranger.public_key(), own.introduction())
    with pytest.raises(Conflict, match="this home has another key of alpha than its invitation"):
        check_succession(ALPHA, known, stranger.public_key(), stranger.introduction())


def test_successions_of_others_lead_nowhere(own: OwnIdentity, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    make_key(stranger, ALPHA)
    forged = OwnIdentity(stranger, ALPHA)
    forged.rotate()
    with pytest.raises(Refused, match="is not signed with the key that is known here"):
        known_by(own.public_key(), forged)
    # Its own introduction with the true successions in it.
    first = own.public_key()
    own.rotate()
    true = secret_file(tmp_path, ALPHA, "successions").read(1 << 20)
    secret_file(stranger, ALPHA, "successions").write(true)
    with pytest.raises(Refused, match="is not signed with the key that is known here"):
        known_by(first, forged)
