"""What the environment may say of metrics, and what of it is never repeated."""

from __future__ import annotations

import pytest

from medusa_core.errors import Refused
from pipelines.base.settings import Settings


@pytest.mark.parametrize(("said", "port"), [("", None), (" ", None), ("0", 0), ("9464", 9464)])
def test_metrics_are_off_on_a_free_port_or_on_one(said: str, port: int | None) -> None:
    assert Settings.from_environment({"MEDUSA_METRICS_PORT": said}).metrics_port == port
    assert Settings.from_environment({}).metrics_port is None


@pytest.mark.parametrize("said", ["-1", "65536", "http", "1.5", "٣", "0x10"])
def test_what_is_no_port_is_refused(said: str) -> None:
    with pytest.raises(Refused, match="MEDUSA_METRICS_PORT"):
        Settings.from_environment({"MEDUSA_METRICS_PORT": said})


@pytest.mark.parametrize("host", ["db:port/x", "db:54x2", "[::1]:a/x", "db:/x"])
def test_a_catalog_url_with_a_port_that_is_no_number_is_refused(host: str) -> None:
    with pytest.raises(Refused, match="port") as refused:
        Settings.from_environment({"MEDUSA_CATALOG_URL": f"postgresql://me:canary@{host}"})
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("host", ["db", "db:5432/x", "[::1]/x", "[::1]:5432/x", "db/x?host=/a:b"])
def test_any_other_host_is_taken_as_it_is(host: str) -> None:
    url = Settings.from_environment({"MEDUSA_CATALOG_URL": f"postgresql://me:a:b@{host}"})
    assert (url.catalog_url or "").endswith(host)
