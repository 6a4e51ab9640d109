"""What pages show of DAGs: a link, an act with the values of its form, the last runs.

Airflow's form takes no values from a link: they are beside it, to be copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pipelines.pages.elements import NOTHING, code, data_table, mark, moment, note
from pipelines.pages.mends import form_text
from pipelines.report.markup import Markup, tag

SHAPES = {"success": "stable", "failed": "up_failure"}
FORBIDDEN = "Your role may not trigger it."


def dag_link(name: str, words: str | None = None, *, class_: str | None = None) -> Markup:
    """To a DAG in Airflow, in Airflow's own window."""
    return tag("a", words or name, href=f"../dags/{quote(name)}", data_airflow="", class_=class_)


def trigger(dag: str, form: Mapping[str, Any] | None, *, may_trigger: bool) -> list[Markup]:
    """The button that leads to the form of a DAG, and the values to copy; for those who may."""
    values = [tag("span", "with ", class_="soft"), code(form_text(form))] if form else []
    if not may_trigger:
        return [tag("span", code(dag), class_="soft"), *values,
                tag("span", FORBIDDEN, class_="soft")]  # fmt: skip
    return [dag_link(dag, f"Trigger {dag}", class_="button"), *values]


def act_list(acts: Sequence[Mapping[str, Any]], *, may_trigger: bool) -> Markup:
    """Acts, each with what it does."""
    items = [
        tag("div", tag("span", one["does"], class_="label"),
            *trigger(one["dag"], one["form"], may_trigger=may_trigger), class_="act")
        for one in acts
    ]  # fmt: skip
    return tag("div", *items)


def run_table(runs: Sequence[Mapping[str, Any]] | None, caption: str, *, id_: str) -> Markup:
    """The last runs; None where there is nobody to ask for them."""
    if runs is None:
        return note("empty", "The runs are not shown to you here: Airflow lists them.")
    if not runs:
        return note("empty", "No run of it is known.")
    rows = [
        [
            tag("a", one["dag"], href=f"../dags/{quote(one['dag'])}/runs/{quote(one['run'])}",
                data_airflow="", title=one["run"]),
            mark(SHAPES.get(one["state"], "stabilization"), one["state"]),
            moment(one["at_ms"], shows="since"), one["user"] or NOTHING, _about(one),
            one["note"] or NOTHING,
        ]
        for one in runs
    ]  # fmt: skip
    columns = [("run of", "main"), ("state", ""), ("since", ""), ("by", ""), ("about", ""),
               ("note", "wide-text")]  # fmt: skip
    return data_table(columns, rows, caption, id_=id_)


def _about(one: Mapping[str, Any]) -> object:
    words = [
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in one["about"].items()
    ]
    if one["is_dry"]:
        words.append("dry run")
    return ", ".join(words) or NOTHING
