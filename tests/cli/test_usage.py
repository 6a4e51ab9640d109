"""A mistyped command, option or value: one sentence with the nearest one, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cli.main import main
from tests.sweeps import long_but


@pytest.mark.parametrize(
    ("typed", "words"),
    long_but(
        3,
        [
            ("replya netmon", "there is no command 'replya': did you mean 'replay'?"),
            ("backup", "there is no command 'backup': write one of"),
            ("read x --jsn", "there is no option '--jsn': did you mean '--json'?"),
            ("replay netmon --inptu f", "there is no option '--inptu': did you mean '--input'?"),
            ("run --until_ended", "did you mean '--until-ended'? (see medusa run --help)"),
            ("read x --particpant=a", "did you mean '--participant'?"),
            ("--jsn", "there is no option '--jsn'"),
            ("generate d --format cvs", "--format cannot be 'cvs': did you mean 'csv'?"),
            ("simulate fautls", "cannot be 'fautls': did you mean 'faults'?"),
            ("completion fihs", "SHELL cannot be 'fihs': did you mean 'fish'?"),
            ("recipient revoke acme --token x", "'x' is not the number of a token: give the one"),
            ("read x y", "unrecognized arguments: y"),
            ("read " + "--" + "x" * 100_000, "there is no option '--xxx"),
            ("z" * 100_000, "there is no command 'zzz"),
        ],
    ),
)
def test_a_mistyped_word_is_refused_with_the_nearest_one(
    typed: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    assert ended.value.code == 2
    output = capsys.readouterr().err
    assert words in output
    assert len(output) < 1_000
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize("given", ["40d", "400d"])
def test_an_invitation_has_one_limit_of_time(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    assert main(["partner", "invite", "beta", "--expires", given]) == 2
    assert "out of range: above 0 and at most 31 days" in capsys.readouterr().err


def test_the_beginning_of_an_option_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    assert main(["read", "x", "--js"]) == 2
    assert "there is no home" in capsys.readouterr().err


def test_a_participant_that_is_not_there_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home.json").write_text('{"participants": {"alpha": "medusa_alpha"}}')
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    for command in (["streams"], ["run"]):
        assert main([*command, "--participant", "alhpa"]) == 2
        assert "did you mean 'alpha'?" in capsys.readouterr().err
