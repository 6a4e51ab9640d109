"""What a shell offers after Tab: asked of the program, and typed into the shells that are here."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from pipelines.cli.completion import FILES
from pipelines.cli.main import main, parser
from tests.sweeps import long_but
from tests.terminals import install_medusa

SECONDS_MAX = 60


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a home (solo, far away) and contracts, in which is typed."""
    home = tmp_path / ".medusa"
    for folder in ("storage/solo/prices", "storage/solo/Not A Name", "away/trades"):
        (home / folder).mkdir(parents=True)
    participants = {"solo": "medusa_solo", "far": "medusa_far", "$(touch gone)": "x"}
    record = {"participants": participants, "storage": {"far": "away"}}
    (home / "home.json").write_text(json.dumps(record))
    for contract in ("participants/alpha", "streams/connections_a", "streams/`id`"):
        path = tmp_path / "contracts" / f"{contract}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "network.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDUSA_DIR", raising=False)
    return tmp_path


@pytest.fixture
def offered(place: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What is offered in the place of the last word."""

    def ask(*words: str) -> list[str]:
        assert main(["completion", "--words", *(f"={word}" for word in words)]) == 0
        return capsys.readouterr().out.splitlines()

    return ask


@pytest.mark.parametrize(
    ("words", "wanted"),
    long_but(
        6,
        [
            (("re",), ["read", "recall", "recipient", "replay", "revise"]),
            (("read", ""), ["connections_a", "prices", "trades"]),
            (("trim", "prices", "t"), ["trades"]),
            (("read", "prices", ""), []),
            (("read", "--participant", ""), ["alpha", "far", "solo"]),
            (("read", "--participant=f"), ["--participant=far"]),
            (("read", "--participant", "=", "f"), ["far"]),
            (("read", "--participant", "="), ["alpha", "far", "solo"]),
            (("read", "--limit", ""), []),
            (("read", "--json", "prices", "--js"), []),
            (("read", "--", "p"), ["prices"]),
            (("replay", "road"), ["road_sensors", FILES]),
            (("replay", "netmon", "--input", "a.csv", ""), [FILES]),
            (("generate", "d", "--format", ""), ["csv", "parquet"]),
            (("simulate", ""), ["faults", "market"]),
            (("completion", ""), ["bash", "fish", "zsh"]),
            (("nonsense", ""), []),
            (("read", "--nonsense", "p"), ["prices"]),
            (("read", "\x1b`$(", ""), []),
        ],
    ),
)
def test_what_may_come_next_is_offered(
    offered: Callable[..., list[str]], words: tuple[str, ...], wanted: list[str]
) -> None:
    assert offered(*words) == wanted


@pytest.mark.long
def test_every_command_and_every_option_is_offered(offered: Callable[..., list[str]]) -> None:
    commands = parser().commands()
    assert offered("") == sorted(commands)
    for name, command in commands.items():
        shown = command.format_help()
        options = offered(name, "--")
        assert "--help" in options
        assert all(option in shown for option in options)


@pytest.mark.long
def test_what_cannot_be_read_has_no_names(offered: Callable[..., list[str]], place: Path) -> None:
    for record in ('{"participants": 3}', "[" * 100_000, "[1]", '{"participants": {"a": 1}, "x'):
        (place / ".medusa" / "home.json").write_text(record)
        assert offered("read", "") == ["connections_a"]
        assert offered("read", "--participant", "") == ["alpha"]
    shutil.rmtree(place / ".medusa")
    shutil.rmtree(place / "contracts")
    assert offered("read", "") == []


def test_a_shell_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion"]) == 2
    assert "bash, zsh or fish" in capsys.readouterr().err


# ------------------------------------------------------------ shells


@pytest.fixture
def program(place: Path) -> Iterator[Path]:
    """A folder with a `medusa` that is the program under test."""
    return install_medusa(place / "a bin")


@pytest.mark.parametrize(
    ("shell", "start"),
    long_but(
        1,
        [
            ("bash", ["bash", "--norc", "--noprofile", "-i"]),
            ("zsh", ["zsh", "-f", "-i"]),
            ("fish", ["fish", "--no-config", "--interactive"]),
        ],
    ),
)
def test_tab_completes_in_the_shell(
    shell: str, start: list[str], program: Path, place: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    load = "medusa completion fish | source" if shell == "fish" else (
        f"{'autoload -Uz compinit; compinit -u -D; ' if shell == 'zsh' else ''}"
        f"source <(medusa completion {shell})"
    )  # fmt: skip
    with_names = [
        # Quoted in two, the word is not in what the terminal echoes.
        (f"{load}; echo lo''aded\n", "loaded"),
        ("medusa trim --comp\t", "--compact"),
        ("\x15medusa read --participant so\t", "solo"),
        ("\x15medusa read pri\t", "prices"),
        ("\x15medusa replay netwo\t", "network.py"),
    ]
    output = typed(start, with_names, program, place)
    assert "Traceback" not in output
    assert "command not found" not in output


def typed(start: list[str], lines: list[tuple[str, str]], program: Path, place: Path) -> str:
    """Type into an interactive shell, each line once the one before had its effect."""
    environment = {
        **os.environ,
        "PATH": f"{program}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "TERM": "dumb",
        "PS1": "$ ",
        "HOME": str(place),
    }
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(start[0], start, environment)
    output = ""
    try:
        for line, expected in lines:
            heard = ""
            os.write(terminal, line.encode())
            give_up = time.monotonic() + SECONDS_MAX
            while expected not in heard:
                assert time.monotonic() < give_up, f"{line!r} gave {heard!r}"
                if select.select([terminal], [], [], 0.1)[0]:
                    heard += os.read(terminal, 4_096).decode(errors="replace")
            output += heard
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return output
