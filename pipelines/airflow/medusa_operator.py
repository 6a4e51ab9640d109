"""The common base of Medusa's operators: settings, errors shown as one sentence, links."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseOperator

from medusa_core.errors import MedusaError
from pipelines.airflow.hooks import DEFAULT, MedusaHook
from pipelines.airflow.run_notes import BECAUSE
from pipelines.airflow.task_errors import airflow_error, log_failures_as_sentences
from pipelines.airflow.task_links import (
    PREFIX,
    CertificateLink,
    PageLink,
    ReportLink,
    page_address,
    url_of,
)
from pipelines.pages.page_address import with_values

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pipelines.base.settings import Settings

Done = TypeVar("Done")


class MedusaOperator(BaseOperator):
    """An operator whose refusals are sentences: in the log, in the task's error, in the run's note.

    Only what may go better by itself is retried (`airflow_error`).
    """

    ui_color = "#dfe8f5"
    operator_extra_links = (ReportLink(), CertificateLink(), PageLink())
    page = "federation"
    """The page of the site that shows what an operator of this kind is about."""

    def __init__(self, *, medusa_conn_id: str = DEFAULT, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.medusa_conn_id = medusa_conn_id
        self.report_url = ""
        self.certificate_url = ""
        self.page_url = f"{PREFIX}/{self.page}"

    @property
    def hook(self) -> MedusaHook:
        """The installation that this is about."""
        return MedusaHook(self.medusa_conn_id)

    def execute(self, context: Context) -> Any:
        """Call `act`; an error is raised as one that Airflow shows in one sentence."""
        return self.ran(context, lambda: self.act(self.hook.settings(), context))

    @abstractmethod
    def act(self, settings: Settings, context: Context) -> Any:
        """What this operator does; the answer is its XCom."""

    def ran(self, context: Context, act: Callable[[], Done]) -> Done:
        """Do something, and tell what is wrong with it where operators look."""
        try:
            return act()
        except MedusaError as error:
            context["ti"].xcom_push(key=BECAUSE, value=str(error))
            log_failures_as_sentences()
            raise airflow_error(error) from None

    def say(self, *lines: str) -> None:
        """Into the log of the task."""
        for line in lines:
            self.log.info("%s", line)

    def show(self, settings: Settings, document: Mapping[str, Any]) -> None:
        """Link to the pages that a document names."""
        pages = document.get("pages") or [document.get("report")]
        self.report_url = url_of(settings.directory, pages[0])
        docs = document.get("certificates") if "pages" in document else document.get("page")
        self.certificate_url = url_of(settings.directory, docs)

    def lead_to(self, page: str, **values: object) -> None:
        """Link to a page of the site, with these values behind `?`."""
        self.page_url = f"{PREFIX}/{with_values(page, **values)}"

    def say_pages(self) -> None:
        """Log where Airflow's server shows what this was about; its log makes links of them."""
        for name, url in (("report", self.report_url), ("certificate", self.certificate_url),
                          ("page", self.page_url)):  # fmt: skip
            if url:
                self.say(f"{name}: {page_address(url)}")


WHO_CHARACTERS_MAX, USER_CHARACTERS_MAX = 200, 60


def who(context: Context) -> str:
    """Who triggered a run, and which run it is, as it is recorded in homes; no two runs alike."""
    run = context["dag_run"]
    name = str(getattr(run, "triggering_user_name", None) or "")
    user = "".join(c for c in name if c.isprintable())[:USER_CHARACTERS_MAX].strip()
    words = f"{user}, Airflow {run.dag_id} {run.run_id}" if user else (
        f"Airflow {run.dag_id} {run.run_id}")  # fmt: skip
    if len(words) <= WHO_CHARACTERS_MAX:
        return words
    mark = sha256(run.run_id.encode()).hexdigest()[:16]
    return f"{words[: WHO_CHARACTERS_MAX - len(mark) - 1]} {mark}"
