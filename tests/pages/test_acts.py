"""Acts by form: the DAGs that pages lead to, the values that they fill in, and the last runs."""

from __future__ import annotations

import ast
import json
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pipelines.base.settings import REPOSITORY, Settings
from pipelines.cli.main import parser
from pipelines.operations import act_forms
from pipelines.pages.acts import FORM_DAGS, move_acts
from pipelines.pages.dag_runs import DagRun
from pipelines.pages.docs_page import section_ids
from pipelines.pages.viewer import Viewer
from tests.pages.pages_under_test import ALPHA, Shown
from tests.pages.same_elsewhere import check_same_elsewhere

VIC = Viewer(name="vic", roles=frozenset({"viewer"}), may_see_runs=True)
STREAM = "streams?home=alpha&stream=given"


def fields_of(dag: str) -> set[str]:
    """The fields of a DAG's form, as its file declares them."""
    found: set[str] = set()
    for path in (REPOSITORY / "dags").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "DAG":
                given = {one.arg: one.value for one in call.keywords}
                name, params = given["dag_id"], given["params"]
                if path.stem == dag or (isinstance(name, ast.Constant) and name.value == dag):
                    assert isinstance(params, ast.Dict)
                    found |= {k.value for k in params.keys if isinstance(k, ast.Constant)}  # type: ignore[misc]
    return found


def a_run(dag: str, number: int = 1, **form: Any) -> DagRun:
    return DagRun(dag=dag, run=f"manual__{number}", state="success", user="ola",
                  at_ms=1_700_000_000_000 + number, note=None, form=form)  # fmt: skip


def test_each_dag_with_a_form_is_listed_with_its_command_and_docs(shown: Shown) -> None:
    text = shown.part("actions")
    for dag in FORM_DAGS:
        assert f'href="../dags/{dag.name}"' in text
        assert fields_of(dag.name)
        if not dag.command.endswith("--help"):
            assert parser().parse_args(shlex.split(dag.command)[1:])
        page, _, section = dag.docs.partition("#")
        assert not section or section in section_ids(page), dag.docs


@pytest.mark.parametrize(
    ("page", "dags"),
    [
        (STREAM, {"medusa_recall", "medusa_revise", "medusa_quality"}),
        ("streams?home=beta&stream=lower", {"medusa_recall", "medusa_quality"}),
        ("federation?participant=alpha", {"medusa_pause", "medusa_deploy", "medusa_drill"}),
    ],
)
def test_acts_fill_in_fields_that_the_form_has(shown: Shown, page: str, dags: set[str]) -> None:
    name, _, values = page.partition("?")
    acts = shown.document(f"{name}.json?{values}")["acts"]
    assert {one["dag"] for one in acts} == dags
    text = unescape(shown.part(page))
    for one in acts:
        assert set(one["form"]) <= fields_of(one["dag"]), one
        assert json.dumps(one["form"]) in text
        assert f'href="../dags/{one["dag"]}"' in text


def test_the_values_of_a_stream_are_those_that_its_forms_take(shown: Shown) -> None:
    document = shown.document(f"{STREAM.replace('?', '.json?')}&from=1970-01-01T00:00:03Z")
    forms = {one["dag"]: one["form"] for one in document["acts"]}
    settings: Settings = shown.settings
    recall = act_forms.recall_request(settings, forms["medusa_recall"] | {"because": "x"}, "ola")
    assert (recall.participant, recall.stream, recall.from_us) == (ALPHA, "given", 3_000_000)
    with act_forms.revision_request(
        settings, forms["medusa_revise"] | {"because": "x", "records": "a\n1"}, "ola"
    ) as revision:
        assert revision.stream == "given"


def test_a_line_of_a_partner_offers_to_follow_it(shown: Shown) -> None:
    acts = shown.document("streams.json?home=alpha&stream=more")["acts"]
    follows = [one["form"].get("follow") for one in acts if one["dag"] != "medusa_quality"]
    assert follows == ["gamma", "gamma"]


