"""`medusa contract what-if`, as an owner calls it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import main
from tests.rounds.building import a_price, a_round, agree_on, parts
from tests.sweeps import long_but
from tests.what_if.building import Pair, records

WHAT_IF = ["contract", "what-if", "--participant", "alpha"]
FILE = """contract: {name}
kind: movement
payer: alpha
provider: {provider}
currency: EUR
valid: {{from: 2026-01-01T00:00:00Z, until: 2090-01-01T00:00:00Z}}
settlement: 1d
notice: 7d
price: {{low: {low}, high: 10, step: 1}}
load_max: 1
moves: any
availability: {{recovery: rollback, method: upstream_backup}}
"""


@pytest.fixture
def overloaded(pair: Pair, commands_find_them: None) -> Pair:
    """Alpha, overloaded for ten minutes, may hand beta 0.1; beta has room, and said so."""
    alpha, beta = pair
    agree_on(alpha, beta, a_price("10"), load_max=Decimal("0.1"), fragments=frozenset({"f0", "f1"}))
    alpha.declares(1.0, 0.6)
    beta.declares(1.0, 0.9)
    alpha.carries(parts(9))
    beta.carries(parts(3))
    a_round(alpha, beta)
    records(alpha, [parts(9)] * 10)
    return pair


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*WHAT_IF, *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_it_shows_before_and_after_and_from_what_partners_are_estimated(
    overloaded: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WHAT_IF, "--edit", "contract spare SET load_max = 0.000001"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("an estimate: what is billed is reference load")
    assert "alpha's load of 10 min" in shown
    assert "of 1 d asked for: nothing older is recorded" in shown
    assert "spare: load_max 0.1 -> 0.000001" in shown
    assert "spare: paid, EUR" in shown
    assert "overload, load-seconds" in shown
    assert "because before the edit handing it over costs less than keeping it" in shown
    assert "beta (spare) is estimated from 1 answer since" in shown
    assert "the last at level 0 (10 EUR)" in shown
    assert "nothing was written or sent" in shown


@pytest.mark.long(quick=True)
def test_the_document_holds_the_same_with_its_differences(
    overloaded: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "--edit", "load_max = 0.000001", "--over", "1h")
    assert found["changed"] == ["spare"]
    (change,) = found["changes"]
    assert change == {"contract": "spare", "field": "load_max", "from": "0.1", "to": "0.000001"}
    assert found["before"]["contracts"]["spare"]["moves_out"] == 1
    assert found["after"]["moves"] == 0
    assert found["difference"]["contracts"]["spare"]["moves_out"] == -1
    gone = found["difference"]["overload_load_seconds"]
    assert gone == pytest.approx(found["before"]["contracts"]["spare"]["load_seconds_out"])
    assert found["largest_change"]["is_less"]
    assert found["largest_change"]["numbers"]["price"] == 10.0
    (estimate,) = found["estimates"]
    assert estimate["is_estimated"]
    assert (estimate["partner"], estimate["answers"], estimate["last_level"]) == ("beta", 1, 0)
    assert found["recorded_ms"] == 600_000


@pytest.mark.long(quick=True)
def test_a_what_if_of_an_unsigned_contract_uses_its_file(
    overloaded: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rest.yaml"
    path.write_text(FILE.format(name="rest", provider="beta", low=10))
    assert main([*WHAT_IF, "--file", str(path)]) == 2
    assert "contract spare is about f" in capsys.readouterr().err, "any fragment is those, too"
    path.write_text(FILE.format(name="rest", provider="beta", low=10).replace("any", "[f2, f3]"))
    found = document(capsys, "--file", str(path), "--edit", "contract spare")
    assert found["changed"] == ["rest", "spare"]
    assert found["before"]["contracts"]["rest"]["moves_out"] == 0
    path.write_text(FILE.format(name="rest", provider="alpha", low=10))
    assert main([*WHAT_IF, "--file", str(path)]) == 2
    assert "provider is alpha, the payer too" in capsys.readouterr().err
    path.write_text(FILE.format(name="rest", provider="beta", low=11))
    assert main([*WHAT_IF, "--file", str(path)]) == 2
    assert "price.low is 11, above price.high 10" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    long_but(
        2,
        [
            ([], "say what would be changed"),
            (["--edit", "contract spare SET prise_low = 11"], "did you mean 'price_low'?"),
            (["--edit", "contract spare SET price_low = 11"], "is above the highest"),
            (["--edit", "contract spare", "--over", "8d"], "7 days at most"),
            (["--edit", "contract spare", "--over", "soon"], "duration 'soon' is not one"),
            (["--file", "nowhere.yaml"], "nowhere.yaml is not a file"),
        ],
    ),
)
def test_an_invalid_request_is_one_sentence_and_exit_code_2(
    overloaded: Pair, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([*WHAT_IF, *arguments]) == 2
    output = capsys.readouterr().err
    assert says in output
    assert len(output.strip().splitlines()) == 1


def test_the_shell_is_told_what_may_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "--words", "=contract", "=w"]) == 0
    assert capsys.readouterr().out.split() == ["what-if", "withdraw"]
    assert main(["completion", "--words", "=contract", "=what-if", "=--"]) == 0
    offered = set(capsys.readouterr().out.split())
    assert offered >= {"--edit", "--file", "--over", "--participant", "--json"}
