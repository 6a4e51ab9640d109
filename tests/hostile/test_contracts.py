"""Hostile contracts: `medusa apply --explain` refuses each in one sentence and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.cases import contracts
from tests.hostile.cases.shapes import ContractCase
from tests.hostile.conftest import Ended
from tests.hostile.judging import a_sentence, tree
from tests.sweeps import long_but

GOOD = {
    "participants/alpha.yaml": "participant: alpha\nruns:\n  - network: netmon3\n"
    "    sources: [connections_a, connections_b, connections_c]\n    fragments: [main]\n",
    "streams/connections_a.yaml": "stream: connections_a\nsource: {kind: generate}\n",
    "streams/connections_b.yaml": "stream: connections_b\nsource: {kind: generate}\n",
    "streams/connections_c.yaml": "stream: connections_c\nsource: {kind: generate}\n",
}
CASES = (*contracts.YAML, *contracts.SOURCES, *contracts.PARTICIPANTS)
Run = Callable[..., Ended]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Contracts that are good."""
    for name, text in GOOD.items():
        path = tmp_path / "contracts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "contracts"


def test_the_contracts_around_the_hostile_ones_are_good(folder: Path, run: Run) -> None:
    ended = run("apply", "--contracts", str(folder), "--explain")
    assert ended.code == 0, ended.errors


@pytest.mark.parametrize("case", long_but(25, CASES), ids=lambda case: case.name)
def test_a_hostile_contract_is_refused_in_one_sentence(
    case: ContractCase, folder: Path, run: Run
) -> None:
    content = case.content if isinstance(case.content, bytes) else case.content()
    (folder / case.file).write_bytes(content)
    before = tree(folder.parent)
    ended = run("apply", "--contracts", str(folder), "--explain")
    assert ended.code == 2, ended
    a_sentence(ended.errors, case.refused)
    assert "secretword" not in ended.errors
    assert tree(folder.parent) == before, "something was written"


@pytest.mark.parametrize(
    "name", ["streams/connections_a.yaml", "participants/alpha.yaml"], ids=["stream", "participant"]
)
def test_a_contract_that_is_a_link_out_of_its_folder_is_refused(
    name: str, folder: Path, run: Run, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text(GOOD[name])
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    ended = run("apply", "--contracts", str(folder), "--explain")
    assert (ended.code, "leads out" in ended.errors) == (2, True), ended


def test_a_contract_that_is_a_folder_a_pipe_or_a_link_to_itself_is_refused(
    folder: Path, run: Run
) -> None:
    import os

    path = folder / "streams/connections_a.yaml"
    for make in (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(path)):
        path.rmdir() if path.is_dir() else path.unlink()
        make()
        ended = run("apply", "--contracts", str(folder), "--explain")
        assert ended.code == 2, ended
        a_sentence(ended.errors, "not a file|cannot be followed|leads out|cannot be read")
