"""The page of actions: every DAG with a form, what it does, and its last runs."""

from __future__ import annotations

from pipelines.pages.acts import FORM_DAGS
from pipelines.pages.dag_elements import FORBIDDEN, dag_link, run_table
from pipelines.pages.dag_runs import RUNS_MAX, run_document
from pipelines.pages.elements import code, data_table, docs_link
from pipelines.pages.page_kinds import Document, Page, Request
from pipelines.report.markup import Markup, join, tag


def actions_document(request: Request) -> Document:
    """The DAGs, and the last runs that the viewer may see."""
    runs = request.last_runs()
    return {
        "may_trigger": request.viewer.may_trigger,
        "dags": [
            {"dag": one.name, "does": one.does, "command": one.command, "docs": one.docs}
            for one in FORM_DAGS
        ],
        "runs": None if runs is None else [run_document(one) for one in runs[: 3 * RUNS_MAX]],
    }


def render(document: Document) -> Markup:
    """A row for each DAG, and the runs."""
    may_trigger = document["may_trigger"]
    rows = [
        [
            tag("b", one["does"]),
            dag_link(one["dag"], f"Trigger {one['dag']}", class_="button") if may_trigger
            else tag("code", one["dag"]),
            code(one["command"]),
            docs_link(one["docs"], one["docs"].partition("#")[2].replace("-", " ") or one["docs"]),
        ]
        for one in document["dags"]
    ]  # fmt: skip
    columns = [("what", "main"), ("DAG", ""), ("command", ""), ("docs", "")]
    words = (
        "Each opens in Airflow, whose log is the record of who did what. The pages of a stream, of "
        "a participant and of contracts have the values for its form."
    )
    return join([
        tag("section", tag("p", words, class_="soft"),
            "" if may_trigger else tag("p", FORBIDDEN),
            data_table(columns, rows, "DAGs with a form", id_="dags-table"), id="dags"),
        tag("section", tag("h2", "Last runs"),
            run_table(document["runs"], "The last runs of these DAGs", id_="runs-table"),
            id="runs"),
    ])  # fmt: skip


ACTIONS = Page(name="actions", title="Actions", document=actions_document, render=render)
