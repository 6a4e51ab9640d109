"""Hostile network files: each is refused in one sentence that names the file or what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.language.check import check_network
from pipelines.language.load import load_network
from tests.hostile.cases import networks
from tests.hostile.cases.shapes import TextCase
from tests.hostile.judging import a_sentence, fit_for_a_terminal, in_time


@pytest.mark.parametrize("case", [*networks.PYTHON, *networks.NETWORKS], ids=lambda c: c.name)
def test_a_hostile_network_file_is_refused_in_one_sentence(case: TextCase, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(case.text)
    with in_time(), pytest.raises(Refused) as refused:
        check_network(load_network(str(file)))
    a_sentence(str(refused.value), case.refused)
    fit_for_a_terminal(str(refused.value))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"], "something was written"


def test_the_network_around_the_hostile_parts_is_good(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(networks.network("good", "").text)
    assert check_network(load_network(str(file))).network.name == "mine"
