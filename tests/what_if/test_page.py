"""The page on what-if is true: its command is run, and prints what it shows."""

from __future__ import annotations

import re
import shlex

import pytest

from pipelines.cli.main import main
from tests.docs.pages import difference, page
from tests.what_if.building import Pair

BLOCK = re.compile(r"```sh\n(.*?)\n```\n\n```text\n(.*?)```\n", re.DOTALL)


@pytest.mark.long(quick=True)
@pytest.mark.usefixtures("commands_find_them")
def test_what_the_page_shows_is_what_is_printed(
    traded: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = BLOCK.findall(page("what-if"))
    assert len(blocks) == 1
    for typed, shown in blocks:
        command, *arguments = shlex.split(typed)
        assert (command, main(arguments)) == ("medusa", 0)
        printed = re.sub(r" min \d+ s,", " min,", capsys.readouterr().out)  # on a busy machine
        missing = difference(tuple(shown.splitlines()), printed)
        assert missing is None, f"{missing}\nis not what was printed:\n{printed}"
