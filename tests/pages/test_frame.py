"""What all pages share: who sees what, how they are kept current, and what cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from contextlib import closing

import pytest
from sqlalchemy import text
from sqlalchemy.exc import InternalError, ProgrammingError

from medusa_core.errors import Refused
from pipelines.homes.home import RECORD
from pipelines.homes.page_access import read_access
from pipelines.pages import federation_document
from pipelines.pages.docs_page import DOCS, docs_page
from pipelines.pages.page_home import PageHome, Snapshot
from pipelines.pages.readings import OLDEST_S
from pipelines.pages.site import PAGES
from pipelines.pages.to_do_figures import problem_kind
from pipelines.pages.viewer import Viewer, homes_of
from tests.pages.pages_under_test import ALPHA, BETA, Shown

ANNA = Viewer(name="anna", roles=frozenset({"viewer"}))


def test_nobody_who_is_not_logged_in_is_shown_anything(shown: Shown) -> None:
    shown.viewer = None
    for page in PAGES:
        for path in (page.name, f"{page.name}?part=1", f"{page.name}.json", "docs/alarms"):
            answer = shown.get(path)
            assert answer.status_code == 401
            assert "alpha" not in answer.text


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (None, ["alpha", "beta"]),
        ("anna: beta", ["beta"]),
        ("role:viewer: alpha", ["alpha"]),
        ("anna: beta; role:viewer: alpha", ["alpha", "beta"]),
        ("anna: *", ["alpha", "beta"]),
        ("lea: *", []),
        ("anna: gamma", []),
        ("role:Viewer: alpha; role:VIEWER: beta", ["alpha", "beta"]),
        ("Anna: alpha", []),
    ],
)
def test_a_viewer_sees_the_homes_that_are_given_to_user_or_role(
    given: str | None, seen: list[str]
) -> None:
    assert homes_of(ANNA, read_access(given), [BETA, ALPHA]) == seen


def test_a_user_who_is_named_like_a_role_gets_nothing_by_it() -> None:
    named = Viewer(name="role:admin", roles=frozenset({"Viewer"}))
    access = read_access("role:admin: alpha; role:viewer: beta")
    assert homes_of(named, access, [ALPHA, BETA]) == [BETA]


@pytest.mark.parametrize("given", ["anna", "anna: beta: alpha", "anna: Not-A-Name", ": beta"])
def test_an_entry_that_says_no_homes_is_refused(given: str) -> None:
    with pytest.raises(Refused):
        read_access(given)


def test_homes_that_are_not_given_are_in_no_answer(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "ola: alpha")
    document = shown.document("federation.json")
    assert document["homes"] == ["alpha"]
    assert all("host-beta" not in json.dumps(one) for one in document["fragments"])
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "lea: alpha")
    assert "There is no home to show" in shown.part("federation")


def test_a_wrong_setting_is_said_in_a_sentence(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "nonsense")
    answer = shown.get("federation")
    assert answer.status_code == 503
    assert "MEDUSA_PAGE_HOMES has the entry" in answer.text


def test_a_part_that_has_not_changed_is_not_sent_again(shown: Shown) -> None:
    first = shown.get("federation?part=1")
    again = shown.get("federation?part=1", {"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    shown.sql(BETA, "UPDATE medusa.transition SET because = 'without given'")
    changed = shown.get("federation?part=1", {"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200
    assert "without given" in changed.text


def test_pages_run_no_script_but_their_own_and_are_framed_by_airflow_alone(shown: Shown) -> None:
    answer = shown.get("federation")
    policy = answer.headers["content-security-policy"]
    assert "unsafe-inline" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)
    assert not re.search(r'\s(?:style|on\w+)="', answer.text)
    for name in re.findall(r"/medusa/(static/[\w.]+)\?", answer.text):
        assert shown.get(name).status_code == 200


def test_many_pages_share_the_readings_of_a_home(shown: Shown) -> None:
    shared = Shown(shown.settings, shown.server, fresh_s=300)
    with closing(shared.readings):
        first = shared.document("federation.json")
        shown.sql(BETA, "UPDATE medusa.transition SET because = 'changed'")
        for _ in range(20):
            assert shared.document("federation.json") == first


def test_a_viewer_who_makes_up_values_makes_nobodys_readings_older(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Shown(shown.settings, shown.server, fresh_s=0.001)
    charged: list[object] = []
    charge = shared.readings.charge

    def charge_as_if_slow(what: Hashable, cost_s: float) -> None:
        charged.append(what)
        charge(what, 0.1)

    monkeypatch.setattr(shared.readings, "charge", charge_as_if_slow)
    with closing(shared.readings):
        shared.part("federation")
        allowed_s = shared.readings.allowed_age_s
        for number in range(20):
            shared.part(f"federation?made-up={number}")
        assert charged == ["federation"], "a value that a page does not have is no other page"
        for number in range(20):
            shared.part(f"federation?participant=p{number}")
        assert len(charged) == 21
        assert shared.readings.allowed_age_s < allowed_s + 10.0


def test_no_reading_is_older_than_a_minute_however_long_it_took_on_a_busy_machine(
    shown: Shown,
) -> None:
    shared = Shown(shown.settings, shown.server, fresh_s=5)
    with closing(shared.readings):
        shared.part("federation")
        shared.readings.charge("federation", 30.0)
        assert shared.readings.allowed_age_s == OLDEST_S == 60


def test_a_home_that_cannot_be_read_keeps_its_last_figures_and_is_read_again(
    shown: Shown,
) -> None:
    assert shown.document("federation.json")["problems"] == []
    password = shown.settings.directory / "keys" / "beta" / "logins" / "page"
    secret = password.read_text()
    password.unlink()
    # The connection that there is still serves; a new one needs the password.
    shown.readings.close()
    broken = shown.document("federation.json")
    assert [one["home"] for one in broken["problems"]] == ["beta"]
    assert "has no password" in broken["problems"][0]["because"]
    assert any(one["participant"] == "beta" for one in broken["fragments"]), "the last figures"
    assert "home of beta" in shown.part("federation")
    password.touch(mode=0o600)
    password.write_text(secret)
    assert shown.document("federation.json")["problems"] == []


def test_an_error_of_a_page_is_kept_as_any_other_and_not_repeated_with_each_request(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reads: list[str] = []

    def read_federation(home: Snapshot) -> None:
        reads.append(home.participant)
        raise KeyError("secret")

    monkeypatch.setattr(federation_document, "read_federation", read_federation)
    shared = Shown(shown.settings, shown.server, fresh_s=300)
    with closing(shared.readings):
        for _ in range(5):
            problems = shared.document("federation.json")["problems"]
    assert sorted(reads) == [ALPHA, BETA]
    assert [one["home"] for one in problems] == [ALPHA, BETA]
    assert problems[0]["because"] == "reading it failed with KeyError, see the log"
    assert "secret" in caplog.text
    assert problem_kind(problems[0]["because"]) == "read_failed"


def test_a_folder_without_homes_says_how_to_begin(shown: Shown) -> None:
    (shown.settings.directory / RECORD).unlink()
    text = shown.part("federation")
    assert "There is no home to show" in text
    for command in ("medusa init", "medusa apply", "medusa doctor"):
        assert command in text


def test_what_the_page_reads_with_cannot_write(shown: Shown) -> None:
    with closing(PageHome(shown.settings, ALPHA)) as home:
        with home.snapshot() as snapshot:
            assert snapshot.rows("page_home")[0]["participant"] == "alpha"
        with home._engine.connect() as connection, pytest.raises(InternalError, match="read-only"):
            connection.execute(text("DELETE FROM medusa.lease"))
        with home._engine.connect() as connection:
            connection.execute(text("SET default_transaction_read_only = off"))
            with pytest.raises(ProgrammingError, match="permission denied"):
                connection.execute(text("DELETE FROM medusa.lease"))


def test_every_page_of_the_documentation_is_shown_and_nothing_else(shown: Shown) -> None:
    for file in DOCS.glob("*.md"):
        found = docs_page(file.stem)
        assert found is not None, file.stem
        assert "<script" not in found[1]
    for name in ("../README", "..", "none", "Alarms", "%2e%2e%2fREADME"):
        assert docs_page(name) is None
    assert shown.get("docs/none").status_code == 404
    assert shown.get("docs/%2e%2e%2fREADME").status_code == 404


def test_the_pictures_of_the_documentation_are_served_to_who_is_logged_in(shown: Shown) -> None:
    answer = shown.get("docs/pictures/drill-1-before.png")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert 'src="pictures/drill-1-before.png"' in shown.get("docs/operate").text
    for name in ("none.png", "drill-1-before", "%2e%2e%2foperate.md", "..%2f..%2fREADME.md"):
        assert shown.get(f"docs/pictures/{name}").status_code == 404
    shown.viewer = None
    assert shown.get("docs/pictures/drill-1-before.png").status_code == 401
