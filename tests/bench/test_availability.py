"""The measurement of availability: its contracts, its second answer, and its verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.availability import measuring
from bench.availability.command import _document, refusal
from bench.availability.measuring import Outcome, expected
from bench.availability.pair import Shape, contract_of, names, network_of
from bench.availability.table import Measured, guarantee, is_kept, lines_of
from medusa_core.market.terms import Method, Movement
from pipelines.language.check import check_network, fragments_for
from pipelines.language.load import load_network
from pipelines.market.contracts.bilateral import read_bilateral_file

SHAPE = Shape("2s", "4s")
OUTCOME = Outcome(
    method=Method.UPSTREAM_BACKUP, class_="filter", usual_s=0.5, pause_s=3.0, recovered_s=9.0,
    lost_s=0.0, lost_rows=0, missing_rows=0, repeated_rows=0, rows=100,
)  # fmt: skip


def test_each_method_has_a_contract_that_names_a_fragment_of_each_class(tmp_path: Path) -> None:
    (tmp_path / "kinds.py").write_text(network_of(SHAPE))
    checked = check_network(load_network(str(tmp_path / "kinds.py")))
    assert sorted(f.id for f in fragments_for(checked)) == sorted(f"kinds/{n}" for n in names())
    moved: set[str] = set()
    for method in Method:
        file = tmp_path / f"load_{method.value}.yaml"
        file.write_text(contract_of(method))
        terms = read_bilateral_file(file).terms
        assert isinstance(terms.subject, Movement)
        assert terms.subject.availability.method is method
        moved |= set(terms.subject.fragments or ())
    assert moved == set(names())


@pytest.mark.parametrize(
    ("class_", "rows"),
    [
        ("filter", {(2, "a", 1): 2, (4_000_000, "a", 1): 1}),
        ("windows", {(3_999_999, "a", 5): 1, (3_999_999, "b", 1): 1, (7_999_999, "a", 1): 1}),
        ("groups", {(5, "a", 5): 1}),
    ],
)
def test_the_second_answer_is_that_of_the_boxes(
    class_: str, rows: dict[tuple[int, str, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = [(1, "a"), (2, "a"), (2, "a"), (3, "a"), (5, "a"), (7, "b"), (4_000_000, "a")]
    monkeypatch.setattr(
        measuring, "rows", lambda *_: [{"ts_us": at, "orig_h": host} for at, host in landed]
    )
    assert dict(expected(None, class_, SHAPE)) == rows  # type: ignore[arg-type]


def test_a_gap_is_kept_where_it_is_promised_and_a_missing_or_repeated_row_nowhere() -> None:
    gap = replace(OUTCOME, lost_s=12.0, lost_rows=40)
    assert guarantee(gap) == "gap of 12 s"
    assert not is_kept(gap)
    assert is_kept(replace(gap, method=Method.AMNESIA))
    assert not is_kept(replace(gap, method=Method.AMNESIA, missing_rows=1))
    assert is_kept(OUTCOME)
    assert not is_kept(replace(OUTCOME, repeated_rows=1))


def test_the_tables_have_what_was_published_beside_what_was_measured() -> None:
    times = {Method.AMNESIA: 12.0, Method.PASSIVE_STANDBY: 9.0, Method.ACTIVE_STANDBY: 0.0,
             Method.UPSTREAM_BACKUP: 9.0}  # fmt: skip
    run = Measured(
        shape=SHAPE,
        before=dict.fromkeys(Method, 0.1),
        payer=dict.fromkeys(Method, 0.1),
        provider=dict.fromkeys(Method, 0.1),
        sent_bytes_s=2_000.0,
        outcomes=tuple(
            replace(OUTCOME, method=method, class_=class_, recovered_s=times[method])
            for method in Method
            for class_ in ("filter", "windows", "groups")
        ),
    )
    text = "\n".join(lines_of(run, refusal()))
    assert "divergent -> precise" in text
    assert json.loads(json.dumps(_document(run)))["loads"]["amnesia"] == [0.1, 0.1, 0.1]
    assert "rand, which is refused" in text
    assert "H4 order: active standby is first, as published" in text
    reversed_ = tuple(replace(one, recovered_s=12 - one.recovered_s) for one in run.outcomes)
    assert "NOT first" in "\n".join(lines_of(replace(run, outcomes=reversed_), refusal()))
