"""Two commands make two participants partners; whatever else happens leaves them as they were."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from medusa_core.errors import Conflict, MedusaError, Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.protocol.invitations import read_code, write_code
from pipelines.base.failpoints import JOINING_POINTS, visited_by
from pipelines.contracts.participants import read_participants
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.client.partner_link import PartnerAddress
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.exchange.signed_assertions import NOT_SIGNED
from pipelines.homes.exchange_addresses import read_address
from pipelines.homes.signing_keys import make_key
from pipelines.operations.partner_invitation import (
    AcceptRequest,
    InvitationMade,
    InviteRequest,
    PartnerJoined,
    accept_invitation,
    invite_partner,
)
from pipelines.operations.partner_management import export_partner
from pipelines.participant.home_session import open_session
from tests.partners.offices import Office
from tests.sweeps import long_but

Offices = tuple[Office, Office]


def invited(alpha: Office, partner: str = "beta", **changes: object) -> str:
    """The code with which alpha invites; nobody waits for its use."""
    made: list[InvitationMade] = []
    request = InviteRequest(partner=partner, contracts=alpha.contracts, is_waiting=False)
    invite_partner(alpha.settings, replace(request, **changes), made.append)  # type: ignore[arg-type]
    return made[0].code


def accepted(beta: Office, code: str, **changes: object) -> PartnerJoined:
    request = AcceptRequest(code=code, contracts=beta.contracts)
    return accept_invitation(beta.settings, replace(request, **changes))  # type: ignore[arg-type]


def joined(offices: Offices) -> None:
    alpha, beta = offices
    accepted(beta, invited(alpha))


def is_answered(caller: Office, partner: str) -> bool:
    with open_session(caller.settings, caller.participant) as session:
        try:
            return session.exchange.health(Participant(partner)).participant == partner
        except MedusaError:
            return False


def test_two_commands_make_partners_who_answer_each_other(offices: Offices) -> None:
    alpha, beta = offices
    codes: list[str] = []
    is_invited = threading.Event()
    found: list[PartnerJoined | None] = []

    def note(made: InvitationMade) -> None:
        codes.append(made.code)
        is_invited.set()

    def invite() -> None:
        request = InviteRequest(partner="beta", contracts=alpha.contracts)
        found.append(invite_partner(alpha.settings, request, note))

    waiting = threading.Thread(target=invite)
    waiting.start()
    assert is_invited.wait(60)
    assert alpha.state_of("beta") == "invited"
    assert accepted(beta, codes[0]).is_reached
    waiting.join(60)
    assert found[0] is not None
    assert (alpha.state_of("beta"), beta.state_of("alpha")) == ("partner", "partner")
    for here, there in ((alpha, beta), (beta, alpha)):
        assert is_answered(here, there.participant)
        (file,) = [
            one for one in read_participants(here.contracts)
            if one.participant == there.participant
        ]  # fmt: skip
        assert file.public_key == make_key(there.settings.directory, file.participant).public_key
        assert file.exchange is not None
        assert file.exchange.url is not None
        assert file.exchange.url.startswith("https://localhost:")


@pytest.mark.long
def test_the_list_of_partners_says_who_is_what(offices: Offices) -> None:
    alpha, _ = offices
    assert "alpha has no partners" in alpha.run("partner", "list").stdout
    joined(offices)
    invited(alpha, "gamma")
    printed = alpha.run("partner", "list").stdout
    states = [line.split()[:2] for line in printed.splitlines()[2:]]
    assert states == [["beta", "partner"], ["gamma", "invited"]]
    document = json.loads(alpha.run("partner", "list", "--json").stdout)
    assert [one["state"] for one in document["partners"]] == ["partner", "invited"]
    assert set(document["partners"][0]) >= {"url", "pin", "public_key", "heard_at"}


@pytest.mark.long
def test_a_code_is_read_from_standard_input_and_wrapped_lines_do_not_matter(
    offices: Offices,
) -> None:
    alpha, beta = offices
    code = invited(alpha)
    ended = beta.run("partner", "accept", "-", stdin=f"{code[:70]}\n  {code[70:]}\n")
    assert (ended.returncode, ended.stdout) == (
        0, "joined alpha; its file is contracts/participants/alpha.yaml\n"
    )  # fmt: skip


@pytest.mark.long
def test_one_line_joins_two_participants(offices: Offices) -> None:
    alpha, beta = offices
    invite, accept = (alpha.command("partner", "invite", "beta"),
                      beta.command("partner", "accept", "-"))  # fmt: skip
    with subprocess.Popen(
        invite, env=alpha.environment, cwd=alpha.contracts.parent,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as inviting:  # fmt: skip
        accepted = subprocess.run(
            accept, env=beta.environment, cwd=beta.contracts.parent, stdin=inviting.stdout,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        _, told = inviting.communicate(timeout=120)
    assert (accepted.returncode, inviting.returncode) == (0, 0), (accepted.stderr, told)
    assert "beta has joined; its file is contracts/participants/beta.yaml" in told
    assert (alpha.state_of("beta"), beta.state_of("alpha")) == ("partner", "partner")


@pytest.mark.long
def test_a_text_on_standard_input_that_is_no_code_is_refused(offices: Offices) -> None:
    _, beta = offices
    for text, sentence in (("", "there is no code"), ("x" * 9_000, "this is no invitation")):
        refused = beta.run("partner", "accept", "-", stdin=text)
        assert refused.returncode == 2
        assert sentence in refused.stderr


@pytest.mark.long
def test_the_file_of_a_partner_is_written_later_too_and_keeps_what_it_says(
    offices: Offices,
) -> None:
    alpha, _ = offices
    joined(offices)
    path = alpha.contracts / "participants" / "beta.yaml"
    assert not path.exists()
    path.write_text("# ours\nparticipant: beta\nstorage: elsewhere")
    for _ in range(2):
        assert export_partner(alpha.settings, None, "beta", alpha.contracts).file == path
    lines = path.read_text().splitlines()
    assert lines[:3] == ["# ours", "participant: beta", "storage: elsewhere"]
    assert [line.partition(":")[0] for line in lines[3:]] == ["public_key", "exchange"]
    with pytest.raises(Refused, match="there is no partner 'bet' here: did you mean 'beta'"):
        export_partner(alpha.settings, None, "bet", alpha.contracts)


def altered(**changes: object) -> Callable[[str], str]:
    return lambda code: write_code(replace(read_code(code), **changes))  # type: ignore[arg-type]


REFUSALS: dict[str, tuple[Callable[[str], str], type[MedusaError], str]] = {
    "cut short": (lambda code: code[:-9], Refused, "^the invitation is not whole; copy"),
    "another text": (lambda code: "hello", Refused, "this is no invitation"),
    "for another": (altered(invited=Participant("gamma")), Refused, "is for gamma, not for beta"),
    "another secret": (altered(secret="x" * 32), Refused, "is not for beta, or is over"),
    "another key": (altered(public_key=bytes(32)), Refused, "is not signed with the key"),
    "nobody there": (altered(url="https://localhost:9"), Unavailable, "Connection refused"),
}


@pytest.mark.parametrize("what", long_but(2, REFUSALS))
def test_a_code_that_is_wrong_changes_nothing(offices: Offices, what: str) -> None:
    alter, error, sentence = REFUSALS[what]
    alpha, beta = offices
    code = alter(invited(alpha))
    before = [one.contents() for one in offices]
    with pytest.raises(error, match=sentence) as caught:
        accepted(beta, code)
    assert str(caught.value).isprintable()
    assert [one.contents() for one in offices] == before


def test_the_pin_that_the_inviter_has_signed_counts_more_than_that_of_the_code(
    offices: Offices,
) -> None:
    alpha, beta = offices
    accepted(beta, altered(pin="0" * 64)(invited(alpha)))
    own = read_address(alpha.settings.directory, alpha.participant)
    assert beta.sql("SELECT url, pin FROM medusa_api.partners") == [(own.url, own.pin)]
    assert f"pin: {own.pin}" in (beta.contracts / "participants" / "alpha.yaml").read_text()


def test_an_invitation_counts_in_its_time_and_for_one_key(offices: Offices) -> None:
    alpha, beta = offices
    code = invited(alpha)
    alpha.sql("UPDATE medusa_market.invitation SET invited_at = now() - interval '2 days', "
              "expires_at = now() - interval '1 second'")  # fmt: skip
    with pytest.raises(Refused, match="is over"):
        accepted(beta, code)
    assert alpha.state_of("beta") == "lapsed"
    code = invited(alpha)
    alpha.sql("UPDATE medusa_market.invitation SET public_key = :key", key=bytes(32))
    with pytest.raises(Refused, match="is over"):
        accepted(beta, code)
    assert beta.state_of("alpha") is None
    first = invited(alpha)
    accepted(beta, invited(alpha))
    with pytest.raises(Refused, match="is over"):
        accepted(beta, first)


@pytest.mark.long
def test_who_waits_for_a_partner_to_join_again_waits_no_longer_than_the_invitation_is_open(
    offices: Offices,
) -> None:
    alpha, _ = offices
    joined(offices)
    request = InviteRequest(partner="beta", contracts=alpha.contracts, lifetime_ms=200)
    with pytest.raises(Unavailable, match="beta has not joined again in time: invite it again"):
        invite_partner(alpha.settings, request, lambda made: None)
    assert alpha.state_of("beta") == "partner"


@pytest.mark.long
def test_who_cannot_be_invited_is_refused(offices: Offices, tmp_path: Path) -> None:
    alpha, _ = offices
    before = alpha.contents()
    for partner, sentence in (("alpha", "is the participant of this home"), ("No!", "name")):
        with pytest.raises(Refused, match=sentence):
            invited(alpha, partner)
    with pytest.raises(Refused, match="is open for 31 d at most"):
        invited(alpha, lifetime_ms=32 * 86_400_000)
    with pytest.raises(Refused, match="there is no folder"):
        invited(alpha, contracts=tmp_path / "none")
    assert alpha.contents() == before


def test_a_key_that_is_known_is_replaced_on_purpose_only(offices: Offices) -> None:
    alpha, beta = offices
    other = "ab" * 32
    beta.sql("SELECT medusa_api.learn_key('alpha', :key)", key=other)
    code = invited(alpha)
    with pytest.raises(Conflict, match=r"this home has another key of alpha than .*--new-key"):
        accepted(beta, code)
    alpha.sql("SELECT medusa_api.learn_key('beta', :key)", key=other)
    with pytest.raises(Refused, match="another key of beta is known here"):
        accepted(beta, code, replaces_key=True)
    assert beta.state_of("alpha") == "partner"  # by the key that was declared
    accepted(beta, invited(alpha, replaces_key=True), replaces_key=True)
    assert is_answered(alpha, "beta")
    assert is_answered(beta, "alpha")


@pytest.mark.long
def test_a_file_with_another_key_is_not_overruled(offices: Offices) -> None:
    alpha, beta = offices
    path = beta.contracts / "participants" / "alpha.yaml"
    path.write_text(f"participant: alpha\npublic_key: ed25519:{'A' * 43}=  # by telephone\n")
    code = invited(alpha)
    with pytest.raises(Conflict, match=r"alpha\.yaml has another key of alpha than its invitation"):
        accepted(beta, code)
    assert (alpha.state_of("beta"), beta.state_of("alpha")) == ("invited", None)
    accepted(beta, code, replaces_key=True)
    key = make_key(alpha.settings.directory, alpha.participant).public_key
    (file,) = [one for one in read_participants(beta.contracts) if one.participant == "alpha"]
    assert file.public_key == key
    assert "=  # by telephone\n" in path.read_text()


class Killed(Exception):
    """The process ends here."""


@pytest.mark.parametrize("point", long_but(1, JOINING_POINTS))
def test_halfway_is_not_joined_and_the_same_code_completes_it(offices: Offices, point: str) -> None:
    alpha, beta = offices

    def kill(reached: str) -> None:
        if reached == point:
            raise Killed

    code = invited(alpha)
    with visited_by(kill), pytest.raises(Killed):
        accepted(beta, code)
    assert beta.state_of("alpha") != "partner"
    assert not (beta.contracts / "participants" / "alpha.yaml").exists()
    for one in offices:  # ten minutes later
        one.sql("UPDATE medusa_market.partner SET lapses_at = now() - interval '1 second'")
    assert beta.state_of("alpha") in (None, "lapsed")
    assert not is_answered(beta, "alpha")
    accepted(beta, code)
    assert (alpha.state_of("beta"), beta.state_of("alpha")) == ("partner", "partner")
    assert is_answered(beta, "alpha")


@pytest.mark.long
def test_a_partner_that_has_not_proved_its_key_in_time_receives_no_token(
    offices: Offices,
) -> None:
    alpha, beta = offices
    code = read_code(invited(alpha))
    identity = OwnIdentity(beta.settings.directory, beta.participant)
    address = PartnerAddress(url=code.url, public_key=code.public_key, pin=code.pin)
    with closing(HttpsExchange(beta.participant, lambda _: address, identity)) as exchange:
        exchange.join(alpha.participant, code.secret)
        assert alpha.state_of("beta") == "unconfirmed"
        alpha.sql("UPDATE medusa_market.partner SET lapses_at = now() - interval '1 second'")
        assert alpha.state_of("beta") == "invited"
        with pytest.raises(Refused, match="not signed with the key of a partner"):
            exchange.health(alpha.participant)


@pytest.mark.long
def test_doctor_says_how_a_partner_is_reached(offices: Offices) -> None:
    joined(offices)
    printed = offices[1].run("doctor").stdout
    (line,) = [line for line in printed.splitlines() if "partner alpha of beta" in line]
    assert line.startswith("ok")
    assert "(pinned) answers in" in line
    assert "access token valid until 20" in line
    assert "0 streams granted; may read 0 streams of this home" in line


def finding(office: Office, partner: str) -> dict[str, str]:
    """What the doctor says of a partner."""
    printed = office.run("doctor", "--json")
    name = f"partner {partner} of {office.participant}"
    (found,) = [one for one in json.loads(printed.stdout)["checks"] if one["name"] == name]
    assert printed.returncode == (1 if found["state"] == "fail" else 0)
    return dict(found)


@pytest.mark.long
def test_doctor_is_red_for_a_partner_that_is_away_and_says_what_to_do(offices: Offices) -> None:
    joined(offices)
    _, beta = offices
    beta.sql("UPDATE medusa_market.partner SET url = 'https://127.0.0.1:9'")
    beta.sql("INSERT INTO medusa.stream_grant (stream, partner) VALUES ('sums', 'alpha')")
    found = finding(beta, "alpha")
    beta.sql("DELETE FROM medusa.stream_grant")
    assert found["state"] == "fail"
    assert "partner alpha at https://127.0.0.1:9 is not available" in found["found"]
    assert "may read 1 stream (sums) of this home" in found["found"]
    assert "firewalls let 127.0.0.1 port 9 through" in found["to_do"]


@pytest.mark.long
def test_doctor_is_red_where_no_token_is_issued_and_says_why(offices: Offices) -> None:
    joined(offices)
    alpha, beta = offices
    alpha.sql("SELECT medusa_api.remove_partner('beta')")
    found = finding(beta, "alpha")
    assert found["state"] == "fail"
    assert "its server issues no access token: partner alpha: the assertion" in found["found"]
    assert found["found"].endswith(NOT_SIGNED)
    assert found["found"].startswith("may read 0 streams of this home; its server issues no")
    assert "whether it knows the present key of beta, or has removed it" in found["to_do"]


@pytest.mark.long
def test_a_partner_without_an_address_only_reads_here(offices: Offices) -> None:
    joined(offices)
    _, beta = offices
    beta.sql("UPDATE medusa_market.partner SET url = NULL, pin = NULL")
    found = finding(beta, "alpha")
    assert (found["state"], found["to_do"]) == ("ok", "")
    assert found["found"].startswith("only reads here, its server has no address; may read 0")
