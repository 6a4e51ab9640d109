"""Contracts as owners edit them in SQL, each in its own home, and what comes of it in both."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import Engine, text

from medusa_core.errors import Conflict, Refused
from medusa_core.market.documents import document_of, revision_of
from medusa_core.names import Participant
from pipelines.market.sync.contract_sync import settle
from tests.agreements.backups import in_time
from tests.agreements.building import (
    ALPHA,
    INSERT,
    RAISE_PRICE,
    Party,
    SqlRefused,
    agree,
)
from tests.sweeps import long_but

ONE_TWENTY, ONE_THIRTY, ONE_FORTY = Decimal("1.20"), Decimal("1.3"), Decimal("1.4")


def both(alpha: Party, beta: Party) -> None:
    settle((alpha.contract_sync, beta.contract_sync))


@pytest.mark.long(quick=True)
def test_the_same_edit_in_both_homes_is_an_agreement_that_the_next_round_makes_active(
    alpha: Party, beta: Party
) -> None:
    alpha.sql(INSERT)
    assert alpha.shows() == ("proposed", ONE_TWENTY)
    both(alpha, beta)
    assert beta.shows() == ("requested", ONE_TWENTY)
    assert beta.agreements.in_force() == ()

    beta.sql(INSERT)
    both(alpha, beta)
    for party in (alpha, beta):
        assert party.shows() == ("agreed", ONE_TWENTY)
        assert party.agreements.in_force() == (), "it waits for the next round"
        party.agreements.open_round(0, "a test")
        assert party.shows() == ("in force", ONE_TWENTY)
    (here,), (there,) = alpha.agreements.in_force(), beta.agreements.in_force()
    assert here.revision == there.revision == revision_of(here.terms)
    signed = "SELECT signed_by FROM medusa_api.contract_history"
    assert alpha.sql(signed) == beta.sql(signed) == [(["alpha", "beta"],)]


@pytest.mark.parametrize("editor", long_but(1, ["alpha", "beta"]))
def test_an_edit_is_in_force_only_once_the_other_has_made_the_same(
    alpha: Party, beta: Party, editor: str
) -> None:
    agree(alpha, beta)
    one, other = (alpha, beta) if editor == "alpha" else (beta, alpha)
    one.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    assert one.shows() == ("proposed", ONE_THIRTY)
    assert other.shows() == ("in force", ONE_TWENTY)
    ((changes,),) = other.sql(
        "SELECT changes FROM medusa_api.contract_proposals WHERE state = 'open'"
    )
    assert changes == "price_high 1.2 -> 1.3"
    for party in (one, other):
        party.agreements.open_round(0, "a test")
        (active,) = party.agreements.in_force()
        assert active.terms.number == 1

    other.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    for party in (one, other):
        assert party.shows() == ("agreed", ONE_THIRTY)
        party.agreements.open_round(0, "a test")
        (active,) = party.agreements.in_force()
        assert (active.terms.number, party.shows()) == (2, ("in force", ONE_THIRTY))


@pytest.mark.parametrize("editor", long_but(1, ["alpha", "beta"]))
def test_a_partners_proposal_is_accepted_by_name(alpha: Party, beta: Party, editor: str) -> None:
    agree(alpha, beta)
    one, other = (alpha, beta) if editor == "alpha" else (beta, alpha)
    one.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    other.sql("SELECT medusa_api.accept_contract('spare_load')")
    both(alpha, beta)
    assert one.shows() == other.shows() == ("agreed", ONE_THIRTY)
    with pytest.raises(SqlRefused, match="proposes nothing"):
        other.sql("SELECT medusa_api.accept_contract('spare_load')")


@pytest.mark.long(quick=True)
def test_edits_of_one_home_add_up_until_they_are_agreed(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    alpha.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    alpha.sql("UPDATE medusa_api.contract SET load_max = 3 WHERE contract = 'spare_load'")
    both(alpha, beta)
    beta.sql("SELECT medusa_api.accept_contract('spare_load')")
    both(alpha, beta)
    expected = "number, price_high, load_max"
    assert alpha.shows(columns=expected) == beta.shows(columns=expected) == (2, ONE_THIRTY, 3)
    states = [state for _, _, state in beta.proposals()]
    assert states == ["agreed", "agreed", "withdrawn", "agreed", "agreed"]


DELETED = "DELETE FROM medusa_api.contract WHERE contract = 'spare_load'"
BY_NAME = "SELECT medusa_api.withdraw_contract('spare_load')"
EDITED_BACK = "UPDATE medusa_api.contract SET price_high = 1.2 WHERE contract = 'spare_load'"


@pytest.mark.parametrize(
    ("editor", "withdraw"),
    long_but(
        3,
        [
            ("alpha", DELETED),
            ("beta", BY_NAME),
            ("alpha", EDITED_BACK),
            ("beta", DELETED),
            ("alpha", BY_NAME),
            ("beta", EDITED_BACK),
        ],
    ),
)
def test_what_is_withdrawn_can_be_accepted_no_more(
    alpha: Party, beta: Party, editor: str, withdraw: str
) -> None:
    agree(alpha, beta)
    one, other = (alpha, beta) if editor == "alpha" else (beta, alpha)
    one.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    one.sql(withdraw)
    both(alpha, beta)
    assert one.shows() == other.shows() == ("in force", ONE_TWENTY)
    assert [row for row in other.proposals() if row[2] == "withdrawn"] == [
        (editor, "1.3", "withdrawn")
    ]
    with pytest.raises(SqlRefused, match="proposes nothing"):
        other.sql("SELECT medusa_api.accept_contract('spare_load')")
    other.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    assert one.shows() == ("in force", ONE_TWENTY), "nobody has signed it again"
    assert not any(party.agreements.has_pending() for party in (one, other))


@pytest.mark.long(quick=True)
def test_what_was_withdrawn_may_be_proposed_again(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    for withdrawn in (True, True, False):
        beta.sql(RAISE_PRICE, ONE_THIRTY)
        both(alpha, beta)
        if withdrawn:
            beta.sql("SELECT medusa_api.withdraw_contract('spare_load')")
            both(alpha, beta)
    alpha.sql("SELECT medusa_api.accept_contract('spare_load')")
    both(alpha, beta)
    assert alpha.shows() == beta.shows() == ("agreed", ONE_THIRTY)


def test_what_was_never_sent_is_withdrawn_without_a_word(alpha: Party, beta: Party) -> None:
    alpha.sql(INSERT)
    alpha.sql("DELETE FROM medusa_api.contract")
    both(alpha, beta)
    assert alpha.post.seen == []
    assert alpha.shows() == beta.shows() == ()


@pytest.mark.parametrize("settles", long_but(1, ["alpha", "beta"]))
def test_unequal_proposals_both_stand_until_one_gives_in(
    alpha: Party, beta: Party, settles: str
) -> None:
    agree(alpha, beta)
    alpha.sql(RAISE_PRICE, ONE_THIRTY)
    beta.sql(RAISE_PRICE, ONE_FORTY)
    both(alpha, beta)
    for party in (alpha, beta):
        party.agreements.open_round(0, "a test")
        assert len(party.agreements.in_force()) == 1
        opened = [(by, price) for by, price, state in party.proposals() if state == "open"]
        assert sorted(opened) == [("alpha", "1.3"), ("beta", "1.4")]
        (active,) = party.agreements.in_force()
        assert active.terms.number == 1, "never active until equal"
    giving = alpha if settles == "alpha" else beta
    giving.sql("SELECT medusa_api.accept_contract('spare_load')")
    both(alpha, beta)
    expected = ("agreed", ONE_FORTY if settles == "alpha" else ONE_THIRTY)
    assert alpha.shows() == beta.shows() == expected


@pytest.mark.long(quick=True)
def test_two_that_give_in_at_once_agree_on_one_thing(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    alpha.sql(RAISE_PRICE, ONE_THIRTY)
    beta.sql(RAISE_PRICE, ONE_FORTY)
    both(alpha, beta)
    for party in (alpha, beta):
        party.sql("SELECT medusa_api.accept_contract('spare_load')")
    both(alpha, beta)
    assert alpha.shows() == beta.shows()
    state, price = alpha.shows()
    assert (state, price in (ONE_THIRTY, ONE_FORTY)) == ("agreed", True)
    assert alpha.agreements.agreed() == beta.agreements.agreed()


@pytest.mark.long(quick=True)
def test_a_provider_that_takes_back_what_the_payer_has_just_signed_has_agreed(
    alpha: Party, beta: Party
) -> None:
    agree(alpha, beta)
    beta.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    alpha.sql("SELECT medusa_api.accept_contract('spare_load')")
    alpha.post.cut.add(beta.name)
    alpha.contract_sync.tick()
    beta.sql("SELECT medusa_api.withdraw_contract('spare_load')")
    beta.contract_sync.tick()
    assert beta.shows() == ("in force", ONE_TWENTY)
    alpha.post.cut.clear()
    both(alpha, beta)
    assert alpha.shows() == beta.shows() == ("agreed", ONE_THIRTY)


@pytest.mark.long(quick=True)
def test_what_the_payer_lets_go_is_one_proposal_and_no_later_one_that_says_the_same(
    alpha: Party, beta: Party
) -> None:
    agree(alpha, beta)
    beta.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    beta.sql("SELECT medusa_api.withdraw_contract('spare_load')")
    beta.sql(RAISE_PRICE, ONE_THIRTY)
    beta.contract_sync.tick()
    alpha.post.cut.add(beta.name)
    alpha.contract_sync.tick()
    alpha.sql("SELECT medusa_api.accept_contract('spare_load')")
    alpha.contract_sync.tick()
    beta.sql("SELECT medusa_api.withdraw_contract('spare_load')")
    alpha.post.cut.clear()
    both(alpha, beta)
    assert alpha.shows() == beta.shows() == ("agreed", ONE_THIRTY)


@pytest.mark.long(quick=True)
def test_a_proposal_expires_in_both_homes(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine]
) -> None:
    agree(alpha, beta)
    soon = "clock_timestamp() + interval '1 hour'"
    beta.sql(f"UPDATE medusa_api.contract SET price_high = 1.3, expires_at = {soon}")
    both(alpha, beta)
    shown = (
        "SELECT state, medusa.to_ms(expires_at) FROM medusa_api.contract_proposals "
        "WHERE proposed_by = 'beta' AND number = 2"
    )
    assert alpha.sql(shown) == beta.sql(shown)
    assert [state for state, _ in alpha.sql(shown)] == ["open"]
    # The hour passes in both.
    for party in (alpha, beta):
        in_time(
            watchers[party.name],
            "UPDATE medusa_market.contract_proposal SET expires_at = expires_at - interval "
            "'1 hour' WHERE state = 'open'",
        )
    both(alpha, beta)
    for party in (alpha, beta):
        assert party.shows() == ("in force", ONE_TWENTY)
        assert ("beta", "1.3", "expired") in party.proposals()
    with pytest.raises(SqlRefused, match="proposes nothing"):
        alpha.sql("SELECT medusa_api.accept_contract('spare_load')")


@pytest.mark.parametrize("ends", long_but(1, ["alpha", "beta"]))
def test_a_contract_ends_when_the_notice_has_run_for_both(
    alpha: Party, beta: Party, ends: str
) -> None:
    agree(alpha, beta)
    one, other = (alpha, beta) if ends == "alpha" else (beta, alpha)
    other.sql(RAISE_PRICE, ONE_THIRTY)
    both(alpha, beta)
    one.sql("DELETE FROM medusa_api.contract WHERE contract = 'spare_load'")
    both(alpha, beta)
    for party in (alpha, beta):
        state, ends_in = party.shows(
            columns="state, ends_at - clock_timestamp() BETWEEN '23 h' AND '24 h'"
        )
        assert (state, ends_in) == ("in force", True)
        assert not [row for row in party.proposals() if row[2] == "open"]
        with pytest.raises(SqlRefused, match="make another one"):
            party.sql(RAISE_PRICE, ONE_FORTY)
    when = "SELECT max(ends_at) FROM medusa_api.contract_notices"
    assert alpha.sql(when) == beta.sql(when)
    (told, heard) = (
        one.sql("SELECT min(ends_at) FROM medusa_api.contract_notices"),
        other.sql("SELECT received_at + interval '1 day' FROM medusa_api.inbox "
                  "WHERE kind = 'notice'"),
    )  # fmt: skip
    ((ends_at,),) = alpha.sql(when)
    assert ends_at >= told[0][0]
    assert abs((ends_at - max(told[0][0], heard[0][0])).total_seconds()) < 0.01
    with pytest.raises(SqlRefused, match="by notice already"):
        one.sql("DELETE FROM medusa_api.contract")


@pytest.mark.long(quick=True)
def test_a_contract_without_notice_ends_at_once_and_frees_its_subject(
    alpha: Party, beta: Party
) -> None:
    at_once = INSERT.replace("86400000, 86400000, 1,", "86400000, 0, 1,")
    for party in (alpha, beta):
        party.sql(at_once)
    both(alpha, beta)
    alpha.sql("DELETE FROM medusa_api.contract")
    both(alpha, beta)
    assert alpha.shows()[0] == beta.shows()[0] == "ended"
    ((now,),) = alpha.sql("SELECT clock_timestamp() + interval '1 s'")
    for party in (alpha, beta):
        party.sql(
            at_once.replace("'spare_load'", "'another'").replace("2024-01-01 00:00Z", str(
                now.replace(microsecond=0)))
        )  # fmt: skip
    both(alpha, beta)
    assert alpha.shows("another")[0] == beta.shows("another")[0] == "agreed"


WRONG = {
    "low above high": ("SET price_low = 5", "exchange them"),
    "a step that does not divide": ("SET price_step = 0.07", "a step that divides"),
    "steps without end": ("SET price_step = 0.0001", "too fine"),
    "no price": ("SET price_high = NULL", "write a number above 0"),
    "a price below 0": ("SET price_low = -1", "write a number above 0"),
    "a price that is no number": ("SET price_high = 'NaN'", "write a number above 0"),
    "a price too fine": ("SET price_low = 0.0000001", "six decimal places"),
    "no validity": ("SET validity = NULL", "write a time with a beginning"),
    "an empty validity": ("SET validity = 'empty'", "write a time with a beginning"),
    "a validity without end": ("SET validity = '[2024-01-01,)'", "write a time with"),
    "an infinite validity": ("SET validity = '[2024-01-01,infinity)'", "write a time with"),
    "a validity that holds its end": (
        "SET validity = '[2024-01-01,2096-01-01]'", "write a time with"),
    "a validity that is past": ("SET validity = '[2020-01-01,2021-01-01)'", "would have ended"),
    "a validity finer than ms": (
        "SET validity = '[2024-01-01 00:00:00.0001,2096-01-01)'", "finer than milliseconds"),
    "another payer": ("SET payer = 'gamma'", "keeps its name, kind, payer and provider"),
    "another name": ("SET contract = 'mine'", "keeps its name"),
    "another kind": ("SET kind = 'content'", "keeps its name"),
    "its state": ("SET state = 'ended'", "follow from what is agreed"),
    "its number": ("SET number = 7", "follow from what is agreed"),
    "its revision": ("SET revision = 'x'", "follow from what is agreed"),
    "another kind's terms": ("SET stream = 'sums'", "leave stream, price, per, instead and boxes"),
    "nothing to read": ("SET reads = '{}'", "name 1 to 1,000"),
    "a stream of nobody": ("SET reads = '{sums}'", "write PARTICIPANT/STREAM"),
    "a stream that is NULL": ("SET reads = '{NULL}'", "write PARTICIPANT/STREAM"),
    "streams with SQL": ("SET reads = ARRAY['x/y''; DROP TABLE z; --']", "PARTICIPANT/STREAM"),
    "a stream of the payer": ("SET reads = '{alpha/sums}'", "name streams of third participants"),
    "a stream of the provider": ("SET reads = '{gamma/a,beta/sums}'", "reads beta/sums, a stream"),
    "nothing to move": ("SET fragments = '{}'", "lets nothing move"),
    "fragments with SQL": ("SET fragments = ARRAY['x''; DROP TABLE y; --']", "is not a name"),
    "a fragment that is NULL": ("SET fragments = '{NULL}'", "is not a name"),
    "a reference of nothing": ("SET reference = '{}'", "write 1 to 1,000, or NULL"),
    "a reference without a number": ("SET reference = '{main/seen}'", "FRAGMENT/STREAM="),
    "a reference of zero": ("SET reference = '{main/seen=0}'", "FRAGMENT/STREAM="),
    "a reference with SQL": ("SET reference = ARRAY['x''; DROP TABLE y; --=1']", "is not valid"),
    "two numbers for one stream": (
        "SET reference = '{main/seen=1,main/seen=2}'", "two numbers for main/seen"),
    "more than all buckets": ("SET verify = 1.5", "write a share from 0 to 1"),
    "a share that is too fine": ("SET verify = 0.0000001", "with six decimal places at most"),
    "no number of buckets": ("SET verify = 'NaN'", "write a share from 0 to 1"),
    "a currency with quotes": ("SET currency = '\"x\"'", "three capital letters"),
    "a recovery that is none": ("SET recovery = 'soon'", "write one of gap, rollback, precise"),
    "a fragment of a network of a network": ("SET fragments = '{a.b.c}'", "NETWORK.FRAGMENT"),
    "amnesia that loses nothing": ("SET method = 'amnesia'", "promise gap, or another method"),
    "a standby that is none": ("SET method = 'active_standby'", "write 2 or more"),
    "a third replica": ("SET method = 'active_standby', replicas = 3", "nobody else: write 2"),
    "a replica of no method": ("SET replicas = 2", "one participant at a time"),
    "no replica": ("SET replicas = 0", "write 1 to 1000"),
    "a bound of nothing": ("SET bound_ms = 0", "write a duration"),
    "an endless proposal": ("SET expires_at = 'infinity'", "up to 31 days"),
    "a proposal that is past": ("SET expires_at = '2020-01-01'", "up to 31 days"),
}  # fmt: skip


@pytest.mark.long(quick=True)
def test_wrong_edits_are_refused_with_the_reason_and_nothing_is_half_applied(
    alpha: Party, beta: Party
) -> None:
    agree(alpha, beta)
    before = everything(alpha)
    for what, (edit, reason) in WRONG.items():
        with pytest.raises(SqlRefused, match=reason) as refused:
            alpha.sql(f"UPDATE medusa_api.contract {edit} WHERE contract = 'spare_load'")
        assert isinstance(refused.value.ours, Refused), (what, refused.value.detail)
        assert everything(alpha) == before, what


WRONG_FIRST = {
    "of others": ("'alpha', 'beta'", "'gamma', 'beta'", "no party of contract"),
    "with oneself": ("'alpha', 'beta'", "'alpha', 'alpha'", "name two parties"),
    "with somebody unknown": ("'alpha', 'beta'", "'alpha', 'nobody'", "no key of participant"),
    "with SQL for a partner": ("'beta'", "'b''; DROP TABLE x; --'", "is not a name"),
    "with SQL for a name": ("'spare_load'", "'s''; DROP TABLE x; --'", "is not a name"),
    "without a name": ("'spare_load'", "NULL", "is not a name"),
    "of no kind": ("'movement'", "'gift'", "write one of movement, content, suggested"),
}


def test_wrong_first_contracts_are_refused_with_the_reason(alpha: Party) -> None:
    before = everything(alpha)
    for what, (of, instead, reason) in WRONG_FIRST.items():
        with pytest.raises(SqlRefused, match=reason) as refused:
            alpha.sql(INSERT.replace(of, instead))
        assert isinstance(refused.value.ours, Refused), (what, refused.value.detail)
        assert everything(alpha) == before, what


@pytest.mark.long(quick=True)
def test_no_two_contracts_of_one_subject_overlap(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    for subject in ("NULL", "'{main}'"):
        another = INSERT.replace("'spare_load'", "'another'").replace(
            "0.5, 86400000)", f"0.5, 86400000, {subject})"
        ).replace("hold_ms_max)", "hold_ms_max, fragments)")  # fmt: skip
        with pytest.raises(SqlRefused, match="is about any fragment from"):
            alpha.sql(another)
    # The other direction is another matter.
    alpha.sql(
        INSERT.replace("'spare_load'", "'another'").replace("'alpha', 'beta'", "'beta', 'alpha'")
    )


@pytest.mark.long(quick=True)
def test_contracts_may_be_about_different_fragments_and_a_name_with_its_network_is_the_same(
    alpha: Party, beta: Party
) -> None:
    def about(name: str, fragments: str) -> str:
        return INSERT.replace("'spare_load'", f"'{name}'").replace(
            "0.5, 86400000)", f"0.5, 86400000, '{fragments}')"
        ).replace("hold_ms_max)", "hold_ms_max, fragments)")  # fmt: skip

    for party in (alpha, beta):
        party.sql(about("one", "{first,mine.third}"))
        party.sql(about("other", "{second}"))
    both(alpha, beta)
    assert len(alpha.agreements.agreed()) == 2
    for fragments in ("{mine.first}", "{third}", "{second,fourth}"):
        with pytest.raises(SqlRefused, match="choose another validity or subject"):
            alpha.sql(about("another", fragments))
    alpha.sql(about("another", "{theirs.third}"))


def test_two_proposals_of_one_subject_make_one_agreement(alpha: Party, beta: Party) -> None:
    for name in ("one", "other"):
        for party in (alpha, beta):
            party.sql(INSERT.replace("'spare_load'", f"'{name}'"))
    both(alpha, beta)
    assert len(alpha.agreements.agreed()) == 1
    assert alpha.agreements.agreed() == beta.agreements.agreed()


@pytest.mark.long(quick=True)
def test_two_sessions_that_edit_one_contract_do_not_both_have_their_way(
    alpha: Party, beta: Party
) -> None:
    agree(alpha, beta)
    first, second = alpha.a_login(), alpha.a_login()
    first("BEGIN")
    first(RAISE_PRICE, ONE_THIRTY)
    second("SET lock_timeout = '200ms'")
    with pytest.raises(SqlRefused) as waited:
        second("UPDATE medusa_api.contract SET load_max = 3 WHERE contract = 'spare_load'")
    assert waited.value.code == "55P03", "it waits for the first"
    # A row that was read before the first had ended is not edited over it.
    second("BEGIN ISOLATION LEVEL REPEATABLE READ")
    second("SELECT * FROM medusa_api.contract")
    first("COMMIT")
    with pytest.raises(SqlRefused) as late:
        second("UPDATE medusa_api.contract SET load_max = 3 WHERE contract = 'spare_load'")
    second("ROLLBACK")
    assert isinstance(late.value.ours, Conflict)
    assert alpha.shows(columns="price_high, load_max") == (ONE_THIRTY, 2)
    for login in (first, second):
        login.connection.close()


def test_a_home_does_not_drown_in_contracts(
    alpha: Party, watchers: dict[Participant, Engine]
) -> None:
    with watchers[ALPHA].connect() as connection:
        connection.execute(
            text(
                "INSERT INTO medusa_market.contract_order (contract) "
                "SELECT 'c' || n FROM generate_series(1, 10000) AS n"
            )
        )
    with pytest.raises(SqlRefused, match="takes no more"):
        alpha.sql(INSERT)


def test_a_contract_that_is_there_is_not_made_again(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    with pytest.raises(SqlRefused, match="UPDATE it"):
        alpha.sql(INSERT)


def test_a_document_is_proposed_as_it_is_edited(alpha: Party) -> None:
    alpha.sql(INSERT)
    (status,) = alpha.agreements.contracts()
    before = everything(alpha)
    assert alpha.agreements.propose(document_of(status.terms), "a test") == status.revision
    assert everything(alpha) == before
    with pytest.raises(Refused, match="as Medusa writes"):
        alpha.agreements.propose(document_of(status.terms).replace(b'"1.2"', b'"1.20"'), "a test")


def everything(party: Party) -> list[object]:
    """What the home keeps of agreements."""
    return [
        party.sql(f"SELECT * FROM medusa_market.{table} AS kept ORDER BY kept::text")
        for table in ("contract_revision", "contract_proposal", "contract_signature", "outbox",
                      "audit", "contract_claim", "contract_notice")
    ]  # fmt: skip
