"""Every environment variable of the product is documented on one page and named in settings."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from pipelines.base import settings
from pipelines.base.settings import REPOSITORY
from tests.docs.pages import page
from tests.layout.rooms import nodes_of

NAME = re.compile(r"MEDUSA_[A-Z]+(?:_[A-Z]+)*")


def variables_of(path: Path) -> set[str]:
    """The variables that a module names in a string of its own that is a name and nothing else."""
    if "MEDUSA_" not in path.read_text(encoding="utf-8"):
        return set()
    strings = (
        node.value
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {text for text in strings if NAME.fullmatch(text)}


@cache
def variables_of_the_product() -> set[str]:
    files = [path for room in ("pipelines", "dags") for path in (REPOSITORY / room).rglob("*.py")]
    return set().union(*map(variables_of, files))


def test_every_variable_of_the_product_is_documented_on_the_page_of_commands() -> None:
    rows = re.findall(r"^\| (`MEDUSA_[^|]*?) \|", page("commands"), re.MULTILINE)
    documented = [name for row in rows for name in NAME.findall(row)]
    assert len(documented) == len(set(documented))
    assert set(documented) == variables_of_the_product()


def test_the_readme_leads_to_the_page_of_commands_for_the_variables() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    sentence = next(s for s in re.split(r"\.\s", readme) if "environment variables" in s)
    assert "](docs/commands.md)" in sentence


READ_BY_TESTS = re.compile(r"""environ(?:\.get\(|\[)\s*"(MEDUSA_\w+)\"""")


def test_every_variable_of_tests_and_containers_is_documented() -> None:
    files = [REPOSITORY / "bootstrap.py", *(REPOSITORY / "tests").rglob("*.py")]
    read = {name for path in files for name in READ_BY_TESTS.findall(path.read_text("utf-8"))}
    read -= variables_of_the_product()
    _, _, listed = page("commands").partition("The tests read these, too:")
    assert set(NAME.findall(listed.partition("The address of")[0])) == read
    composed = (REPOSITORY / "docker-compose.yml").read_text("utf-8")
    of_owners = re.compile(r"(?<=MEDUSA_)(?:BETA|GAMMA|DELTA)(?=_PASSWORD)")
    asked_for = re.findall(r"\$\{(MEDUSA_\w+)", of_owners.sub("ALPHA", composed))
    assert set(asked_for) <= set(NAME.findall(page("containers")))


def test_every_variable_of_the_product_is_named_by_the_settings() -> None:
    assert set(NAME.findall(settings.__doc__ or "")) == variables_of_the_product()