def test_a_fragment_that_has_moved_is_offered_back_and_others_to_the_partner() -> None:
    move = {"state": "started", "payer": "alpha", "fragment": "net/main"}
    price = {"payer": "alpha", "provider": "beta", "fragments": ["net.main", "tail"]}
    acts = move_acts({"alpha"}, [move], [price])
    assert [one["form"] for one in acts] == [
        {"participant": "alpha", "fragment": "net/main", "action": "back"},
        {"participant": "alpha", "fragment": "tail", "action": "to", "partner": "beta"},
    ]
    assert move_acts({"beta"}, [move], [price]) == []


def test_who_may_not_trigger_is_led_to_no_form(shown: Shown) -> None:
    shown.viewer = VIC
    for page in (STREAM, "federation?participant=alpha", "actions"):
        text = shown.part(page)
        assert "Your role may not trigger it." in text
        assert "../dags/medusa_recall" not in text
        assert "Trigger medusa_" not in text


def test_runs_lead_to_airflow_and_those_about_a_stream_are_on_its_page(shown: Shown) -> None:
    shown.runs = (
        a_run("medusa_recall", 3, participant="alpha", stream="given", dry_run=True),
        a_run("medusa_recall", 2, participant="alpha", stream="more"),
        a_run("medusa_pause", 1, participants=["alpha"], action="pause"),
    )
    text = shown.part(STREAM)
    assert 'href="../dags/medusa_recall/runs/manual__3"' in text
    assert "dry run" in text
    assert "manual__2" not in text
    assert "manual__1" in shown.part("federation?participant=alpha")
    assert [one["run"] for one in shown.document("actions.json")["runs"]] == [
        "manual__3", "manual__2", "manual__1",
    ]  # fmt: skip


def test_a_run_about_a_home_that_is_hidden_is_not_shown(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.runs = (
        a_run("medusa_recall", 1, participant="beta", stream="lower"),
        a_run("medusa_drill", 2, participant="alpha", partner="beta"),
        a_run("medusa_pause", 3, participants=["alpha", "beta"]),
        a_run("medusa_settle", 4, participants=["alpha"]),
    )
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "ola: alpha; vic: *")
    assert [one["run"] for one in shown.document("actions.json")["runs"]] == ["manual__4"]
    shown.viewer = Viewer(name="vic", may_see_runs=False)
    assert shown.document("actions.json")["runs"] is None
    assert "Airflow lists them" in shown.part("actions")


def test_a_run_that_leaves_its_homes_to_the_folder_is_shown_to_who_sees_all_of_them(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.runs = (
        a_run("medusa_deploy", 5, participant=None),
        a_run("medusa_settle", 4, participants=[]),
        a_run("medusa_quality", 3, participant=" ", stream="lower"),
        a_run("medusa_move", 2, partner="alpha", fragment="main", action="to"),
        a_run("medusa_recall", 1, participant="alpha", stream="given"),
    )

    def runs() -> list[str]:
        return [one["run"] for one in shown.document("actions.json")["runs"]]

    everything = [f"manual__{number}" for number in (5, 4, 3, 2, 1)]
    assert runs() == everything
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "ola: alpha; vic: *")
    assert runs() == ["manual__1"]
    assert "manual__4" not in shown.part("actions")
    assert "manual__3" not in shown.part(STREAM)
    shown.viewer = VIC
    assert runs() == everything


def test_hostile_values_of_runs_are_escaped(shown: Shown) -> None:
    wrong = "<script>alert(1)</script>\"'"
    shown.runs = (
        DagRun(dag="medusa_recall", run=wrong, state=wrong, user=wrong, at_ms=0, note=wrong,
               form={"participant": "alpha", "stream": "given", "from": wrong}),
    )  # fmt: skip
    for page in (STREAM, "actions"):
        assert "<script" not in shown.part(page)


def test_the_section_of_acts_names_places_that_exist(shown: Shown) -> None:
    for page in (STREAM, "federation?participant=alpha"):
        check_same_elsewhere(shown, ALPHA, page)


def test_the_dags_of_acts_are_files() -> None:
    files = {path.stem for path in Path(REPOSITORY / "dags").glob("medusa_*.py")}
    assert {dag.name for dag in FORM_DAGS} <= files
