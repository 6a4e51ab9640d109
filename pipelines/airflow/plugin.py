"""Airflow's plugin: links, the pages behind them, notes of failed runs."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from pipelines.airflow import run_notes
from pipelines.airflow.task_links import PREFIX, CertificateLink, PageLink, ReportLink


class _Pages:
    """Made on first use: only the server uses them, and other processes need no web framework."""

    def __get__(self, plugin: object, kind: type | None = None) -> list[dict[str, Any]]:
        from pipelines.airflow.pages import pages_app

        return [{"app": pages_app(), "url_prefix": PREFIX, "name": "Medusa's pages"}]


MENU = {
    "name": "Medusa",
    # Relative to the address of Airflow, which may be below a path.
    "href": f"{PREFIX.lstrip('/')}/federation",
    "icon": f"{PREFIX.lstrip('/')}/static/icon.svg",
    "url_route": "medusa",
    "destination": "nav",
    "nav_top_level": True,
}
"""The entry of Airflow's menu, which shows the page in Airflow's window."""


class MedusaPlugin(AirflowPlugin):
    """Registered by `plugins/medusa.py`."""

    name = "medusa"
    operator_extra_links = [ReportLink(), CertificateLink(), PageLink()]  # noqa: RUF012 - as Airflow has it
    listeners = [run_notes]  # noqa: RUF012
    fastapi_apps = _Pages()
    external_views = [MENU]  # noqa: RUF012
