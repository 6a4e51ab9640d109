"""docs/bilateral.md is true: its examples are contracts, its table has every field."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from medusa_core.market.contract_files import FIELDS, FieldRule
from medusa_core.market.terms import ContractKind
from pipelines.cli.main import main, parser
from pipelines.contracts.participants import read_participants
from pipelines.market.contracts.bilateral import examine_bilateral
from tests.contracts.shipped import joined
from tests.docs.pages import page

EXAMPLES = dict(
    re.findall(r"<!-- example: (\w+) -->\n```yaml\n(.*?)```\n", page("bilateral"), re.DOTALL)
)
SHOWN = page("bilateral").partition("<!-- example: check -->\n\n")[2].partition("\n## ")[0]


def test_there_is_an_example_of_each_kind() -> None:
    kinds = [re.findall(r"^kind: (\w+)$", text, re.MULTILINE) for text in EXAMPLES.values()]
    assert kinds == [[kind.value] for kind in ContractKind]


def test_the_examples_are_contracts_of_the_participants_that_ship(tmp_path: Path) -> None:
    directory = joined("delta", tmp_path / "contracts")
    shutil.rmtree(directory / "bilateral")
    (directory / "bilateral").mkdir()
    for name, text in EXAMPLES.items():
        (directory / "bilateral" / f"{name}.yaml").write_text(text)
    examined = examine_bilateral(directory, read_participants(directory))
    assert examined.findings == ()
    assert {contract.terms.contract for contract in examined.contracts} == set(EXAMPLES)


def test_what_the_page_shows_of_a_check_is_what_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    contracts = joined("delta", tmp_path / "contracts")
    assert main(["contract", "check", "--contracts", str(contracts)]) == 0
    assert capsys.readouterr().out == dedent(SHOWN)


@pytest.mark.parametrize("kind", ContractKind)
def test_the_table_has_every_field_of_a_kind(kind: ContractKind) -> None:
    rows = re.findall(r"^\| (`[^|]+) \| ([\w, ]+) \| ", page("bilateral"), re.MULTILINE)
    listed = {
        name for names, kinds in rows for name in re.findall(r"`([\w.]+)`", names)
        if kinds == "all" or kind.value in kinds.split(", ")
    }  # fmt: skip
    expected: set[str] = set()
    for name, field in FIELDS[kind].items():
        match field.rule:
            case FieldRule(fields=inside):
                expected |= {f"{name}.{part}" for part in inside}
            case _:
                expected.add(name)
    assert listed == expected


def test_the_commands_on_the_page_have_these_options() -> None:
    for name, options in re.findall(r"^    medusa contract (\w+)(.*)$", page("bilateral"), re.M):
        contract = parser().commands()["contract"]
        command = contract.commands()[name]  # type: ignore[attr-defined]
        assert set(re.findall(r"--\w+", options)) == command.options().keys() - {"--help", "-h"}
