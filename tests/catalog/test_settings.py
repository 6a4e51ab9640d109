"""The environment as values: defaults, templates, and a bad URL refused without repeating it."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.base.settings import REPOSITORY, Settings, SparkSettings


def test_an_empty_environment_means_everything_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_environment({"MEDUSA_CATALOG_URL": "", "MEDUSA_DIR": ""})
    assert settings.directory == tmp_path / ".medusa"
    assert settings.catalog_url is None
    assert settings.catalog_url_of("north") is None
    assert settings.has_catalog_per_participant
    assert settings.test_data == REPOSITORY.parent / "shared" / "data"


def test_a_url_with_a_participant_in_it_serves_several_homes() -> None:
    url = "postgres://medusa:secret@db:5432/medusa_{participant}"
    settings = Settings.from_environment({"MEDUSA_CATALOG_URL": url})
    assert settings.has_catalog_per_participant
    expected = "postgresql+psycopg2://medusa:secret@db:5432/medusa_north"
    assert settings.catalog_url_of("north") == expected


def test_a_url_without_one_serves_one_home() -> None:
    settings = Settings.from_environment({"MEDUSA_CATALOG_URL": "postgresql://db/medusa"})
    assert not settings.has_catalog_per_participant
    assert settings.catalog_url_of("north") == "postgresql+psycopg2://db/medusa"


@pytest.mark.parametrize(
    "url", ["sqlite:///secret", "secret", "postgresql://", "postgresql://h/{x}"]
)
def test_any_other_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Refused, match="MEDUSA_CATALOG_URL") as caught:
        Settings.from_environment({"MEDUSA_CATALOG_URL": url})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *[
            ("MEDUSA_DRIVER_MEMORY", value)
            for value in ("xx", "2", "-1g", "0g", "2 g", "2gb", "٢g")
        ],
        ("MEDUSA_ENGINE", "foo"),
        ("MEDUSA_SPARK_MASTER", "foo"),
    ],
)
def test_a_setting_of_spark_that_is_not_valid_is_refused_by_every_command(
    variable: str, value: str
) -> None:
    with pytest.raises(Refused, match=f"^{variable} is "):
        Settings.from_environment({variable: value})


@pytest.mark.parametrize("memory", ["2g", "512M", " 3g ", "4194304k"])
def test_the_memory_of_a_driver_is_a_number_with_a_unit(memory: str) -> None:
    environment = {"MEDUSA_DRIVER_MEMORY": memory}
    settings = SparkSettings.from_environment(environment, may_be_local=True)
    assert settings.driver_memory == memory.strip()
