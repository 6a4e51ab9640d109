"""What is wrong with an offer or an answer is recorded with the reason, and moves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from medusa_core.errors import Conflict
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.messages import (
    Answer,
    Item,
    Nonce,
    Offer,
    Reason,
    answer_bytes,
    answer_from,
    offer_bytes,
    offer_from,
)
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import FragmentName, Participant
from pipelines.homes.signatures import SigningKey
from tests.agreements.building import SqlRefused, a_key
from tests.rounds.building import (
    ALPHA,
    BETA,
    GAMMA,
    OFFER_IS_OVER,
    Trader,
    a_price,
    a_round,
    agree_on,
    parts,
    until_quiet,
)

MINUTE_MS = 60_000


@pytest.fixture
def pair(alpha: Trader, beta: Trader) -> tuple[Trader, Trader]:
    """Alpha may hand load to beta, at one of three prices; neither has any, or a round since."""
    agree_on(alpha, beta, a_price("10", "12"), fragments=frozenset(parts(9)))
    for trader in (alpha, beta):
        trader.declares(1.0, 0.9)
        trader.carries({})
        trader.opens()
    return alpha, beta


def an_offer(payer: Trader, **changes: Any) -> Offer:
    ((revision,),) = payer.sql("SELECT active_revision FROM medusa_api.contract")
    offer = Offer(
        contract=ContractName("spare"),
        revision=Revision(revision),
        nonce=Nonce("a" * 32),
        round=5,
        level=0,
        items=(Item(FragmentName("f0"), 0, 0.1),),
        for_overload=True,
    )
    return replace(offer, **changes)


def an_answer(**changes: Any) -> Answer:
    answer = Answer(
        contract=ContractName("spare"),
        nonce=Nonce("a" * 32),
        round=5,
        accepted=(),
        rooms=(),
        reason=Reason.TAKEN,
    )
    return replace(answer, **changes)


def put(
    sender: Trader,
    receiver: Trader,
    body: bytes,
    kind: EnvelopeKind = EnvelopeKind.OFFER,
    *,
    key: SigningKey | None = None,
    name: Participant | None = None,
    nonce: str = "0" * 32,
    heard: bool = True,
) -> None:
    """Put a signed message into the receiver's inbox, and let the receiver tick."""
    now_ms = sender.catalog.read_clock_ms()
    blank = Envelope(
        kind=kind, sender=name or sender.name, receiver=receiver.name, nonce=nonce,
        sent_at_ms=now_ms, expires_at_ms=now_ms + MINUTE_MS, body=body,
    )  # fmt: skip
    key = key or a_key(sender.name)
    envelope = replace(blank, signature=key.sign(blank.bytes_to_sign))
    assert sender.party.post.exchange.deliver(receiver.name, [envelope]) == ("taken",)
    if heard:
        receiver.answers()


def take_offer(payer: Trader, provider: Trader, offer: Offer) -> None:
    """An offer is open with the provider, whose worker has not looked at it."""
    put(payer, provider, offer_bytes(offer), nonce=str(offer.nonce), heard=False)
    take = "SELECT medusa_market.take_offer(max(envelope_id)) FROM medusa_market.inbox"
    provider.sql(take, role="job")


def apply(trader: Trader, *, since: int = 0, later: int = 0, **decides: Any) -> None:
    """What a worker has decided in this round, so many changes and rounds ago."""
    ((changes, number),) = trader.sql(
        "SELECT changes, medusa_market.this_round() FROM medusa_market.market"
    )
    request = {"changes": changes - since, "round": number - later, "offers": [], "answers": [],
               "leaves": [], "wanted": [], "decides": False}  # fmt: skip
    trader.sql("SELECT medusa_market.apply_round(%s)", json.dumps(request | decides), role="job")


def an_answer_to(answer: Answer, **changes: Any) -> dict[str, Any]:
    """As a worker of the provider decides it."""
    body = answer_bytes(answer).decode()
    given = {"to": ALPHA, "body": body, "is_more": False, "because": "a test", "leaves": []}
    return given | changes


Change = dict[str, Any]
WRONG: dict[str, tuple[Callable[[Trader], bytes], str]] = {
    "garbage": (lambda _: b"\x00\xff" * 40, "no message of a round"),
    "nothing": (lambda _: b"", "no message of a round"),
    "deep": (lambda _: b"[" * 90_000, "no message of a round"),
    "an answer": (lambda _: answer_bytes(an_answer()), "no message of format medusa.offer/1"),
    "not canonical": (lambda p: offer_bytes(an_offer(p)) + b" ", "not written as Medusa writes"),
    "of nothing": (
        lambda p: offer_bytes(an_offer(p, items=())), "an offer of nothing"),
    "of a load that is none": (
        lambda p: offer_bytes(an_offer(p)).replace(b'"load":0.1', b'"load":-0.1'), ""),
    "of a contract that is not there": (
        lambda p: offer_bytes(an_offer(p, contract=ContractName("other"))),
        "there is no contract other"),
}  # fmt: skip


