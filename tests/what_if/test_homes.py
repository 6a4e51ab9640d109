"""What-if over real homes: load and answers recorded by the product, edits checked as real ones."""

from __future__ import annotations

from decimal import Decimal
from math import isclose

import pytest
from sqlalchemy import text

from medusa_core.errors import Refused
from medusa_core.market.decisions import MakeOffer
from medusa_core.market.documents import revision_of
from medusa_core.market.knowledge import contract_in_force
from medusa_core.market.terms import ContractName
from medusa_core.market.what_if import Partners, Replay
from pipelines.catalog.postgres_what_if import PostgresWhatIf
from pipelines.what_if.recording import recorded_rounds
from tests.agreements.building import SqlRefused
from tests.rounds.building import Trader, a_price, a_round, agree_on, parts
from tests.what_if.building import HOUR_MS, ask, records

Pair = tuple[Trader, Trader]
SPARE = ContractName("spare")
BUSY, QUIET = parts(9), parts(9, 0.01)

EVERYTHING = """
    SELECT c.oid::regclass::text AS name, (xpath('/row/md5/text()', query_to_xml(format(
        'SELECT md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '''')) FROM %s AS t',
        c.oid::regclass), false, true, '')))[1]::text AS md5
    FROM pg_class AS c WHERE c.relkind = 'r' AND c.relnamespace = 'medusa'::regnamespace
    UNION ALL
    SELECT s.schemaname || '.' || s.sequencename, s.last_value::text FROM pg_sequences AS s
    ORDER BY 1"""


def everything(trader: Trader) -> list[tuple[str, str]]:
    """A hash of each table of the home, and how far each sequence has come."""
    with trader.watcher.connect() as connection:
        return [(name, md5) for name, md5 in connection.execute(text(EVERYTHING))]


@pytest.fixture
def traded(pair: Pair) -> Pair:
    """Alpha has asked beta at 2 to 6 and was answered; now the price is 2, at which beta takes
    nothing, and alpha has been overloaded for half an hour."""
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2", "6"))
    alpha.declares(1.0, 0.6)
    beta.declares(1.0, 0.9)
    alpha.carries(BUSY)
    beta.carries(parts(3))
    for _ in range(3):
        a_round(alpha, beta)
    assert alpha.moves(), "beta takes something at a higher price"
    for trader in pair:
        trader.sql("UPDATE medusa_api.contract SET price_high = 2")
    for _ in range(4):
        for trader in pair:
            trader.party.desk.turn()
    for _ in range(2):
        a_round(alpha, beta)
    records(alpha, [BUSY] * 30)
    return pair


def test_a_higher_price_brings_moves_and_less_overload(traded: Pair) -> None:
    alpha, _ = traded
    found = ask(alpha, "contract spare SET price_high = 6")
    before, after = found.before, found.after
    assert before.moves == 0
    assert isclose(before.overload_load_s, 0.3 * 1_800, rel_tol=0.01)
    assert after.contracts[SPARE].moves_out > 0
    assert after.overload_load_s < before.overload_load_s
    assert after.total < before.total
    assert found.largest is not None
    assert found.largest.because is not None
    assert found.largest.because.reason == "handing it over costs less than keeping it"
    provider = found.estimates[SPARE].provider
    assert provider is not None
    answers = alpha.sql("SELECT count(*) FROM medusa_api.answers")
    assert [(provider.answers,)] == answers
    last = provider.last
    assert last is not None
    assert (last.level, last.price) == (0, 2.0)


def test_a_price_that_no_answer_speaks_of_brings_no_more_than_what_was_seen(traded: Pair) -> None:
    alpha, _ = traded
    six = ask(alpha, "contract spare SET price_high = 6").after.contracts[SPARE]
    nine = ask(alpha, "contract spare SET price_high = 9").after.contracts[SPARE]
    assert nine.moves_out == six.moves_out
    assert isclose(nine.paid, six.paid, rel_tol=1e-3)


