"""Hostile command lines, home.json, environments: one sentence, the right exit code, no trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.hostile.cases import commands, dangerous
from tests.hostile.cases.shapes import CommandCase, FileCase
from tests.hostile.conftest import Ended
from tests.hostile.judging import a_sentence, tree
from tests.sweeps import long_but

CASES = (
    *commands.USAGE, *commands.NAMES, *commands.FILES, *commands.HOMES, *commands.CATALOGS,
)  # fmt: skip


@pytest.mark.parametrize("case", long_but(25, CASES), ids=lambda case: case.name)
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


NETWORK = """
from medusa_core.network import Filter, Network, Output, Source

columns = {"ts_us": "bigint", "host": "string", "port": "int", "size": "double"}
network = Network(
    name="hostile", sources=(Source(name="connections", columns=columns, time="ts_us"),),
    boxes=(Filter(name="all", input="connections", cases={"yes": "port > 0"}),),
    outputs=(Output(name="some", input="all"),),
)
"""


@pytest.mark.long
@pytest.mark.parametrize("case", long_but(1, dangerous.REFUSED), ids=lambda case: case.name)
def test_a_replay_of_a_file_that_unpacks_to_much_is_refused_in_time_and_in_one_sentence(
    case: FileCase,
    run: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres_server: EmbeddedServer,
) -> None:
    monkeypatch.setenv("MEDUSA_CATALOG_URL", postgres_server.superuser_url())
    (tmp_path / "network.py").write_text(NETWORK)
    file = case.written(tmp_path)
    assert case.refused is not None
    words = ("replay", str(tmp_path / "network.py"), "--input", str(file))
    # A session of Spark, which is started meanwhile, is waited for.
    ended = run(*words, seconds_max=300)
    assert ended.code == 2, ended
    (output,) = [line for line in ended.errors.splitlines() if line.startswith("medusa: ")]
    a_sentence(output, case.refused, exit_code=ended.code)
