"""Guards of the functions about contracts that the program's checks stand before."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError

from medusa_core.errors import Conflict, MedusaError, Refused
from medusa_core.market.documents import document_of, revision_of
from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.market.terms import ContractName, Terms
from tests.agreements.backups import in_time
from tests.agreements.building import (
    ALPHA,
    BETA,
    DAY_MS,
    GAMMA,
    INSERT,
    RAISE_PRICE,
    Party,
    SqlRefused,
    a_content,
    a_key,
    a_movement,
    a_suggestion,
    agree,
    some_terms,
)
from tests.agreements.homes import Watchers
from tests.agreements.test_envelopes import an_envelope, put
from tests.sweeps import long_but
from tests.waiting import until

TAKE = "SELECT medusa_market.take_document(%s, %s, %s::jsonb, %s, %s, %s, %s::jsonb)"
KEY = "a" * 64
SIGNED = {"signature": "00" * 64, "public_key": "00" * 32}
BOTH_SIGNED = json.dumps({"payer": SIGNED, "provider": SIGNED})


def refused(party: Party, statement: str, *values: Any, role: str = "job") -> MedusaError:
    with pytest.raises(SqlRefused) as error:
        party.sql(statement, *values, role=role)
    ours = error.value.ours
    assert ours is not None, error.value
    return ours


def now_ms(party: Party) -> int:
    ((found,),) = party.sql("SELECT medusa.to_ms(clock_timestamp())", role="job")
    return int(found)


def received(sender: Party, receiver: Party) -> int:
    """The number of an envelope that waits in the inbox of beta."""
    envelope = an_envelope(sender, sender=sender.name, key=a_key(sender.name))
    assert put(sender, receiver, envelope) == ("taken",)
    ((envelope_id,),) = receiver.sql(
        "SELECT max(envelope_id) FROM medusa_market.inbox WHERE state = 'received'", role="job"
    )
    return int(envelope_id)


def held_of(party: Party, document: bytes, envelope_id: int) -> str:
    ((held,),) = party.sql(
        "SELECT medusa_market.held_agreement(%s, %s)::text", document, envelope_id, role="job"
    )
    return str(held)


def take_signed(sender: Party, receiver: Party, terms: Terms, verdict: str) -> str:
    """What becomes of an agreement with both signatures, under this verdict."""
    envelope_id, document = received(sender, receiver), document_of(terms)
    held = held_of(receiver, document, envelope_id)
    ((outcome,),) = receiver.sql(TAKE, envelope_id, document, BOTH_SIGNED, None, None, verdict,
                                 held, role="job")  # fmt: skip
    return str(outcome)


def take_proposal(sender: Party, receiver: Party, terms: Terms) -> str:
    """What becomes of a proposal without a signature, which lasts for a day."""
    expires_ms = now_ms(receiver) + DAY_MS
    ((outcome,),) = receiver.sql(TAKE, received(sender, receiver), document_of(terms), "{}", 1,
                                 expires_ms, None, None, role="job")  # fmt: skip
    return str(outcome)


def test_a_proposal_has_a_number_and_lasts_for_a_month_at_most(alpha: Party, beta: Party) -> None:
    document = document_of(some_terms())
    for proposal, lasts_ms, reason in (
        (None, DAY_MS, "has a number"),
        (1, 33 * DAY_MS, "lasts up to 31 days"),
        (1, None, "lasts up to 31 days"),
    ):
        expires_ms = None if lasts_ms is None else now_ms(beta) + lasts_ms
        error = refused(beta, TAKE, received(alpha, beta), document, "{}", proposal, expires_ms,
                        None, None)  # fmt: skip
        assert isinstance(error, Refused)
        assert reason in str(error)
    assert beta.proposals() == []


def test_a_proposal_that_expired_on_its_way_is_ignored(alpha: Party, beta: Party) -> None:
    document, past_ms = document_of(some_terms()), now_ms(beta) - 1
    ((output,),) = beta.sql(TAKE, received(alpha, beta), document, "{}", 1, past_ms, None, None,
                          role="job")  # fmt: skip
    assert output == "expired on the way"
    assert beta.proposals() == []


def test_an_agreement_is_taken_with_the_verdict_over_what_is_held_now(
    alpha: Party, beta: Party
) -> None:
    document = document_of(some_terms())
    stale = refused(beta, TAKE, received(alpha, beta), document, BOTH_SIGNED, None, None, "agree",
                    "{}")  # fmt: skip
    assert isinstance(stale, Conflict)
    envelope_id = received(alpha, beta)
    held = held_of(beta, document, envelope_id)
    for verdict in (None, "known", "anything"):
        error = refused(beta, TAKE, envelope_id, document, BOTH_SIGNED, None, None, verdict, held)
        assert isinstance(error, Refused)
        assert "without a verdict" in str(error)
    assert beta.sql("SELECT * FROM medusa_api.contract_history") == []


@pytest.mark.parametrize(("number", "wanted"), [(2, 1), (3, 2), (9, 2)])
@pytest.mark.parametrize("is_agreed", [True, False])
def test_of_what_builds_on_another_agreement_the_one_before_it_is_requested(
    alpha: Party, beta: Party, number: int, wanted: int, is_agreed: bool
) -> None:
    """medusa_market.take_document never asks for the number that it was given."""
    take_signed(alpha, beta, some_terms(), "agree")
    other = some_terms(number=number, supersedes="0" * 64)
    if is_agreed:
        take_signed(alpha, beta, other, "earlier")
    else:
        take_proposal(alpha, beta, other)
    ((asked,),) = beta.sql(
        "SELECT convert_from(body, 'UTF8')::jsonb->'number' FROM medusa_market.outbox "
        "WHERE kind = 'want'",
        role="job",
    )
    assert asked == wanted


def test_open_proposals_of_others_leave_a_partner_its_own_thousand(
    alpha: Party, beta: Party, watchers: Watchers
) -> None:
    """medusa_market.take_document counts those of the sender."""
    for who, count in (("gamma", 1_000), ("alpha", 999)):
        in_time(
            watchers[BETA],
            "INSERT INTO medusa_market.contract_proposal (contract, revision, proposed_by, "
            f"because, expires_at) SELECT 'of_{who}_' || n, 'any', '{who}', 'a test', "
            f"now() + interval '1 day' FROM generate_series(1, {count}) AS n",
        )
    assert take_proposal(alpha, beta, some_terms()) == "proposed"
    with pytest.raises(SqlRefused, match="alpha has 1,000 open proposals here"):
        take_proposal(alpha, beta, some_terms(contract=ContractName("another")))


def test_a_proposal_that_comes_again_is_the_same_one(alpha: Party, beta: Party) -> None:
    """By medusa_market.take_document."""
    outcomes = [take_proposal(alpha, beta, some_terms()) for _ in range(2)]
    assert outcomes == ["proposed", "proposed before"]
    assert [state for *_, state in beta.proposals()] == ["open"]


def test_who_may_propose_no_more_may_still_withdraw(
    alpha: Party, beta: Party, watchers: Watchers
) -> None:
    """By medusa_market.charge_contracts."""
    in_time(
        watchers[BETA],
        "INSERT INTO medusa_market.contract_proposal (contract, revision, proposed_by, because, "
        "expires_at) SELECT 'c' || n, 'any', 'alpha', 'a test', now() "
        "FROM generate_series(1, 4096) AS n",
    )
    with pytest.raises(SqlRefused, match="alpha has proposed 4,096 times within a day"):
        take_proposal(alpha, beta, some_terms())
    withdrawal = an_envelope(alpha, b'{"contract": "c1"}', kind=EnvelopeKind.WITHDRAWAL)
    assert put(alpha, beta, withdrawal) == ("taken",)
    verify = "SELECT medusa_market.verify_envelope(max(envelope_id)) FROM medusa_market.inbox"
    assert beta.sql(verify, role="job") == [(True,)]


def test_homes_that_agree_send_each_other_no_holdings(
    alpha: Party, beta: Party, watchers: Watchers
) -> None:
    """By medusa_market.take_status."""
    take_signed(alpha, beta, some_terms(), "agree")
    with watchers[BETA].connect() as connection:
        digest = connection.execute(text("SELECT medusa_market.holdings_digest('alpha')")).scalar()
    take = "SELECT medusa_market.take_status(%s, '00000000-0000-4000-8000-000000000001', %s)"
    sent = "SELECT count(*) FROM medusa_market.outbox WHERE kind = 'holdings'"
    for given, count in ((digest, 0), ("0" * 64, 1)):
        beta.sql(take, received(alpha, beta), given, role="job")
        assert beta.sql(sent, role="job") == [(count,)]


def test_a_withdrawal_ends_the_open_proposal_that_it_names(alpha: Party, beta: Party) -> None:
    terms = some_terms()
    assert take_proposal(alpha, beta, terms) == "proposed"
    withdraw = "SELECT medusa_market.take_withdrawal(%s, %s, %s, %s)"
    for number, states in ((2, ["open"]), (1, ["withdrawn"]), (1, ["withdrawn"])):
        named = (terms.contract, revision_of(terms), number)
        assert beta.sql(withdraw, received(alpha, beta), *named, role="job") == [("withdrawn",)]
        assert [row[2] for row in beta.proposals()] == states


def test_the_lines_of_an_audit_are_numbered_from_1(alpha: Party, watchers: Watchers) -> None:
    """As medusa_market.guard_audit numbers them, in a home that has no line yet."""
    statements = (
        "SET LOCAL session_replication_role = replica",
        "DELETE FROM medusa_market.audit_entry",
        "DELETE FROM medusa_market.audit",
        "DELETE FROM medusa_market.audit_head",
        "SET LOCAL session_replication_role = origin",
        "SELECT medusa_market.write_audit('told', 'x', NULL, '{}')",
    )
    with watchers[ALPHA].connect() as connection:
        for statement in ("BEGIN", *statements, "COMMIT"):
            connection.execute(text(statement))
    found = "SELECT audit_id, previous = sha256('') FROM medusa_market.audit"
    assert alpha.sql(found) == [(1, True)]


def test_notice_of_one_contract_is_heard_beside_the_notice_of_another(
    alpha: Party, beta: Party
) -> None:
    names = [ContractName(name) for name in ("first", "second")]
    for name, subject in zip(names, (a_movement(), a_content()), strict=True):
        take_signed(alpha, beta, some_terms(contract=name, subject=subject), "agree")
    for name in names * 2:
        ends_ms = now_ms(beta) + 3 * DAY_MS
        notice = {"given_by": ALPHA, "stated_by": ALPHA, "ends_at_ms": ends_ms, **SIGNED}
        take_notice = "SELECT medusa_market.take_notice(%s, %s, %s::jsonb)"
        beta.sql(take_notice, received(alpha, beta), name, json.dumps([notice]), role="job")
    stated = beta.sql(
        "SELECT contract, stated_by, count(*) FROM medusa_market.contract_notice "
        "WHERE given_by = 'alpha' GROUP BY 1, 2 ORDER BY 1, 2",
        role="job",
    )
    assert stated == [(name, by, n) for name in names for by, n in ((ALPHA, 2), (BETA, 1))]


def test_a_home_is_another_one_when_its_partner_names_another_incarnation(
    alpha: Party, beta: Party
) -> None:
    one, other = ("00000000-0000-4000-8000-00000000000" + digit for digit in "12")
    for incarnation in (one, one, other, other):
        take_status = "SELECT medusa_market.take_status(%s, %s, 'any')"
        beta.sql(take_status, received(alpha, beta), incarnation, role="job")
    noted = "SELECT after FROM medusa_api.audit WHERE what = 'incarnation' ORDER BY audit_id"
    assert beta.sql(noted) == [(one,), (other,)]


def test_nothing_is_proposed_of_a_contract_that_ends_by_notice(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    ((first,),) = beta.sql("SELECT revision FROM medusa_api.contract_history")
    beta.sql("DELETE FROM medusa_api.contract WHERE contract = 'spare_load'")
    ((text,),) = beta.sql(
        "SELECT convert_from(document, 'UTF8') FROM medusa_market.contract_revision", role="job"
    )
    changed = text.replace('"number":1', '"number":2').replace(
        '"supersedes":null', f'"supersedes":"{first}"'
    )
    assert changed != text
    error = refused(beta, TAKE, received(alpha, beta), changed.encode(), "{}", 1,
                    now_ms(beta) + DAY_MS, None, None)  # fmt: skip
    assert isinstance(error, Refused)
    assert "has ended or ends by notice" in str(error)


def test_an_envelope_is_handled_verified_and_refused_once(alpha: Party, beta: Party) -> None:
    envelope_id = received(alpha, beta)
    verify, refuse = (
        "SELECT medusa_market.verify_envelope(%s)",
        "SELECT medusa_market.refuse_envelope(%s, 'no')",
    )
    assert beta.sql(verify, envelope_id, role="job") == [(True,)]
    assert beta.sql(verify, envelope_id, role="job") == [(False,)]
    assert beta.sql(refuse, envelope_id, role="job") == [(True,)]
    assert beta.sql(refuse, envelope_id, role="job") == [(False,)]
    document = document_of(some_terms())
    error = refused(beta, TAKE, envelope_id, document, "{}", 1, now_ms(beta) + DAY_MS, None, None)
    assert isinstance(error, Conflict)
    assert "is handled already" in str(error)


def test_a_home_states_what_is_due_by_its_own_key_alone(alpha: Party) -> None:
    statement, mine = f"holds {'0' * 64}", a_key(ALPHA).public_key
    state = "SELECT medusa_market.state(%s, %s, %s)"
    error = refused(alpha, state, statement, b"s" * 64, a_key(BETA).public_key)
    assert "is another one than it signed with" in str(error)
    assert alpha.sql(state, statement, b"s" * 64, mine, role="job") == [(False,)]
    assert alpha.sql("SELECT count(*) FROM medusa_market.statement", role="job") == [(0,)]


@pytest.mark.parametrize(
    "key", long_but(2, ["", "a" * 63, "a" * 65, "A" * 64, "g" * 64], quick=True)
)
def test_a_key_that_an_owner_names_is_one(alpha: Party, key: str) -> None:
    for call in ("learn_key", "replace_key", "learn_past_key"):
        error = refused(alpha, f"SELECT medusa_api.{call}('gamma', %s)", key, role="owner")
        assert isinstance(error, Refused), call


def test_a_key_has_32_bytes_on_every_path(alpha: Party) -> None:
    for key in (b"", b"k" * 31, b"k" * 33):
        error = refused(alpha, "SELECT medusa_market.learn_first_key('delta', %s, 'a test')", key)
        assert isinstance(error, Refused)


def test_a_past_key_is_learned_once(alpha: Party) -> None:
    learn = "SELECT medusa_api.learn_past_key('gamma', %s)"
    assert alpha.sql(learn, KEY) == [(True,)]
    assert alpha.sql(learn, KEY) == [(False,)]


@pytest.mark.parametrize(
    ("kind", "about", "body"),
    long_but(
        3,
        [
            ("Offer", "x", b"{}"),
            ("document", "x", b"{}"),
            ("withdrawal", "x", b"{}"),
            ("holdings", "x", b"{}"),
            ("offer", "", b"{}"),
            ("offer", "x" * 201, b"{}"),
            ("offer", "x", b"x" * 98_305),
            (None, "x", b"{}"),
        ],
        quick=True,
    ),
)
def test_a_message_of_a_job_has_a_kind_of_its_own_and_a_bound(
    alpha: Party, kind: str | None, about: str, body: bytes
) -> None:
    put_ = "SELECT medusa_market.put_message('beta', %s, %s, %s)"
    assert isinstance(refused(alpha, put_, kind, about, body), Refused)
    assert alpha.sql("SELECT count(*) FROM medusa_market.outbox", role="job") == [(0,)]


def test_a_contract_of_other_parties_or_another_kind_is_no_edit_of_this_one(
    alpha: Party, beta: Party
) -> None:
    agree(alpha, beta)
    ((first,),) = alpha.sql("SELECT revision FROM medusa_api.contract_history")
    other = some_terms(number=2, supersedes=first, payer=BETA, provider=ALPHA)
    propose = "SELECT medusa_market.propose_document(%s, %s, 'a test')"
    error = refused(alpha, propose, document_of(other), DAY_MS)
    assert isinstance(error, Refused)
    assert alpha.shows()[0] == "in force"


def test_a_sealed_message_is_sealed_again_only_when_it_is_about_to_expire(alpha: Party) -> None:
    put_message = "SELECT medusa_market.put_message('beta', 'note', 'a test', 'x')"
    ((message_id,),) = alpha.sql(put_message, role="job")

    def seal(nonce: str, lasts_ms: int) -> str:
        seal_message = "SELECT medusa_market.seal_message(%s, %s, 1, %s, %s)"
        alpha.sql(seal_message, message_id, nonce, now_ms(alpha) + lasts_ms, b"x" * 64, role="job")
        ((found,),) = alpha.sql(
            "SELECT nonce FROM medusa_market.outbox WHERE message_id = %s", message_id, role="job"
        )
        return str(found)

    first, second, third = "a" * 32, "b" * 32, "c" * 32
    assert seal(first, 30_000) == first
    assert seal(second, DAY_MS) == second, "less than a minute is left of the first"
    assert seal(third, DAY_MS) == second


@pytest.mark.parametrize(("lowest", "bounds"), [("0.000001", "above 0"), ("0", "from 0")])
def test_an_amount_that_is_out_of_bounds_names_them(alpha: Party, lowest: str, bounds: str) -> None:
    check = f"SELECT medusa_market.check_amount('a price', -1, {lowest})"
    assert f"a price is -1: write a number {bounds}, " in str(refused(alpha, check, role="owner"))


def test_a_silent_partner_has_missed_an_offer(alpha: Party, watchers: Watchers) -> None:
    silent = "INSERT INTO medusa_market.silent_partner VALUES ('beta', {}, now(), 1)"
    with watchers[ALPHA].connect() as connection:
        with pytest.raises(IntegrityError, match="missed"):
            connection.execute(text(silent.format(0)))
        connection.execute(text(silent.format(1)))


def test_what_is_proposed_for_the_first_void_number_stays_open(
    alpha: Party, beta: Party, watchers: Watchers
) -> None:
    agree(alpha, beta)
    alpha.sql("UPDATE medusa_api.contract SET price_high = price_high + 1")
    open_numbers = """
        SELECT r.number FROM medusa_market.contract_proposal AS p
        JOIN medusa_market.contract_revision AS r USING (revision) WHERE p.state = 'open'
    """
    assert alpha.sql(open_numbers, role="job") == [(2,)]
    void = f"SELECT medusa_market.void_agreements('{some_terms().contract}', {{}}, 'a test')"
    with watchers[ALPHA].connect() as connection:
        # Nothing is agreed from 2 on: the tables' guard, which allows what is void, would refuse.
        connection.execute(text("SET session_replication_role = replica"))
        connection.execute(text(void.format(2)))
        assert alpha.sql(open_numbers, role="job") == [(2,)]
        connection.execute(text(void.format(1)))
        connection.execute(text("RESET session_replication_role"))
    assert alpha.sql(open_numbers, role="job") == []


def test_a_home_names_10000_contracts_and_learns_10000_keys(
    alpha: Party, watchers: Watchers
) -> None:
    """By medusa_market.lock_contract, medusa_market.learn_key and medusa_api.learn_past_key."""
    in_time(
        watchers[ALPHA],
        "INSERT INTO medusa_market.contract_order (contract) "
        "SELECT 'c' || n FROM generate_series(1, 9999) AS n; "
        "INSERT INTO medusa_market.party_key (participant, public_key, because) "
        "SELECT 'p' || n, sha256(n::text::bytea), 'a test' FROM generate_series(1, 9996) AS n",
    )
    learn = "SELECT medusa_api.learn_key(%s, %s)"
    assert alpha.sql(learn, "delta", "d" * 64) == [(True,)]
    error = refused(alpha, learn, "epsilon", "e" * 64, role="owner")
    assert str(error) == "10,000 keys are known here: no more is learned"
    past = refused(alpha, "SELECT medusa_api.learn_past_key('delta', %s)", KEY, role="owner")
    assert str(past) == str(error)
    assert alpha.sql("SELECT medusa_api.replace_key('delta', %s)", KEY) == [(True,)]
    alpha.sql(INSERT)
    error = refused(alpha, INSERT.replace("'spare_load'", "'another'"), role="owner")
    assert str(error) == "this home has named 10,000 contracts: it takes no more"
    assert alpha.shows()[0] == "proposed"


def test_notice_is_given_of_an_agreement_and_a_round_is_open_once_one_was(alpha: Party) -> None:
    """By medusa_market.give_notice and medusa_market.this_round."""
    alpha.sql(INSERT)
    for call, words in (
        ("give_notice('spare_load')", "contract spare_load is not agreed"),
        ("this_round()", "no round was ever opened here"),
    ):
        assert words in str(refused(alpha, f"SELECT medusa_market.{call}", role="owner"))


def test_an_edit_of_what_another_edit_has_changed_is_refused(alpha: Party, beta: Party) -> None:
    """By medusa_market.edit_contract; it waits for the other one, which has read the same row."""
    agree(alpha, beta)
    first, second = alpha.a_login(), alpha.a_login()
    first.connection.autocommit = False
    first(RAISE_PRICE, 1.3)
    ((waits,),) = second("SELECT pg_backend_pid()")
    with ThreadPoolExecutor(1) as threads:
        edit = threads.submit(second, RAISE_PRICE, 1.4)
        until(lambda: alpha.sql("SELECT cardinality(pg_blocking_pids(%s)) > 0", waits)[0][0],
              "the second edit waits")  # fmt: skip
        first.connection.commit()
        with pytest.raises(SqlRefused, match="contract spare_load was edited meanwhile"):
            edit.result(timeout=60)
    for login in (first, second):
        login.connection.close()
    assert [price for _, price, state in alpha.proposals() if state == "open"] == ["1.3"]


@pytest.mark.parametrize(
    ("partner", "expires_at", "words"),
    [
        (ALPHA, "now() + interval '1 hour'", "alpha is the participant of this home"),
        *((GAMMA, at, "an invitation expires within 31 days from now, not at ") for at in (
            "now() - interval '1 s'", "now() + interval '32 days'", "'infinity'", "NULL")),
    ],
)  # fmt: skip
def test_an_invitation_is_of_a_partner_and_expires_within_a_month(
    alpha: Party, partner: str, expires_at: str, words: str
) -> None:
    """By medusa_api.invite_partner."""
    invite = f"SELECT medusa_api.invite_partner('{partner}', '{KEY}', {expires_at})"
    assert words in str(refused(alpha, invite, role="owner"))
    assert alpha.sql("SELECT count(*) FROM medusa_market.invitation") == [(0,)]


def test_a_contract_that_ends_before_its_notice_has_run_is_given_none(
    alpha: Party, beta: Party
) -> None:
    """By medusa_market.give_notice."""
    ((until_ms,),) = alpha.sql("SELECT medusa.to_ms(now() + interval '1 hour')")
    take_signed(alpha, beta, some_terms(valid_until_ms=until_ms), "agree")
    error = refused(beta, "DELETE FROM medusa_api.contract", role="owner")
    assert "before its notice of 86400000 ms has run: wait for that" in str(error)
    assert beta.sql("SELECT count(*) FROM medusa_market.contract_notice", role="job") == [(0,)]


def test_a_proposal_keeps_what_it_says_and_ends_once(alpha: Party, watchers: Watchers) -> None:
    """By medusa_market.guard_proposal, whoever writes."""
    alpha.sql(INSERT)
    end = "state = 'withdrawn', ended_at = now()"
    with watchers[ALPHA].connect() as connection:
        for change, is_allowed in (
            ("because = 'another'", False),
            (f"{end}, revision = 'another'", False),
            (end, True),
            ("state = 'open', ended_at = NULL", False),
            ("let_go_at = now()", True),
            ("let_go_at = NULL", False),
        ):
            update = text(f"UPDATE medusa_market.contract_proposal SET {change}")
            if is_allowed:
                connection.execute(update)
            else:
                with pytest.raises(DBAPIError, match="of contract spare_load keeps what it says"):
                    connection.execute(update)


def test_a_document_is_proposed_as_the_next_revision_and_what_is_agreed_is_not(
    alpha: Party, beta: Party
) -> None:
    """By medusa_market.propose_document and medusa_market.check_terms."""
    agreed = some_terms()
    take_signed(alpha, beta, agreed, "agree")
    propose = "SELECT medusa_market.propose_document(%s, %s, 'a test')"
    first = revision_of(agreed)
    assert beta.sql(propose, document_of(agreed), DAY_MS, role="job") == [(first,)]
    for number, supersedes in ((3, first), (2, "0" * 64)):
        later = some_terms(number=number, supersedes=supersedes)
        error = refused(beta, propose, document_of(later), DAY_MS)
        assert isinstance(error, Conflict)
        assert f"is agreed to number 1 here, and number {number} does not follow" in str(error)
    other = document_of(some_terms(number=2, supersedes=first)).replace(first.encode(), b"x" * 64)
    assert "write 64 hexadecimal digits" in str(refused(beta, propose, other, DAY_MS))
    assert beta.proposals() == []


def test_a_suggestion_names_a_third_participant(alpha: Party) -> None:
    """By medusa_market.check_terms."""
    document = document_of(some_terms(subject=a_suggestion())).replace(b"gamma", b"beta")
    propose = "SELECT medusa_market.propose_document(%s, %s, 'a test')"
    error = refused(alpha, propose, document, DAY_MS)
    assert "contract spare_load suggests to buy from beta, a party itself" in str(error)


def test_a_home_without_a_key_proposes_nothing(alpha: Party, watchers: Watchers) -> None:
    """By medusa_market.check_proposal."""
    in_time(watchers[ALPHA], "DELETE FROM medusa_market.party_key WHERE participant = 'alpha'")
    error = refused(alpha, INSERT, role="owner")
    assert str(error) == "alpha has no key to sign with yet: run medusa apply"


def test_a_database_without_a_home_says_so(alpha: Party, watchers: Watchers) -> None:
    """By medusa_market.here."""
    in_time(watchers[ALPHA], "DELETE FROM medusa.home")
    error = refused(alpha, "SELECT medusa_market.here()", role="owner")
    assert str(error) == "this database has not been initialised: run medusa migrate"


def test_a_contract_is_no_longer_than_64_kib(alpha: Party) -> None:
    """By medusa_market.guard_revision: 1,000 fragments with long names make more than that."""
    many = "ARRAY(SELECT repeat('n', 60) || '.f' || n FROM generate_series(1, 1000) AS n)"
    insert = INSERT.replace("hold_ms_max)", "hold_ms_max, fragments)").replace(
        "0.5, 86400000)", f"0.5, 86400000, {many})"
    )
    assert "bytes: none is longer than 64 KiB" in str(refused(alpha, insert, role="owner"))
    assert alpha.shows() == ()


def test_a_contract_is_of_the_parties_that_agreed_on_it(
    alpha: Party, beta: Party, gamma: Party
) -> None:
    """By medusa_market.take_document and medusa_market.take_notice."""
    agreed = some_terms()
    take_signed(alpha, beta, agreed, "agree")
    turned = some_terms(number=2, supersedes=revision_of(agreed), payer=BETA, provider=ALPHA)
    with pytest.raises(SqlRefused, match="is one of kind movement between alpha"):
        take_proposal(alpha, beta, turned)
    with pytest.raises(SqlRefused, match="is one of kind movement between alpha"):
        take_signed(gamma, beta, some_terms(payer=GAMMA), "agree")
    ends_ms = now_ms(beta) + 3 * DAY_MS
    take = "SELECT medusa_market.take_notice(%s, 'spare_load', %s::jsonb)"
    for sender, given_by, stated_by, words in (
        (gamma, GAMMA, GAMMA, "there is no contract spare_load with gamma here"),
        (alpha, GAMMA, ALPHA, "notice of contract spare_load by gamma, which is not a party"),
        (alpha, ALPHA, GAMMA, "notice of contract spare_load by gamma, which is not a party"),
    ):
        notice = {"given_by": given_by, "stated_by": stated_by, "ends_at_ms": ends_ms, **SIGNED}
        error = refused(beta, take, received(sender, beta), json.dumps([notice]))
        assert words in str(error)
    assert beta.sql("SELECT count(*) FROM medusa_market.contract_notice", role="job") == [(0,)]


def test_a_provider_alone_refuses_an_agreement_and_one_that_is_held(
    alpha: Party, beta: Party
) -> None:
    """By medusa_market.take_refusal."""
    terms = some_terms()
    take_signed(alpha, beta, terms, "agree")
    take = "SELECT medusa_market.take_refusal(%s, 'spare_load', %s, %s, 0)"
    error = refused(beta, take, received(alpha, beta), 1, revision_of(terms))
    assert "alpha refuses number 1 of contract spare_load, whose provider is another" in str(error)
    other = beta.sql(take, received(alpha, beta), 1, "0" * 64, role="job")
    assert other == [("it is not held here",)]
    assert beta.sql("SELECT number FROM medusa_api.contract_history") == [(1,)]


def test_a_definition_is_withdrawn_under_its_contract_by_a_newer_message(
    alpha: Party, beta: Party, watchers: Watchers
) -> None:
    """By medusa_market.take_definition."""
    in_time(
        watchers[BETA],
        "INSERT INTO medusa_market.definition (contract, buyer, name, number, document, state) "
        "VALUES ('spare_load', 'alpha', 'busy', 2, '{}', 'running')",
    )
    take = "SELECT medusa_market.take_definition(%s, %s, %s, %s, '{}', %s)"
    for contract, name, number, is_withdrawal, words in (
        ("spare_load", "busy", 2, True, "message 2 about definition busy is older than 2"),
        ("another", "busy", 3, True, "no definition busy of contract another is known"),
        ("spare_load", "other", 3, True, "no definition other of contract spare_load is known"),
        ("spare_load", "busy", 3, False, "a definition busy is known already"),
    ):
        error = refused(beta, take, received(alpha, beta), contract, name, number, is_withdrawal)
        assert words in str(error)
    found = "SELECT name, number, state FROM medusa_market.definition"
    assert beta.sql(found, role="job") == [("busy", 2, "running")]


def test_a_definition_leaves_its_wait_once(alpha: Party, watchers: Watchers) -> None:
    """By medusa_market.settle_definition."""
    in_time(
        watchers[ALPHA],
        "INSERT INTO medusa_market.definition (contract, buyer, name, number, document, state) "
        "VALUES ('sums', 'gamma', 'busy', 1, '{}', 'waiting')",
    )
    ((number,),) = alpha.sql("SELECT definition_id FROM medusa_market.definition", role="job")
    settle = "SELECT medusa_market.settle_definition(%s, %s, 'a test')"
    for state in ("waiting", "sent", None):
        error = refused(alpha, settle, number, state)
        assert "a definition runs, is refused or has ended, not " in str(error)
    for state, is_new in (("refused", True), ("running", False), ("ended", False)):
        assert alpha.sql(settle, number, state, role="job") == [(is_new,)]
    told = "SELECT about FROM medusa_market.outbox"
    assert alpha.sql(told, role="job") == [("defined/busy/refused",)]


def test_a_partner_moves_by_its_current_key_alone(alpha: Party, watchers: Watchers) -> None:
    """By medusa_market.note_introduction."""
    in_time(
        watchers[ALPHA],
        "INSERT INTO medusa_market.partner (participant, url, pin, confirmed_at) "
        "VALUES ('beta', 'https://here', NULL, now())",
    )
    note = text("SELECT medusa_market.note_introduction('beta', :key, :key, 'https://there', NULL)")
    url = text("SELECT url FROM medusa_market.partner")
    for key, is_new in ((a_key(BETA, 1), False), (a_key(BETA), True)):
        with watchers[ALPHA].connect() as connection:
            assert connection.execute(note, {"key": key.public_key}).scalar() is is_new
            moved = connection.execute(url).scalar() == "https://there"
        assert moved is is_new