def test_what_is_no_offer_is_refused_with_the_reason(pair: tuple[Trader, Trader]) -> None:
    alpha, beta = pair
    for at, (what, (make, reason)) in enumerate(WRONG.items(), 1):
        put(alpha, beta, make(alpha), nonce=f"{at:032x}")
        assert len(beta.refused()) == at, what
        assert reason in beta.refused()[-1], what
    assert beta.offers() == []
    assert beta.moves() == []


def test_an_offer_with_another_key_is_forged(pair: tuple[Trader, Trader]) -> None:
    alpha, beta = pair
    put(alpha, beta, offer_bytes(an_offer(alpha)), key=a_key(GAMMA))
    assert "forged or altered" in beta.refused()[0]
    put(alpha, beta, offer_bytes(an_offer(alpha)), key=a_key(GAMMA), name=GAMMA, nonce="1" * 32)
    assert "there is no contract spare under which gamma" in beta.refused()[1]
    assert beta.moves() == []


DECLINED: dict[str, tuple[Change, str]] = {
    "a level that the contract does not have": ({"level": 3}, "terms"),
    "a level above the lowest without an overload": (
        {"level": 1, "for_overload": False}, "terms"),
    "a fragment that may not move": (
        {"items": (Item(FragmentName("f20"), 0, 0.1),)}, "terms"),
    "another revision": ({"revision": Revision("0" * 64)}, "revision"),
    "more than the contract lets lie there": (
        {"items": (Item(FragmentName("f0"), 0, 11.0),)}, "load_max"),
}  # fmt: skip


@pytest.mark.long(quick=True)
def test_what_the_contract_does_not_allow_is_declined(pair: tuple[Trader, Trader]) -> None:
    alpha, beta = pair
    for at, (what, (changes, reason)) in enumerate(DECLINED.items(), 1):
        offer = an_offer(alpha, nonce=Nonce(f"{at:032x}"), **changes)
        put(alpha, beta, offer_bytes(offer), nonce=f"{at:032x}")
        output = beta.sql("SELECT reason, accepted FROM medusa_api.answers ORDER BY answer_id")
        assert (len(output), output[-1]) == (at, (reason, 0)), what
    assert beta.moves() == []
    # Alpha has made none of these offers, and takes no answer to them.
    alpha.answers()
    assert len(alpha.refused()) == len(DECLINED)
    assert all("never made" in reason for reason in alpha.refused())


@pytest.mark.long(quick=True)
def test_recorded_envelopes_count_once(alpha: Trader, beta: Trader) -> None:
    agree_on(alpha, beta, a_price("10"))
    for trader, carried in ((alpha, parts(9)), (beta, parts(3))):
        trader.declares(1.0, 0.9)
        trader.carries(carried)
    a_round(alpha, beta)
    before = alpha.moves(), beta.moves(), alpha.offers(), beta.offers()
    output = [e for e in alpha.party.post.seen if e.kind is EnvelopeKind.OFFER]
    answered = [e for e in beta.party.post.seen if e.kind is EnvelopeKind.ANSWER]
    assert output
    assert answered
    for sender, receiver, envelopes in ((alpha, beta, output), (beta, alpha, answered)):
        sender.party.post.exchange.deliver(receiver.name, envelopes)
    until_quiet(alpha, beta)
    # The same messages sealed anew.
    put(alpha, beta, output[0].body, nonce="1" * 32)
    put(beta, alpha, answered[0].body, EnvelopeKind.ANSWER, nonce="1" * 32)
    assert "was made before" in beta.refused()[-1]
    assert "was answered before" in alpha.refused()[-1]
    assert (alpha.moves(), beta.moves(), alpha.offers(), beta.offers()) == before


def test_nothing_is_accepted_under_a_revision_that_is_not_in_force(
    pair: tuple[Trader, Trader],
) -> None:
    """As medusa_market.give_answer refuses it, whatever a worker has decided."""
    alpha, beta = pair
    offer = an_offer(alpha, revision=Revision("0" * 64))
    take_offer(alpha, beta, offer)
    accepts = an_answer_to(an_answer(accepted=offer.items))
    with pytest.raises(SqlRefused, match="contract spare is not in force as the offer quotes it"):
        apply(beta, answers=[accepts])
    assert beta.moves() == []


