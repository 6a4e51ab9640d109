"""`medusa contract check` and `export`, as they are typed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from medusa_core.market.documents import revision_of, terms_from
from pipelines.cli.main import main
from tests.bilateral.writing import CONTENT, MOVEMENT, TEXTS, write_bilateral
from tests.contracts.shipped import joined

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Type a command: its exit code, what it prints, what it says of errors."""
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)

    def typed(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in ("contract", *words)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return typed


def test_check_prints_a_line_for_each_contract(run: Run, tmp_path: Path) -> None:
    directory = write_bilateral(tmp_path / "c", TEXTS)
    code, out, err = run("check", "--contracts", directory)
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert {*TEXTS, "3"} <= set(lines)
    assert "movement" in lines["spare"]
    assert "beta -> alpha" in lines["spare"]
    assert "1 to 1.3 by 0.1 EUR a core and hour" in lines["spare"]
    assert "0.000001 USD a record of large" in lines["large_for_beta"]
    assert "buy result from gamma" in lines["elsewhere"]
    assert "2026-01-01T00:00:00Z to 2027-01-01T00:00:00Z" in lines["elsewhere"]
    assert re.search(r" [0-9a-f]{12}$", lines["spare"])


def test_check_as_json_gives_terms_whose_hash_is_the_revision(run: Run, tmp_path: Path) -> None:
    directory = write_bilateral(tmp_path / "c", TEXTS)
    code, out, _ = run("check", "--contracts", directory, "--json")
    told = json.loads(out)
    assert (code, told["errors"]) == (0, [])
    for contract in told["contracts"]:
        terms = terms_from(contract["terms"])
        assert revision_of(terms) == contract["revision"]
        assert Path(contract["file"]).stem == terms.contract


def test_check_prints_every_error_and_exits_with_2(run: Run, tmp_path: Path) -> None:
    broken = MOVEMENT.replace("EUR", "€").replace("1.30", "0.5")
    euro = MOVEMENT.replace("EUR", "€")
    texts = {**TEXTS, "spare": euro, "broken": broken, "none": "kind: 3\n"}
    directory = write_bilateral(tmp_path / "c", texts)
    code, out, err = run("check", "--contracts", directory)
    assert (code, out) == (2, "")
    assert err.count("\n") == 4
    assert all(line.startswith(f"medusa: {directory}/bilateral/") for line in err.splitlines())
    code, out, err = run("check", "--contracts", directory, "--json")
    told = json.loads(out)
    assert (code, err) == (2, "")
    assert [(Path(e["file"]).name, e["line"], e["field"]) for e in told["errors"]] == [
        ("broken.yaml", 1, "contract"),
        ("broken.yaml", 5, "currency"),
        ("none.yaml", 1, "kind"),
        ("spare.yaml", 5, "currency"),
    ]


def test_an_unreadable_participants_file_is_reported_with_the_contracts(
    run: Run, tmp_path: Path
) -> None:
    directory = write_bilateral(tmp_path / "c", {"spare": MOVEMENT.replace("EUR", "€")})
    (directory / "participants" / "gamma.yaml").write_text("participant: gamma\npublic_key: x\n")
    code, _, err = run("check", "--contracts", directory)
    assert code == 2
    assert "gamma.yaml, line 2: public_key is no public key: write ed25519:" in err
    assert "spare.yaml, line 5: currency" in err


def test_streams_and_participants_are_checked_once_the_contracts_are_right(
    run: Run, tmp_path: Path
) -> None:
    directory = write_bilateral(tmp_path / "c", TEXTS)
    (directory / "streams" / "ticks.yaml").write_text("stream: ticks\nverify: 2\n")
    code, out, err = run("check", "--contracts", directory)
    assert (code, out) == (2, "")
    assert "nothing feeds source ticks" in err


def test_check_of_something_other_than_a_folder_is_refused(run: Run, tmp_path: Path) -> None:
    code, _, err = run("check", "--contracts", tmp_path / "nowhere")
    assert code == 2
    assert "name the contracts with --contracts DIR" in err


def test_the_shipped_contracts_have_nothing_wrong(run: Run, tmp_path: Path) -> None:
    code, out, err = run("check", "--contracts", joined("delta", tmp_path / "contracts"))
    assert (code, err) == (0, "")
    assert "no errors" in out


# ------------------------------------------------------------ export


def test_an_export_is_yaml_of_the_standard_with_the_price_as_it_is_agreed(
    run: Run, tmp_path: Path
) -> None:
    directory = write_bilateral(tmp_path / "c", TEXTS)
    code, out, err = run("export", "large", "--contracts", directory)
    assert (code, err) == (0, "")
    document = yaml.safe_load(out)
    assert (document["kind"], document["apiVersion"]) == ("DataContract", "v3.1.0")
    assert "  priceAmount: 0.000001\n" in out
    assert document["price"] == {
        "priceAmount": 0.000001, "priceCurrency": "USD", "priceUnit": "record"
    }  # fmt: skip
    code, again, _ = run("export", "large", "--contracts", directory)
    assert again == out


def test_an_export_is_written_in_one_piece(run: Run, tmp_path: Path) -> None:
    directory = write_bilateral(tmp_path / "c", {})
    file = tmp_path / "out" / "large.yaml"
    code, out, _ = run("export", "large", "--contracts", directory, "--output", file)
    assert code == 0
    assert str(file) in out
    assert list(file.parent.iterdir()) == [file]
    assert "price" not in yaml.safe_load(file.read_text())
    code, _, err = run("export", "large", "--contracts", directory, "--output", file / "x")
    assert code == 4
    assert "name another file" in err


def test_a_stream_sold_twice_asks_whose_price_is_meant(run: Run, tmp_path: Path) -> None:
    to_gamma = CONTENT.replace("payer: beta", "payer: gamma").replace("0.000001", "3")
    to_gamma = to_gamma.replace("large_for_beta", "large_for_gamma").replace("record", "period")
    contracts = {**TEXTS, "large_for_gamma": to_gamma}
    directory = write_bilateral(tmp_path / "c", contracts)
    code, _, err = run("export", "large", "--contracts", directory)
    assert code == 2
    assert "sold under large_for_beta and large_for_gamma: say with --contract" in err
    chosen = ("--contract", "large_for_gamma", "--contracts", directory)
    code, out, _ = run("export", "large", *chosen)
    assert code == 0
    assert yaml.safe_load(out)["price"]["priceUnit"] == "settlement period of 12 h"
    code, _, err = run("export", "result", *chosen)
    assert code == 2
    assert "no contract 'large_for_gamma' sells stream result: leave --contract out" in err


@pytest.mark.parametrize("stream", ["lagre", "", "../large", "large; DROP TABLE x"])
def test_a_stream_that_is_not_there_is_refused(run: Run, tmp_path: Path, stream: str) -> None:
    directory = write_bilateral(tmp_path / "c", {})
    code, _, err = run("export", stream, "--contracts", directory)
    assert code == 2
    assert "has a stream" in err


def test_check_and_apply_refuse_a_sale_that_promises_more_than_is_deployed(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promised = CONTENT.replace("upstream_backup}", "upstream_backup, bound: 20s}")
    directory = write_bilateral(tmp_path / "c", {"large_for_beta": promised})
    code, out, err = run("check", "--contracts", directory)
    assert (code, out) == (2, "")
    assert "large_for_beta.yaml, line 11: availability.bound is 20,000 ms" in err
    assert main(["apply", "--contracts", str(directory), "--explain"]) == 2
    assert "availability.bound is 20,000 ms" in capsys.readouterr().err
