"""Values of forms are checked by themselves, whatever they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.operations import form_values
from pipelines.operations.closed_windows import window_of

HOME = '{"participants": {"alpha": "medusa_alpha", "beta": "medusa_beta"}}'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "home.json").write_text(HOME)
    return replace(Settings.from_environment({}), directory=tmp_path)


def test_participants_are_named_in_a_line_in_a_list_or_not_at_all(settings: Settings) -> None:
    for value in ("beta, alpha,beta", ["beta", "alpha", " beta "]):
        assert form_values.participants_of("participants", settings, value) == ["beta", "alpha"]
    for value in (None, "", [], " , "):
        assert form_values.participants_of("participants", settings, value) == ["alpha", "beta"]


@pytest.mark.parametrize(
    "value", ["gamma", "alpha; ls", "alpha'--", "../alpha", "alpha\0", "$(id)", "ALPHA", 7, [7],
              {"a": 1}, "x" * 5_000],
)  # fmt: skip
def test_no_other_name_passes(settings: Settings, value: Any) -> None:
    with pytest.raises(Refused):
        form_values.participants_of("participants", settings, value)


@pytest.mark.parametrize("value", ["-1s", "0s", "1", "1 fortnight", "1e9s", "99999999d", "1h", 5])
def test_a_duration_is_one_and_in_range(value: Any) -> None:
    with pytest.raises(Refused, match="lasts"):
        form_values.duration_of("lasts", value, most_us=60_000_000)


def test_a_duration_or_a_time_may_be_left_empty() -> None:
    assert form_values.duration_of("lasts", " ", most_us=1) is None
    assert form_values.duration_of("lasts", "30s", most_us=60_000_000) == 30_000_000
    assert form_values.time_of("from", None) is None


def test_contracts_are_taken_from_below_their_root_alone(tmp_path: Path) -> None:
    root = tmp_path / "contracts"
    (root / "north").mkdir(parents=True)
    (root / "out").symlink_to("/etc")
    assert form_values.folder_of("contracts", None, root) == root.resolve()
    assert form_values.folder_of("contracts", "north", root) == (root / "north").resolve()
    for value in ("..", "/etc", "out", "north/../../x", "south", "a\0b"):
        with pytest.raises(Refused, match="contracts"):
            form_values.folder_of("contracts", value, root)


def test_a_window_is_named_by_its_key(settings: Settings) -> None:
    key = "alpha/busy_sources/2026-01-05T08:00:00Z/2026-01-05T09:00:00Z"
    assert window_of(settings, key).key == key
    for wrong in ("alpha/busy_sources", key.replace("alpha", "gamma"), key.replace("busy", "B;"),
                  key.replace("2026-01-05T08:00:00Z", "today"), "", "////"):  # fmt: skip
        with pytest.raises(Refused):
            window_of(settings, wrong)