def test_what_was_decided_from_what_is_no_longer_so_is_not_applied(
    pair: tuple[Trader, Trader],
) -> None:
    """By medusa_market.apply_round, medusa_market.make_offer and medusa_market.give_answer."""
    alpha, beta = pair
    offer = an_offer(alpha)
    take_offer(alpha, beta, offer)
    leaves = [{"move_id": 1, "fragment": "f0", "partition": 0}]
    elsewhere = replace(offer.items[0], fragment=FragmentName("f20"))
    wrong = replace(offer, items=(elsewhere,)), replace(offer, revision=Revision("0" * 64))
    moves, nothing = (
        [{"body": offer_bytes(one).decode(), "relays": False, "because": "a test"}] for one in wrong
    )
    accepts = an_answer(accepted=offer.items)
    for trader, decides, words in (
        (beta, {"since": 1}, "others have offered or answered meanwhile"),
        (beta, {"later": 1}, "others have offered or answered meanwhile"),
        (beta, {"leaves": [1]}, "what was to be handed on has lapsed"),
        (alpha, {"offers": moves}, "contract spare does not let f20 move"),
        (alpha, {"offers": nothing}, "contract spare does not let anything move"),
        *((beta, {"answers": [answer]}, words) for answer, words in (
            (an_answer_to(an_answer(accepted=(elsewhere,))), "the answer does not fit the offer"),
            (an_answer_to(an_answer(nonce=Nonce("9" * 32))), "the answer does not fit the offer"),
            (an_answer_to(accepts, leaves=leaves), "what was to make room has lapsed"))),
    ):  # fmt: skip
        with pytest.raises(SqlRefused, match=words) as refused:
            apply(trader, **decides)
        assert isinstance(refused.value.ours, Conflict)
    beta.in_time(OFFER_IS_OVER)
    beta.sql("SELECT medusa_market.expire_market()", role="job")
    with pytest.raises(SqlRefused, match=r"the offer a{32} is open no more"):
        apply(beta, answers=[an_answer_to(accepts)])
    assert alpha.offers() == []
    assert beta.moves() == []


def test_where_nothing_is_over_the_market_does_not_change(pair: tuple[Trader, Trader]) -> None:
    """By medusa_market.expire_market: what somebody has decided meanwhile is applied."""
    alpha, beta = pair
    take_offer(alpha, beta, an_offer(alpha))
    found = "SELECT changes FROM medusa_market.market"
    before = beta.sql(found)
    assert beta.sql("SELECT medusa_market.expire_market()", role="job") == [(0,)]
    assert beta.sql(found) == before


OFFERS_OF_THIS_ROUND = """INSERT INTO medusa_market.offer (is_own, partner, contract, revision,
        nonce, sender_round, level, items, load, for_overload, relays, body, round)
    SELECT is_own, partner, contract, revision, md5(n::text), sender_round, level, items, load,
        for_overload, relays, body, round FROM medusa_market.offer, generate_series(1, {}) AS n"""
REPORTS_OF_THIS_ROUND = """INSERT INTO medusa_market.answer (offer_id, is_own, is_more,
        sender_round, reason, accepted, load, rooms, body, round)
    SELECT offer_id, false, true, 5, 'taken', 0, 0, '[]', '', round
    FROM medusa_market.offer, generate_series(1, {}) AS n"""


def test_a_partner_offers_and_reports_so_often_in_a_round(pair: tuple[Trader, Trader]) -> None:
    """By medusa_market.take_offer and medusa_market.take_answer; its share counts by time."""
    alpha, beta = pair
    offer = an_offer(alpha)
    take_offer(alpha, beta, offer)
    beta.in_time(OFFERS_OF_THIS_ROUND.format(62))
    take_offer(alpha, beta, replace(offer, nonce=Nonce("b" * 32), round=6))
    with pytest.raises(SqlRefused, match="alpha has made 64 offers in this round"):
        take_offer(alpha, beta, replace(offer, nonce=Nonce("c" * 32), round=7))

    made = {"body": offer_bytes(offer).decode(), "relays": False, "because": "a test"}
    apply(alpha, offers=[made])
    alpha.in_time("DELETE FROM medusa_market.open_offer")
    alpha.in_time(REPORTS_OF_THIS_ROUND.format(63))
    report = answer_bytes(an_answer())
    take = "SELECT medusa_market.take_answer(max(envelope_id), NULL, %s) FROM medusa_market.inbox"
    for at, (judged_at, words) in enumerate(
        ((0, "others have offered or answered meanwhile"), (None, ""), (None, "headroom 64 times"))
    ):
        put(beta, alpha, report, EnvelopeKind.ANSWER, nonce=f"{at:032x}", heard=False)
        if words:
            with pytest.raises(SqlRefused, match=words):
                alpha.sql(take, judged_at, role="job")
        else:
            alpha.sql(take, judged_at, role="job")


