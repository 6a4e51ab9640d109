"""What docs/coverage.md names is there, and every capability that is here is shown by a test."""

from __future__ import annotations

import re

import pytest

from pipelines.base.settings import REPOSITORY
from pipelines.cli.main import parser
from tests.docs.pages import page

ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in page("coverage").splitlines()
    if re.match(r"\| \d", line)
]
WORDS = re.findall(r"`([^`]+)`", page("coverage"))
COMMANDS = sorted({word for word in WORDS if word.startswith("medusa ")})
PATHS = sorted({word for word in WORDS if re.match(r"(tests|medusa_core|pipelines|sql)/", word)})
BENCHES = sorted({word for word in WORDS if word.startswith("python -m bench ")})


def test_the_hundred_capabilities_are_there_in_order() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 101))


@pytest.mark.parametrize("path", PATHS)
def test_a_file_that_the_page_names_exists(path: str) -> None:
    assert (REPOSITORY / path).exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_the_page_names_exists(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([*words(command), "--help"])
    assert ended.value.code == 0


def words(command: str) -> list[str]:
    """The words of a command behind `medusa` that are no options."""
    return [word for word in command.split()[1:] if not word.startswith("-")]


@pytest.mark.parametrize("command", BENCHES)
def test_a_bench_that_the_page_names_exists(command: str) -> None:
    name = command.split()[-1]
    assert any((REPOSITORY / "bench" / at).exists() for at in (name, f"{name}.py"))


def test_what_is_here_is_shown_by_a_test_and_what_is_not_has_a_reason() -> None:
    for number, _, _, here, _, *shown in ROWS:
        is_missing = here.startswith("not:")
        assert is_missing or any("`tests/" in cell for cell in shown), number
        assert not is_missing or len(here) > len("not: "), number
