"""What the environment may say of metrics, and what of it is never repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.base.settings import (
    FAILPOINT,
    FAILPOINT_FILE,
    Failpoint,
    Settings,
    environment,
)


@pytest.mark.parametrize(("said", "port"), [("", None), (" ", None), ("0", 0), ("9464", 9464)])
def test_metrics_are_off_on_a_free_port_or_on_one(said: str, port: int | None) -> None:
    assert Settings.from_environment({"MEDUSA_METRICS_PORT": said}).metrics_port == port
    assert Settings.from_environment({}).metrics_port is None


@pytest.mark.parametrize("said", ["-1", "65536", "http", "1.5", "٣", "0x10"])
def test_what_is_no_port_is_refused(said: str) -> None:
    with pytest.raises(Refused, match="MEDUSA_METRICS_PORT"):
        Settings.from_environment({"MEDUSA_METRICS_PORT": said})


def test_metrics_are_for_this_machine_alone_unless_an_address_is_given() -> None:
    assert Settings.from_environment({}).metrics_host == "127.0.0.1"
    assert Settings.from_environment({"MEDUSA_METRICS_HOST": " 0.0.0.0 "}).metrics_host == "0.0.0.0"
    for no_address in ("everywhere", "0.0.0.0:9464", "1.2.3", "$(id)"):
        with pytest.raises(Refused, match=r"MEDUSA_METRICS_HOST.*is not an address"):
            Settings.from_environment({"MEDUSA_METRICS_HOST": no_address})


@pytest.mark.parametrize("host", ["db:port/x", "db:54x2", "[::1]:a/x", "db:/x"])
def test_a_catalog_url_with_a_port_that_is_no_number_is_refused(host: str) -> None:
    with pytest.raises(Refused, match="port") as refused:
        Settings.from_environment({"MEDUSA_CATALOG_URL": f"postgresql://me:canary@{host}"})
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("host", ["db", "db:5432/x", "[::1]/x", "[::1]:5432/x", "db/x?host=/a:b"])
def test_any_other_host_is_taken_as_it_is(host: str) -> None:
    url = Settings.from_environment({"MEDUSA_CATALOG_URL": f"postgresql://me:a:b@{host}"})
    assert (url.catalog_url or "").endswith(host)


@pytest.mark.parametrize(
    ("said", "pass_number"), [("step.computed", 1), ("step.computed:", 1), ("step.computed:12", 12)]
)
def test_a_failpoint_names_a_point_and_one_of_its_passes(said: str, pass_number: int) -> None:
    found = Failpoint.from_environment({FAILPOINT: said, FAILPOINT_FILE: "/a/file"})
    assert found == Failpoint(point="step.computed", pass_number=pass_number, file=Path("/a/file"))
    assert Failpoint.from_environment({FAILPOINT: said}) is None
    assert Failpoint.from_environment({FAILPOINT_FILE: "/a/file"}) is None


@pytest.mark.parametrize("said", ["p:x", "p:0", "p:-1", "p:1:2", "p:²", "p:" + "9" * 5_000])
def test_a_pass_that_is_not_a_number_is_refused_when_a_command_starts(said: str) -> None:
    with pytest.raises(Refused, match=FAILPOINT):
        Settings.from_environment({FAILPOINT: said, FAILPOINT_FILE: "/a/file"})


def test_a_child_finds_the_same_homes() -> None:
    settings = Settings.from_environment({"MEDUSA_DIR": "/srv/homes"})
    child = settings.environment_of_child({"PATH": "/bin", "MEDUSA_CATALOG_URL": "another"})
    assert child == {
        "PATH": "/bin",
        "MEDUSA_DIR": "/srv/homes",
        "MEDUSA_CATALOG_URL": "",
        "MEDUSA_EXCHANGE_NAME": "",
        "MEDUSA_EXCHANGE_PORT": "",
    }


def test_the_environment_is_read_only_and_current(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = environment()
    monkeypatch.setenv("SOMETHING_NEW", "1")
    assert seen["SOMETHING_NEW"] == "1"
    with pytest.raises(TypeError):
        seen["SOMETHING_NEW"] = "2"  # type: ignore[index]