def test_a_lower_most_load_brings_the_overload_back(traded: Pair) -> None:
    alpha, _ = traded
    high = "contract spare SET price_high = 6"
    much = ask(alpha, high).after
    little = ask(alpha, high, "contract spare SET load_max = 0.1").after
    assert little.contracts[SPARE].moves_out < much.contracts[SPARE].moves_out
    assert little.overload_load_s > much.overload_load_s
    # A minute until load is known, and one until the price has risen.
    assert isclose(little.contracts[SPARE].load_s_out, 0.1 * 28 * 60, rel_tol=0.01)


def test_an_edit_that_changes_nothing_changes_nothing(traded: Pair) -> None:
    alpha, _ = traded
    found = ask(alpha, "contract spare SET price_high = 2, penalty = 0.50", "contract spare")
    assert found.before == found.after
    assert found.largest is None
    assert ask(alpha, "load_max = 10.0").largest is None, "there is one contract only"


def test_what_the_partner_proposes_can_be_asked_about(traded: Pair) -> None:
    alpha, beta = traded
    beta.sql("UPDATE medusa_api.contract SET price_high = 6")
    for trader in (beta, alpha):
        trader.party.desk.turn()
    assert alpha.party.shows("spare")[0] == "in force"
    found = ask(alpha, "contract spare")
    edited = ask(alpha, "contract spare SET price_high = 6")
    assert found.changed == edited.changed
    assert found.after.moves == edited.after.moves > 0


def test_nothing_is_written_and_nothing_is_sent(traded: Pair) -> None:
    before = [everything(trader) for trader in traded]
    ask(traded[0], "contract spare SET price_high = 6, load_max = 4")
    ask(traded[0], "contract spare")
    with pytest.raises(Refused):
        ask(traded[0], "contract spare SET price_high = 1")
    assert [everything(trader) for trader in traded] == before
    assert len(before[0]) > 30


def test_the_replay_decides_as_the_next_real_round_does(pair: Pair) -> None:
    alpha, beta = pair
    terms = agree_on(alpha, beta, a_price("2", "6"))
    alpha.declares(1.0, 0.6)
    records(alpha, [QUIET] * 20 + [BUSY])
    facts, decisions = alpha.turns.explain()
    home = PostgresWhatIf(alpha.party.urls.job)
    samples = home.loads(facts.clock_ms - HOUR_MS, facts.clock_ms)
    home.close()
    replay = Replay([contract_in_force(terms, revision_of(terms))], Partners())
    rounds = [*recorded_rounds(facts, samples, samples[0].from_ms, samples[-1].to_ms)]
    for recorded in rounds:
        replay.step(recorded)
    real = [d.offer for d in decisions if isinstance(d, MakeOffer)]
    assert len(real) == 1
    offered = [(o.contract, o.level, o.items, o.for_overload) for o in replay.offers]
    assert offered == [(o.contract, o.level, o.items, o.for_overload) for o in real]
    length_ms = samples[-1].to_ms - samples[0].from_ms
    assert abs(sum(recorded.length_ms for recorded in rounds) - length_ms) <= len(samples)


def test_a_provider_is_told_what_it_would_earn_by_what_it_was_offered(traded: Pair) -> None:
    _, beta = traded
    beta.in_time("UPDATE medusa.offer SET made_at = made_at - interval '20 minutes'")
    records(beta, [parts(3)] * 30)
    found = ask(beta, "contract spare SET price_high = 6")
    assert found.estimates[SPARE].payer is not None
    dear = found.after.contracts[SPARE]
    assert dear.moves_in >= 1
    assert isclose(dear.load_s_in, 0.3 * 300), "what was offered once is good for the residence"
    assert isclose(dear.earned, 6 * 0.3 / 12)
    assert found.before.contracts[SPARE].moves_in == 0
    assert found.after.cost > found.before.cost


def test_without_load_or_a_declared_cost_it_says_what_is_missing(pair: Pair) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2", "6"))
    with pytest.raises(Refused, match="what load costs alpha is not declared"):
        ask(alpha, "contract spare SET price_high = 9")
    alpha.declares(1.0, 0.6)
    with pytest.raises(Refused, match="no load of alpha was recorded in the last 1 h"):
        ask(alpha, "contract spare SET price_high = 9")
    alpha.turns.turn(opens="a test")
    alpha.sql("UPDATE medusa_api.trading SET round_ms = 1000")
    records(alpha, [BUSY] * 2)
    with pytest.raises(Refused, match="ask for a span of 100,000 at most, 27 h here"):
        ask(alpha, "contract spare SET price_high = 9", over_ms=48 * HOUR_MS)


