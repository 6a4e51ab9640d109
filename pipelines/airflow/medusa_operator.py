"""The common base of Medusa's operators: settings, errors shown as one sentence, links."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseOperator

from medusa_core.errors import MedusaError
from pipelines.airflow.hooks import DEFAULT, MedusaHook
from pipelines.airflow.run_notes import BECAUSE
from pipelines.airflow.task_errors import airflow_error, log_failures_as_sentences
from pipelines.airflow.task_links import CertificateLink, ReportLink, page_address, url_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pipelines.base.settings import Settings

Done = TypeVar("Done")


class MedusaOperator(BaseOperator):
    """An operator whose refusals are sentences: in the log, in the task's error, in the run's note.

    Only what may go better by itself is retried (`airflow_error`).
    """

    ui_color = "#dfe8f5"
    operator_extra_links = (ReportLink(), CertificateLink())

    def __init__(self, *, medusa_conn_id: str = DEFAULT, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.medusa_conn_id = medusa_conn_id
        self.report_url = ""
        self.certificate_url = ""

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

    def say_pages(self) -> None:
        """Log where Airflow's server shows what `show` was given; its log makes links of them."""
        for name, url in (("report", self.report_url), ("certificate", self.certificate_url)):
            if url:
                self.say(f"{name}: {page_address(url)}")


def who(context: Context) -> str:
    """Who asks, as it is written down in homes."""
    run = context["dag_run"]
    return f"Airflow {run.dag_id} {run.run_id}"[:200]
