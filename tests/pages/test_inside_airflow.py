"""The page inside Airflow: its menu, its frame, its logins and roles, on the real server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.airflow.conftest import environment
from tests.hosting.browsing import CHROMIUM, Person, person
from tests.hosting.platforms import port_of_ones_own
from tests.layout.rooms import ROOT
from tests.pages.pages_under_test import Shown
from tests.pages.test_in_browser import PICTURES
from tests.waiting import until

pytestmark = pytest.mark.browser

PASSWORD = "as-the-test-says"
USERS = {"admin": "admin", "ola": "op", "uma": "user", "vic": "viewer"}


class Airflow:
    """Airflow's server with our plugin over the homes of a test."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        request = urllib.request.Request(f"{self.url}{path}", headers=dict(headers or {}))
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def trigger(self, dag: str, headers: Mapping[str, str], form: Mapping[str, object]) -> int:
        body = json.dumps({"logical_date": None, "conf": form}).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v2/dags/{dag}/dagRuns", body,
            {**headers, "Content-Type": "application/json"},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def token(self, user: str) -> str:
        body = json.dumps({"username": user, "password": PASSWORD}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/auth/token", body, headers)
        with urllib.request.urlopen(request) as answer:
            return str(json.load(answer)["access_token"])

    def answers(self) -> bool:
        try:
            return self.get("/medusa/static/icon.svg")[0] == 200
        except OSError:
            return False


@pytest.fixture
def airflow(shown: Shown, tmp_path: Path) -> Iterator[Airflow]:
    home = tmp_path / "airflow"
    home.mkdir()
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps(dict.fromkeys(USERS, PASSWORD)))
    surroundings = environment(home, shown.settings, tmp_path / "contracts") | {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(map(":".join, USERS.items())),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API__SECRET_KEY": "of-a-test",
        "AIRFLOW__API_AUTH__JWT_SECRET": "of-a-test-" * 8,
        "AIRFLOW__API__WORKERS": "1",
        "MEDUSA_PAGE_HOMES": "role:admin: *; role:op: *; uma: alpha; role:viewer: beta",
    }
    port = port_of_ones_own()
    program = [sys.executable, "-m", "airflow"]
    with (home / "words").open("w") as words:

        def run(*arguments: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*program, *arguments], env=surroundings, cwd=ROOT,
                                    stdout=words, stderr=words, start_new_session=True)  # fmt: skip

        for words_of in (("db", "migrate"), ("dags", "reserialize")):
            assert run(*words_of).wait(300) == 0, (home / "words").read_text()[-2_000:]
        server = run("api-server", "--host", "127.0.0.1", "--port", str(port))
        made = Airflow(f"http://127.0.0.1:{port}")
        try:
            until(made.answers, "Airflow's server answers", 240)
            yield made
        finally:
            os.killpg(server.pid, 9)
            server.wait(30)


FORMS: Mapping[str, Mapping[str, object]] = {
    "medusa_recall": {"participant": "alpha", "stream": "given", "from": "1970-01-01T00:00:03Z"},
    "medusa_revise": {"participant": "alpha", "stream": "given", "action": "add"},
    "medusa_move": {"participant": "alpha", "fragment": "main", "action": "back"},
    "medusa_pause": {"participants": ["beta"], "action": "pause", "because": "new disks"},
}


def test_who_may_trigger_acts_and_see_their_runs(airflow: Airflow) -> None:
    tokens = {user: {"Authorization": f"Bearer {airflow.token(user)}"} for user in USERS}
    for dag, form in FORMS.items():
        answers = {user: airflow.trigger(dag, tokens[user], form) for user in ("ola", "vic")}
        assert answers == {"ola": 200, "vic": 403}, dag
        assert airflow.trigger(dag, {}, form) == 401
    wrong = FORMS["medusa_recall"] | {"stream": "'; DROP TABLE x"}
    assert airflow.trigger("medusa_recall", tokens["ola"], wrong) == 400, "the form's own check"
    shown = {
        user: json.loads(airflow.get("/medusa/actions.json", header)[1])
        for user, header in tokens.items()
    }
    assert {one["dag"] for one in shown["ola"]["runs"]} == set(FORMS)
    assert {one["user"] for one in shown["ola"]["runs"]} == {"ola"}
    assert [one["dag"] for one in shown["vic"]["runs"]] == ["medusa_pause"], "vic sees beta alone"
    assert not shown["vic"]["may_trigger"]
    part = airflow.get("/medusa/streams?home=alpha&stream=given&part=1", tokens["ola"])[1]
    assert re.search(r'href="../dags/medusa_recall/runs/manual__[^"]+"', part)


@pytest.fixture
def operator(airflow: Airflow) -> Iterator[Person]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not on this machine: install Debian's chromium")
    with person(airflow.url, PICTURES) as one:
        one.logs_in(PASSWORD)
        yield one


def test_the_menu_leads_to_the_page_and_its_links_leave_the_frame(
    airflow: Airflow, operator: Person
) -> None:
    tokens = {user: {"Authorization": f"Bearer {airflow.token(user)}"} for user in USERS}
    shown = {
        user: json.loads(airflow.get("/medusa/to-do.json", header)[1])
        for user, header in tokens.items()
    }
    assert {user: one["homes"] for user, one in shown.items()} == {
        "admin": ["alpha", "beta"], "ola": ["alpha", "beta"], "uma": ["alpha"], "vic": ["beta"],
    }  # fmt: skip
    assert {user: one["may_trigger"] for user, one in shown.items()} == {
        "admin": True, "ola": True, "uma": True, "vic": False,
    }  # fmt: skip
    for path in ("/medusa/federation", "/medusa/to-do.json", "/medusa/docs/alarms"):
        assert airflow.get(path)[0] == 401
        assert airflow.get(path, {"Authorization": "Bearer none"})[0] == 401
    assert airflow.get("/medusa/pages/reports/none.html", tokens["ola"])[0] == 404
    assert airflow.get("/medusa/pages/reports/none.html", tokens["vic"])[0] == 403
    page = operator.page
    operator.go("/")
    page.get_by_role("link", name=re.compile("Medusa")).first.click()
    frame = page.frame_locator("iframe[title=Medusa]")
    frame.locator("#fragments-table").get_by_text("kept/main").first.wait_for()
    operator.see("inside-airflow")
    frame.get_by_role("link", name="What to do").click()
    frame.get_by_role("heading", name="The newest results lack an input").wait_for()
    operator.see("to-do-inside-airflow")
    page.evaluate("""() => { const one = document.querySelector('iframe').contentDocument
        .createElement('a'); one.href = '/dags/medusa_deploy'; one.dataset.airflow = '';
        one.textContent = 'leave'; document.querySelector('iframe').contentDocument
        .getElementById('main').prepend(one); }""")
    frame.get_by_text("leave", exact=True).click()
    page.wait_for_url("**/dags/medusa_deploy")
