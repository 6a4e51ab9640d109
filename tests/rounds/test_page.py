"""The page on rounds is true: its SQL and its commands are run, and print what it shows."""

from __future__ import annotations

import re

import pytest

from pipelines.base.settings import Settings
from pipelines.cli.main import main
from tests.agreements.building import ALPHA, BETA, Login, a_movement, some_terms
from tests.docs.pages import difference, page
from tests.exchange.served import served_home
from tests.rounds.building import COST, a_price
from tests.rounds.test_command import Homes, _propose, homes

__all__ = ["homes"]
BLOCK = re.compile(r"```(sql|sh|text)\n(.*?)```\n", re.DOTALL)


@pytest.mark.long
def test_what_the_page_shows_is_what_is_printed(
    homes: Homes,
    capsys: pytest.CaptureFixture[str],
) -> None:
    terms = some_terms(subject=a_movement(price=a_price("10")))
    for urls in homes.values():
        _propose(urls, terms)
    owner = Login(homes[ALPHA].owner)
    owner(COST, 1_000, 900)  # so that it offers nothing before the page says what load costs
    settings = Settings.from_environment()
    with served_home(settings, ALPHA), served_home(settings, BETA):
        for name in (BETA, ALPHA, BETA):
            assert main(["round", "--participant", name]) == 0
        capsys.readouterr()
        printed = ""
        blocks = BLOCK.findall(page("rounds"))
        assert [kind for kind, _ in blocks].count("sql") == 3
        for kind, inside in blocks:
            if kind == "sql":
                owner(inside)
            elif kind == "sh":
                for line in inside.splitlines():
                    command, *arguments = line.split()
                    assert (command, main(arguments)) == ("medusa", 0)
                printed = capsys.readouterr().out
            else:
                missing = difference(tuple(inside.splitlines()), printed)
                assert missing is None, f"{missing}\nis not what was printed:\n{printed}"
    owner.connection.close()
