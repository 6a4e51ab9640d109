"""What changed prices and limits would have brought, by recorded load and real answers."""

from __future__ import annotations

from math import isclose

import pytest
from sqlalchemy import text

from medusa_core.errors import Refused
from medusa_core.market.terms import ContractName
from pipelines.cli.what_if_text import lines_of
from pipelines.market.what_if.analysis import WhatIf
from tests.rounds.building import Trader
from tests.what_if.building import Pair, ask

SPARE = ContractName("spare")

EVERYTHING = """
    SELECT c.oid::regclass::text AS name, (xpath('/row/md5/text()', query_to_xml(format(
        'SELECT md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '''')) FROM %s AS t',
        c.oid::regclass), false, true, '')))[1]::text AS md5
    FROM pg_class AS c WHERE c.relkind = 'r'
        AND c.relnamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace)
    UNION ALL
    SELECT s.schemaname || '.' || s.sequencename, s.last_value::text FROM pg_sequences AS s
    ORDER BY 1"""


def everything(trader: Trader) -> list[tuple[str, str]]:
    """A hash of each table of the home, and how far each sequence has come."""
    with trader.watcher.connect() as connection:
        return [(name, md5) for name, md5 in connection.execute(text(EVERYTHING))]


def is_paid_alike(one: WhatIf, other: WhatIf) -> bool:
    """Whether the same price is paid for the same load, but for the time between the questions:
    each ends with its own now, and less than all load is handed over meanwhile."""
    mine, theirs = (found.after.contracts[SPARE] for found in (one, other))
    apart_s = abs(other.until_ms - one.until_ms) / 1_000
    return isclose(mine.paid * theirs.load_s_out, theirs.paid * mine.load_s_out) and isclose(
        mine.load_s_out, theirs.load_s_out, rel_tol=1e-9, abs_tol=apart_s
    )


@pytest.mark.long
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
    six = ask(alpha, "contract spare SET price_high = 6")
    nine = ask(alpha, "contract spare SET price_high = 9")
    assert nine.after.contracts[SPARE].moves_out == six.after.contracts[SPARE].moves_out > 0
    assert is_paid_alike(nine, six)


@pytest.mark.long(quick=True)
def test_what_is_not_known_of_a_partner_is_said(traded: Pair) -> None:
    alpha, beta = traded
    output = "\n".join(lines_of(ask(alpha, "contract spare SET price_high = 9")))
    assert "beta was never asked above 6 EUR: no more is expected of it there" in output
    output = "\n".join(lines_of(ask(alpha, "contract spare SET currency = 'USD'")))
    assert "spare is in USD, and load costs EUR: nothing moves" in output
    assert "estimated from 0 answers: nothing is taken" in output
    output = "\n".join(lines_of(ask(beta, "contract spare SET price_high = 9")))
    assert "alpha (spare) is estimated from" in output
    assert "spare: earned, EUR" in output


@pytest.mark.long(quick=True)
def test_a_lower_most_load_brings_the_overload_back(traded: Pair) -> None:
    alpha, _ = traded
    high = "contract spare SET price_high = 6"
    much = ask(alpha, high).after
    asked = ask(alpha, high, "contract spare SET load_max = 0.1")
    little = asked.after
    assert little.contracts[SPARE].moves_out < much.contracts[SPARE].moves_out
    assert little.overload_load_s > much.overload_load_s
    # A minute until load is known, and one until the price has risen: rounds are counted back from
    # now, which a busy machine comes to later.
    late_s = (asked.until_ms - asked.from_ms) % 60_000 / 1_000
    expected = 0.1 * (28 * 60 - late_s)
    assert isclose(little.contracts[SPARE].load_s_out, expected, rel_tol=1e-3)


@pytest.mark.long(quick=True)
def test_an_edit_that_changes_nothing_changes_nothing(traded: Pair) -> None:
    alpha, _ = traded
    found = ask(alpha, "contract spare SET price_high = 2, penalty = 0.50", "contract spare")
    assert found.before == found.after
    assert found.largest is None
    assert ask(alpha, "load_max = 10.0").largest is None, "there is one contract only"


@pytest.mark.long(quick=True)
def test_a_fragment_may_be_named_with_its_network_in_the_edit_or_before(traded: Pair) -> None:
    alpha, _ = traded
    named = "contract spare SET price_high = 6, fragments = '{f0, f1, f2}'"
    whole = named.replace("f0, f1, f2", "trade.f0, trade.f1, trade.f2")
    without, qualified = ask(alpha, named), ask(alpha, whole)
    moves = [found.after.contracts[SPARE].moves_out for found in (without, qualified)]
    assert moves[0] == moves[1] > 0
    assert is_paid_alike(without, qualified)


def test_nothing_is_written_and_nothing_is_sent(traded: Pair) -> None:
    before = [everything(trader) for trader in traded]
    ask(traded[0], "contract spare SET price_high = 6, load_max = 4")
    ask(traded[0], "contract spare")
    with pytest.raises(Refused):
        ask(traded[0], "contract spare SET price_high = 1")
    assert [everything(trader) for trader in traded] == before
    assert len(before[0]) > 30


def test_a_provider_is_told_what_it_would_earn_by_what_it_was_offered(traded: Pair) -> None:
    _, beta = traded
    found = ask(beta, "contract spare SET price_high = 6")
    assert found.estimates[SPARE].payer is not None
    dear = found.after.contracts[SPARE]
    assert dear.moves_in >= 1
    assert isclose(dear.load_s_in, 0.3 * 300), "what was offered once is good for the residence"
    assert isclose(dear.earned, 6 * 0.3 / 12)
    assert found.before.contracts[SPARE].moves_in == 0
    assert found.after.cost > found.before.cost


@pytest.mark.long(quick=True)
def test_what_the_partner_proposes_can_be_asked_about(traded: Pair) -> None:
    alpha, beta = traded
    beta.sql("UPDATE medusa_api.contract SET price_high = 6")
    for trader in (beta, alpha):
        trader.party.contract_sync.tick()
    assert alpha.party.shows("spare")[0] == "in force"
    found = ask(alpha, "contract spare")
    edited = ask(alpha, "contract spare SET price_high = 6")
    assert found.changed == edited.changed
    assert found.after.moves == edited.after.moves > 0