SPARE_ONLY = "UPDATE medusa_api.contract SET {} WHERE contract = 'spare'"


@pytest.mark.parametrize(
    "edit",
    [
        "price_low = 3",
        "price_high = 2.5",
        "price_step = 0.001, price_high = 9",
        "price_low = 0",
        "price_low = 0.0000001",
        "load_max = -1",
        "load_max = NULL",
        "validity = NULL",
        "validity = 'empty'",
        "validity = '[2026-01-01,)'",
        "validity = '[2020-01-01,2021-01-01)'",
        "settlement_ms = 0",
        "replicas = 0",
        "bound_ms = 0",
        "fragments = '{}'",
        "fragments = '{Main}'",
        "billed = '{sometimes}'",
        "currency = 'euro'",
        "recovery = 'perhaps'",
        "provider = 'alpha'",
        "payer = 'beta'",
        "kind = 'content'",
        "state = 'agreed'",
        "number = 7",
        "stream = 'sums'",
    ],
)
def test_an_edit_is_refused_in_the_words_of_the_real_one(pair: Pair, edit: str) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2"))
    with pytest.raises(Refused) as asked:
        ask(alpha, f"contract spare SET {edit}")
    with pytest.raises(SqlRefused) as real:
        alpha.sql(SPARE_ONLY.format(edit))
    assert str(asked.value) == str(real.value)


def test_what_no_owner_could_edit_is_refused(pair: Pair) -> None:
    alpha, beta = pair
    with pytest.raises(Refused, match=r"say which contract is edited \(there: none\)"):
        ask(alpha, "price_high = 9")
    agree_on(alpha, beta, a_price("2"))
    with pytest.raises(Refused, match=r"no contract spar in .*did you mean 'spare'"):
        ask(alpha, "contract spar SET price_high = 9")
    with pytest.raises(Refused, match="contract spare cannot be edited so"):
        ask(alpha, "contract spare SET validity = '[2027-99-01,2028-01-01)'")
    with pytest.raises(Refused, match="7 days at most"):
        ask(alpha, "contract spare", over_ms=8 * 24 * HOUR_MS)
    alpha.sql("DELETE FROM medusa_api.contract WHERE contract = 'spare'")
    with pytest.raises(Refused, match="ends at"):
        ask(alpha, "contract spare SET price_high = 9")


def test_two_contracts_about_the_same_are_refused(pair: Pair) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2"), fragments=frozenset({"f1"}))
    agree_on(alpha, beta, a_price("2"), "other", fragments=frozenset({"f2"}))
    with pytest.raises(Refused, match=r"contract spare is about f1 .* already"):
        ask(alpha, "contract other SET fragments = '{f1,f2}'")


@pytest.mark.parametrize("role", ["analyst", "airflow", "reader"])
def test_no_other_login_may_ask(pair: Pair, role: str) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2"))
    with pytest.raises(SqlRefused, match="permission denied"):
        alpha.sql("SELECT medusa.what_if_edited('spare', '[]')", role=role)
    asked = "SELECT convert_from(medusa.what_if_edited('spare', %s), 'UTF8')::jsonb->>'number'"
    for allowed in ("owner", "job"):
        assert alpha.sql(asked, '[{"load_max": "7"}]', role=allowed) == [("2",)]


def test_an_edit_says_what_the_real_one_proposes(pair: Pair) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2"))
    home = PostgresWhatIf(alpha.party.urls.job)
    terms = home.edited("spare", [{"price_high": "3.00"}, {"fragments": ["f2", "f1", "f2"]}])
    home.close()
    alpha.sql(SPARE_ONLY.format("price_high = 3"))
    alpha.sql(SPARE_ONLY.format("fragments = '{f1,f2}'"))
    assert terms is not None
    assert alpha.party.shows("spare", "revision, price_high") == (revision_of(terms), Decimal(3))
