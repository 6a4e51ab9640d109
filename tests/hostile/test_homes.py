"""A home whose records and names are hostile: every command shows them safely, and stays safe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.cases.commands import OPEN_HOME
from tests.hostile.cases.shapes import CommandCase
from tests.hostile.conftest import Ended
from tests.hostile.judging import a_sentence, tree
from tests.sweeps import long_but

READING = (
    "streams", "status", "read src --limit 3", "read --quarantine", "read src --quarantine",
 "trim --keep 1d --explain", "trim --orphans --explain",
)  # fmt: skip


@pytest.mark.parametrize("words", READING)
@pytest.mark.parametrize("form", long_but(1, ["for people", "as JSON"]))
def test_any_content_of_a_home_is_shown_safely(
    words: str, form: str, on: Callable[..., Ended]
) -> None:
    ended = on(*words.split(), *(["--json"] if form == "as JSON" else []))
    # The fixture judges all that was printed; files of the made-up home are not there (exit 4).
    assert ended.code in (0, 4), ended
    assert "medusa-" not in ended.errors, "a trace was written"


@pytest.mark.parametrize("case", long_but(4, OPEN_HOME), ids=lambda case: case.name)
def test_a_hostile_word_for_what_is_in_a_home_is_refused(
    case: CommandCase, on: Callable[..., Ended], tmp_path: Path
) -> None:
    for name, content in case.files.items():
        (tmp_path / name).write_bytes(content)
    before = tree(tmp_path)
    ended = on(*(word.replace("{at}", str(tmp_path)) for word in case.words))
    assert ended.code == case.exit_code, ended
    a_sentence(ended.errors, case.says, exit_code=ended.code)
    assert tree(tmp_path) == before, "something was written"
