"""The how-to pages are true: their commands are run, in order, and print the output shown."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from pipelines.cli.main import parser
from tests.conftest import folder_on_memory
from tests.docs.pages import DOCS, Block, blocks_of, difference, page
from tests.sweeps import each_of_part, long_but
from tests.terminals import install_medusa, terminal

PAGES = ("own-query", "own-source", "operate", "recover", "drills", "sharing")
"""In the order in which they are read: the later ones go on with the projects of the first."""

FROM_NOTHING = ("own-query", "own-source", "drills", "sharing")
"""Pages that make a project and need no other."""

NEEDED = {
    "operate": ("own-query", "own-source"),
    "recover": ("own-query", "own-source", "operate"),
}
"""What a page goes on with."""

OF_PART = each_of_part(PAGES)
TYPED = [name for name in PAGES if any(name in (n, *NEEDED.get(n, ())) for n in OF_PART)]
"""The pages that are typed here: those of this part of `make test-long`, and what they need."""

SECONDS_MAX = 600
BLOCK, FAILED = "@@ block", "@@ failed"


@dataclass(frozen=True)
class Ran:
    """A block, what it printed, and the exit codes other than 0."""

    block: Block
    printed: str
    failed: tuple[int, ...]


@pytest.fixture(scope="module")
def projects() -> Iterator[Path]:
    """The folder in which a reader of the pages types, with `medusa` on the path."""
    folder = folder_on_memory("medusa-docs-")
    python = install_medusa(folder / "bin") / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W ignore "$@"\n')
    python.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def ran(projects: Path) -> Mapping[str, Sequence[Ran]]:
    """Each page that is run here, once; at the same time those that need no other's project."""
    with ThreadPoolExecutor() as pool:
        first = [name for name in TYPED if name in FROM_NOTHING]
        begun = {name: pool.submit(run_page, projects, name) for name in first}
        found = {name: running.result() for name, running in begun.items()}
    rest = [name for name in TYPED if name not in found]
    return found | {name: run_page(projects, name) for name in rest}


def run_page(folder: Path, name: str) -> list[Ran]:
    """The blocks of a page in one bash, as a reader would type them."""
    blocks = [block for block in blocks_of(page(name)) if block.is_run]
    script = [f"trap 'code=$?; echo; echo \"{FAILED} $code\"' ERR"]
    for block in blocks:
        script.append(f"echo; echo '{BLOCK}'")
        if block.folder is not None:
            script.append(f"cd '{folder / block.folder}'")
        script.append(block.commands)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEDUSA_")}
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    environment["PYTHONPATH"] = str(REPOSITORY)
    with terminal("\n".join(script), folder, environment, is_read=True) as bash:
        out, _ = bash.communicate(timeout=SECONDS_MAX)
    printed = out.split(f"{BLOCK}\n")[1:]
    assert len(printed) == len(blocks), out
    return [
        Ran(block, text, tuple(int(code) for code in re.findall(rf"{FAILED} (\d+)", text)))
        for block, text in zip(blocks, printed, strict=True)
    ]


@pytest.mark.long  # each page starts several processes with a JVM of its own
@pytest.mark.parametrize("name", TYPED)
def test_every_command_of_a_page_ends_as_the_page_says(
    ran: Mapping[str, Sequence[Ran]], name: str
) -> None:
    assert ran[name]
    for done in ran[name]:
        expected = (done.block.exit_code,) if done.block.exit_code else ()
        assert done.failed == expected, f"{done.block.commands}{done.printed}"


@pytest.mark.long  # each page starts several processes with a JVM of its own
@pytest.mark.parametrize("name", TYPED)
def test_what_a_page_shows_is_what_is_printed(ran: Mapping[str, Sequence[Ran]], name: str) -> None:
    for done in ran[name]:
        line = difference(done.block.shown, done.printed)
        assert line is None, f"the page shows\n{line}\nbut this was printed:\n{done.printed}"


@pytest.mark.long
@pytest.mark.skipif("own-query" not in TYPED, reason="another turn of test-long types the page")
def test_the_readme_of_a_new_project_says_what_has_been_run(
    ran: Mapping[str, Sequence[Ran]], projects: Path
) -> None:
    text = (projects / "my shop" / "README.md").read_text(encoding="utf-8")
    written = [block.commands for block in blocks_of(text)]
    typed = [block.commands for block in blocks_of(page("own-query")) if block.is_run]
    assert ran["own-query"]
    assert len(written) == 2
    assert [commands for commands in typed if commands in written] == written
    assert "PROJECT_NAME" not in text


@pytest.mark.parametrize(
    ("shown", "is_so"),
    [
        (("committed 12.5 s ago", "landed 3"), True),
        (("landed 3", "committed 1 s ago"), False),
        (("committed 1 s ago", "2026-01-05T08:00:00Z  search    9"), False),
        (("committed 1 s ago", "…", "2026-01-05T08:00:00Z search  9"), True),
        (("2026-01-05T08:00:00Z  search    8",), False),
        (("landed 3", "…", "nothing of the kind"), False),
    ],
)
def test_what_is_shown_but_not_printed_is_noticed(shown: tuple[str, ...], is_so: bool) -> None:
    printed = "committed 3.9 s ago\nlanded 900\n\n2026-01-05T08:00:00Z  search  9\n"
    assert (difference(shown, printed) is None) == is_so


# ------------------------------------------------------------ all pages

EVERY = sorted(path.stem for path in DOCS.glob("*.md"))


def test_every_page_is_listed_in_the_index() -> None:
    assert set(re.findall(r"\]\(([\w-]+)\.md", page("index"))) >= set(EVERY) - {"index"}


@pytest.mark.parametrize("path", [REPOSITORY / "README.md", *(DOCS / f"{n}.md" for n in EVERY)],
                         ids=lambda path: path.stem)  # fmt: skip
def test_links_lead_to_a_page_and_to_a_heading_of_it(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        if heading:
            assert heading in headings(linked.read_text(encoding="utf-8")), target


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as they are made from the words."""
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("name", long_but(8, EVERY))
def test_commands_that_are_not_run_are_understood(name: str) -> None:
    for block in blocks_of(page(name)):
        for typed in re.findall(r"(?:^|&& |\s)medusa ([a-z][^\n&|]*)", block.commands):
            if not block.is_run:
                parser().parse_args(shlex.split(typed))
