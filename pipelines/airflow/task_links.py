"""Links from a task to the report and the certificate that it wrote, and to the operator's page.

Pages are stored in MEDUSA_DIR; Airflow's own server shows them to logged-in users (`pages.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/medusa"
FOLDERS = ("reports", "quality")


def url_of(directory: Path, page: Path | str | None) -> str:
    """Where a page of the folder is shown; empty for none, and for what lies elsewhere."""
    if not page:
        return ""
    try:
        below = Path(page).resolve().relative_to(directory.resolve())
    except ValueError:
        return ""
    is_page = bool(below.parts) and below.parts[0] in FOLDERS
    return f"{PREFIX}/pages/{quote(below.as_posix())}" if is_page else ""


def page_address(path: str) -> str:
    """The whole address of a page of Airflow's server."""
    return f"{str(conf.get('api', 'base_url', fallback='')).rstrip('/')}{path}"


class ReportLink(BaseOperatorLink):
    """To the page that a task wrote."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return str(getattr(operator, "report_url", ""))


class PageLink(BaseOperatorLink):
    """To the page of the federation that shows what a task was about."""

    name = "Medusa page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return str(getattr(operator, "page_url", ""))


class CertificateLink(BaseOperatorLink):
    """To the pages of the checks that a task made."""

    name = "Certificate"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return str(getattr(operator, "certificate_url", ""))