def test_one_offer_of_a_partner_is_open_at_a_time(pair: tuple[Trader, Trader]) -> None:
    alpha, beta = pair
    ((now,),) = beta.sql("SELECT max(number) FROM medusa_api.rounds")
    first, second, older, newer = (
        an_offer(alpha, nonce=Nonce(digit * 32), round=number)
        for digit, number in (("1", 5), ("2", 5), ("3", 4), ("4", 6))
    )
    for offer in (first, second, older, newer):
        put(alpha, beta, offer_bytes(offer), nonce=str(offer.nonce), heard=False)
    beta.answers()
    one_at_a_time, stale = beta.refused()
    assert "one at a time" in one_at_a_time
    assert "it is stale" in stale
    assert [(state, at) for at, _, _, state, *_ in beta.offers()] == [
        ("lapsed", now), ("answered", now)]  # fmt: skip


@pytest.mark.long(quick=True)
def test_who_offers_without_end_is_heard_so_often_and_holds_up_nobody(
    pair: tuple[Trader, Trader], gamma: Trader
) -> None:
    alpha, beta = pair
    agree_on(gamma, beta, a_price("10"), "other")
    now_ms = alpha.catalog.read_clock_ms()
    flood = []
    for at in range(128):
        body = offer_bytes(an_offer(alpha, nonce=Nonce(f"{at:032x}"), round=at + 1))
        blank = Envelope(
            kind=EnvelopeKind.OFFER, sender=ALPHA, receiver=BETA, nonce=f"{at:032x}",
            sent_at_ms=now_ms, expires_at_ms=now_ms + MINUTE_MS, body=body,
        )  # fmt: skip
        flood.append(replace(blank, signature=a_key(ALPHA).sign(blank.bytes_to_sign)))
    for at in range(0, 128, 64):
        alpha.party.post.exchange.deliver(BETA, flood[at : at + 64])
    gamma.declares(1.0, 0.9)
    gamma.carries(parts(9))
    gamma.opens()
    until_quiet(beta, gamma)
    assert gamma.sql("SELECT count(*) FROM medusa_api.answers WHERE NOT is_own") == [(1,)]
    ((heard,),) = beta.sql("SELECT count(*) FROM medusa_api.offers WHERE partner = 'alpha'")
    assert heard == 64
    assert "may make no more" in beta.refused()[-1]


@pytest.mark.long(quick=True)
def test_no_offer_is_kept_under_a_nonce_that_is_none_whoever_has_read_its_message(
    pair: tuple[Trader, Trader],
) -> None:
    alpha, beta = pair
    take = "SELECT medusa_market.take_offer(max(envelope_id)) FROM medusa_market.inbox"
    for at, nonce in enumerate((b"", b"a" * 31, b"a" * 33, b"A" * 32, b"g" * 32, rb"a\n" * 16), 1):
        body = offer_bytes(an_offer(alpha)).replace(b"a" * 32, nonce)
        put(alpha, beta, body, nonce=f"{at:032x}", heard=False)
        with pytest.raises(SqlRefused, match="offer_nonce_check"):
            beta.sql(take, role="job")
    assert beta.offers() == []


@pytest.mark.long(quick=True)
def test_an_answer_that_accepts_what_was_not_offered_is_refused(
    alpha: Trader, beta: Trader
) -> None:
    """By medusa_market.take_answer."""
    agree_on(alpha, beta, a_price("10"))
    alpha.declares(1.0, 0.9)
    alpha.carries(parts(9))
    alpha.opens()
    ((body,),) = alpha.sql("SELECT body FROM medusa_market.offer")
    offer = offer_from(bytes(body))
    other = replace(offer.items[0], load=0.2)
    wrong = {
        "what was not offered": an_answer(nonce=offer.nonce, accepted=(other,)),
        "never made": an_answer(nonce=Nonce("9" * 32)),
    }
    for at, (reason, answer) in enumerate(wrong.items(), 1):
        put(beta, alpha, answer_bytes(answer), EnvelopeKind.ANSWER, nonce=f"{at:032x}")
        assert reason in alpha.refused()[-1]
    put(beta, alpha, b"\xff{", EnvelopeKind.ANSWER, nonce="7" * 32)
    assert len(alpha.refused()) == 3
    assert [state for _, _, _, state, *_ in alpha.offers()] == ["open"], "it is still waited for"
    right = an_answer(nonce=offer.nonce, accepted=offer.items[:1])
    put(beta, alpha, answer_bytes(right), EnvelopeKind.ANSWER, nonce="8" * 32)
    assert [fragment for _, _, fragment, _ in alpha.moves()] == [offer.items[0].fragment]
    assert answer_from(answer_bytes(right)) == right
