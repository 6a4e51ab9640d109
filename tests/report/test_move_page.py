"""The page of a move: who owned which bucket, the load, the bill, and what is not as promised."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.grid import Range
from medusa_core.market.bill_statements import Charge, ChargeKind, Statement
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import Epoch, Participant
from medusa_core.segments import Producer
from pipelines.catalog.records import OwnerLine
from pipelines.report.answer_figures import Mark
from pipelines.report.move_charts import draw_move
from pipelines.report.move_figures import Check, LoadSpan, MoveFigures, owned_ranges
from pipelines.report.move_page import move_page
from tests.report.test_answer_page import BASE_MS, S, some_figures
from tests.report.test_page import Seen

ALPHA, BETA = Participant("alpha"), Participant("beta")
FROM_US = BASE_MS * 1_000


def owner(epoch: int, who: Participant, from_us: int) -> OwnerLine:
    return OwnerLine(
        fragment="traffic/main", epoch=Epoch(epoch), owner=Producer(who), from_us=from_us,
        timeout_ms=0, because="<b>by hand</b>",
    )  # fmt: skip


def a_statement() -> Statement:
    charge = Charge(
        period=3, from_us=FROM_US + 10 * S, to_us=FROM_US + 20 * S, kind=ChargeKind.LOAD,
        subject="1/traffic/main", quantity=Decimal("1.21"), price=Decimal("1.30"),
        amount=Decimal("0.000437"),
    )  # fmt: skip
    return Statement(
        contract=ContractName("load_of_alpha"), revision=Revision("0" * 64), period=3,
        from_ms=BASE_MS, to_ms=BASE_MS + 20_000, payer=ALPHA, provider=BETA, currency="EUR",
        charges=(charge,),
    )  # fmt: skip


def some_move(holds: bool = True) -> MoveFigures:
    """Buckets 10 to 20 of 30 are beta's."""
    return MoveFigures(
        payer=ALPHA, provider=BETA, fragment="traffic/main",
        answers=some_figures(cut=range(0)),
        owners=(owner(1, BETA, FROM_US + 10 * S), owner(2, ALPHA, FROM_US + 20 * S)),
        loads={
            ALPHA: [LoadSpan(BASE_MS + n * 1_000, BASE_MS + n * 1_000 + 1_000, 0.7)
                    for n in range(30)],
            BETA: [LoadSpan(BASE_MS + 5_000, BASE_MS + 6_000, 1.5)],
        },
        statements=(a_statement(),),
        checks=(Check(name="rows", found="all are what landed", holds=holds),),
        marks=(Mark(BASE_MS + 8_000, "spike"),),
    )  # fmt: skip


def test_the_page_shows_load_owners_delays_and_the_bill() -> None:
    page = move_page(some_move())
    seen = Seen(page)
    words = " ".join(seen.words)
    for shown in ("load of alpha", "load of beta", "owner", "spike", "0.000437", "1.21",
                  "alpha owes beta 0.000437 EUR", "load_of_alpha"):  # fmt: skip
        assert shown in words, shown
    assert seen.tags["svg"] >= 2
    assert seen.tags["script"] == 0
    assert "<b>by hand" not in page
    assert "Not as promised" not in words


def test_what_is_not_as_promised_is_at_the_top_of_the_page() -> None:
    words = " ".join(Seen(move_page(some_move(holds=False))).words)
    assert words.index("Not as promised") < words.index("Load, and who owned the buckets")


def test_the_picture_has_a_block_for_each_run_of_buckets_of_one_owner() -> None:
    picture = draw_move(some_move())
    assert picture.count("owns the buckets from") == 3
    assert picture.count("alpha: 0.70 cores") == 29, "the first second is before the first result"
    assert picture.count("beta: 1.50 cores") == 1


def test_a_move_without_load_and_without_a_bill_is_drawn_too() -> None:
    words = " ".join(Seen(move_page(replace(some_move(), loads={}, statements=()))).words)
    assert "Nothing was billed" in words


@given(st.lists(st.tuples(st.sampled_from([ALPHA, BETA]), st.integers(0, 30)), max_size=6))
def test_each_bucket_has_the_owner_of_the_last_line_that_is_for_it(
    lines: list[tuple[Participant, int]],
) -> None:
    owners = [owner(n, who, at) for n, (who, at) in enumerate(lines, start=1)]
    found = owned_ranges(owners, ALPHA, Range(5, 25))
    assert [part.from_us for _, part in found] == [5, *(part.to_us for _, part in found[:-1])]
    assert found[-1][1].to_us == 25
    for at in range(5, 25):
        expected = next((who for who, start in reversed(lines) if start <= at), ALPHA)
        assert [who for who, part in found if part.from_us <= at < part.to_us] == [expected]
