"""What-if over real homes: load and answers recorded by the product, edits checked as real ones."""

from __future__ import annotations

from decimal import Decimal

import pytest

from medusa_core.errors import Refused
from medusa_core.market.decisions import MakeOffer
from medusa_core.market.documents import revision_of
from medusa_core.market.knowledge import contract_in_force
from medusa_core.market.what_if import Partners, Replay
from pipelines.catalog.postgres.what_if import PostgresWhatIf
from pipelines.market.rounds.fragment_names import naming_of
from pipelines.market.what_if.edits import COLUMNS
from pipelines.market.what_if.recorded_rounds import recorded_rounds
from tests.agreements.building import SqlRefused
from tests.rounds.building import a_price, agree_on
from tests.sweeps import long_but
from tests.what_if.building import BUSY, HOUR_MS, QUIET, Pair, ask, records


def test_the_replay_decides_as_the_next_real_round_does(pair: Pair) -> None:
    alpha, beta = pair
    terms = agree_on(alpha, beta, a_price("2", "6"))
    alpha.declares(1.0, 0.6)
    records(alpha, [QUIET] * 20 + [BUSY])
    facts, decisions = alpha.worker.explain()
    home = PostgresWhatIf(alpha.party.urls.job)
    samples = home.loads(facts.clock_ms - HOUR_MS, facts.clock_ms)
    home.close()
    replay = Replay([contract_in_force(terms, revision_of(terms))], Partners())
    parts = {key.fragment for sample in samples for key in sample.shares.by_key}
    naming = naming_of(parts, facts.contracts, facts.participant)
    rounds = [*recorded_rounds(facts, samples, samples[0].from_ms, samples[-1].to_ms, naming)]
    for recorded in rounds:
        replay.step(recorded)
    real = [d.offer for d in decisions if isinstance(d, MakeOffer)]
    assert len(real) == 1
    offered = [(o.contract, o.level, o.items, o.for_overload) for o in replay.offers]
    assert offered == [(o.contract, o.level, o.items, o.for_overload) for o in real]
    length_ms = samples[-1].to_ms - samples[0].from_ms
    assert abs(sum(recorded.length_ms for recorded in rounds) - length_ms) <= len(samples)


def test_without_load_or_a_declared_cost_it_says_what_is_missing(pair: Pair) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2", "6"))
    with pytest.raises(Refused, match="what load costs alpha is not declared"):
        ask(alpha, "contract spare SET price_high = 9")
    alpha.declares(1.0, 0.6)
    with pytest.raises(Refused, match="no load of alpha was recorded in the last 1 h"):
        ask(alpha, "contract spare SET price_high = 9")
    alpha.worker.tick(opens="a test")
    alpha.sql("UPDATE medusa_api.trading SET round_ms = 1000")
    records(alpha, [BUSY] * 2)
    with pytest.raises(Refused, match="ask for a span of 100,000 at most, 27 h here"):
        ask(alpha, "contract spare SET price_high = 9", over_ms=48 * HOUR_MS)


def test_an_edit_may_name_every_column_that_an_owner_may_edit(pair: Pair) -> None:
    alpha, _ = pair
    columns = alpha.sql(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'medusa_api.contract'::regclass"
        " AND attnum > 0"
    )
    assert {name for (name,) in columns} - {"expires_at"} == set(COLUMNS)


SPARE_ONLY = "UPDATE medusa_api.contract SET {} WHERE contract = 'spare'"


WRONG = (
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
    "reference = '{sometimes}'",
    "currency = 'euro'",
    "recovery = 'perhaps'",
    "provider = 'alpha'",
    "payer = 'beta'",
    "kind = 'content'",
    "state = 'agreed'",
    "number = 7",
    "stream = 'sums'",
)


@pytest.mark.long(quick=True)
def test_an_edit_is_refused_in_the_words_of_the_real_one(pair: Pair) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2"))
    for edit in WRONG:
        with pytest.raises(Refused) as asked:
            ask(alpha, f"contract spare SET {edit}")
        with pytest.raises(SqlRefused) as real:
            alpha.sql(SPARE_ONLY.format(edit))
        assert (edit, str(asked.value)) == (edit, str(real.value))


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


@pytest.mark.long(quick=True)
def test_two_contracts_about_the_same_are_refused(pair: Pair) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2"), fragments=frozenset({"f1"}))
    agree_on(alpha, beta, a_price("2"), "other", fragments=frozenset({"f2"}))
    with pytest.raises(Refused, match=r"contract spare is about f1 .* already"):
        ask(alpha, "contract other SET fragments = '{f1,f2}'")


@pytest.mark.parametrize("role", long_but(1, ["analyst", "airflow", "exchange"], quick=True))
def test_no_other_login_may_ask(pair: Pair, role: str) -> None:
    alpha, beta = pair
    agree_on(alpha, beta, a_price("2"))
    with pytest.raises(SqlRefused, match="permission denied"):
        alpha.sql("SELECT medusa_market.what_if_edited('spare', '[]')", role=role)
    asked = (
        "SELECT convert_from(medusa_market.what_if_edited('spare', %s), 'UTF8')::jsonb->>'number'"
    )
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
