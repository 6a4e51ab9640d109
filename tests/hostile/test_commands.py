"""Hostile command lines, home.json, environments: one sentence, the right exit code, no trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.cases import commands
from tests.hostile.cases.shapes import CommandCase
from tests.hostile.conftest import Ended
from tests.hostile.judging import a_sentence, tree

CASES = (
    *commands.USAGE, *commands.NAMES, *commands.FILES, *commands.HOMES, *commands.CATALOGS,
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_command_ends_with_its_exit_code_and_one_sentence(
    case: CommandCase,
    run: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, content in case.files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    for variable, value in case.environment.items():
        monkeypatch.setenv(variable, value)
    before = tree(tmp_path)
    ended = run(*(word.replace("{at}", str(tmp_path)) for word in case.words))
    assert ended.code == case.exit_code, ended
    a_sentence(ended.errors, case.says, exit_code=ended.code)
    assert ended.errors.count("\n") == 1, ended.errors
    assert not ended.output
    assert "secretword" not in ended.errors, "a password is repeated"
    assert tree(tmp_path) == before, "something was written"
