"""Things to do: what is found, and that the act beside it mends it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from medusa_core.exchange import LineNews
from medusa_core.knowledge import NEVER_MS
from medusa_core.names import StreamName, Version
from medusa_core.recalls import LineRecall
from medusa_core.segments import Producer
from pipelines.base.settings import REPOSITORY, Settings
from pipelines.base.time_text import parse_time_us
from pipelines.catalog.recall_text import recall_sentence
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import drop_home
from pipelines.cli.main import main, parser
from pipelines.homes.home import known_homes, make_home, role_url
from pipelines.pages import to_do_figures
from pipelines.pages.docs_page import section_ids
from pipelines.pages.mends import KINDS, Act, Kind, Means
from pipelines.pages.open_findings import finding_key
from pipelines.pages.page_home import PageHome
from pipelines.pages.to_do_figures import ALARMS, CAUSES, PROBLEMS, alarm_kind, problem_kind
from pipelines.pages.viewer import Viewer
from pipelines.watching.alarms import Alarms
from tests.docs.pages import page
from tests.pages.pages_under_test import ALPHA, BETA, Shown
from tests.waiting import until

HOSTILE = "x'; DROP TABLE medusa.job; -- $(reboot)"
VALUES = {
    "home": "alpha", "subject": "lower", "lane": "live", "stream": "lower", "partner": "beta",
    "time": "2026-01-05T09:30:00Z", "from_time": "2026-01-05T09:30:00Z", "period": "3",
    "to_time": "2026-01-05T09:31:00Z", "directory": "folder",
}  # fmt: skip


def found(shown: Shown, kind: str, home: str | None = None) -> list[Any]:
    return [
        one
        for one in shown.document("to-do.json")["findings"]
        if one["kind"] == kind and home in (None, one["home"])
    ]


def acts_of(means: Means) -> list[tuple[str, Kind, Act]]:
    made = [(name, kind, kind.act(VALUES)) for name, kind in KINDS.items()]
    return [one for one in made if one[2].means is means]


# ---------------------------------------------------------------- every kind has a mend


@pytest.mark.parametrize(("name", "kind", "act"), acts_of(Means.COMMAND))
def test_each_command_that_mends_is_one_that_medusa_takes(name: str, kind: Kind, act: Act) -> None:
    for line in act.text.split("&&"):
        words = shlex.split(line)
        if words[0] == "chmod":
            continue
        assert words[0] == "medusa"
        assert parser().parse_args(words[1:])


@pytest.mark.parametrize(("name", "kind", "act"), acts_of(Means.DAG))
def test_each_dag_that_mends_exists_and_has_the_fields_of_the_form(
    name: str, kind: Kind, act: Act
) -> None:
    source = (REPOSITORY / "dags" / f"{act.text}.py").read_text(encoding="utf-8")
    assert f'"{act.text}"' in source
    assert set(act.form or {}) <= set(re.findall(r'"(\w+)": ', source)) | set(
        re.findall(r'params=\{"(\w+)"', source)
    )


@pytest.mark.parametrize(("name", "kind", "act"), acts_of(Means.SQL))
def test_each_statement_that_mends_runs_as_the_owner(
    shown: Shown, name: str, kind: Kind, act: Act
) -> None:
    url = role_url(shown.settings.directory, shown.server.address, ALPHA, "owner")
    connection = psycopg2.connect(url.replace("+psycopg2", ""))
    with closing(connection), connection.cursor() as cursor:
        if name != "contract_requested":
            cursor.execute(act.text)
            return
        # There is no such proposal here: the statement is understood, and has no effect.
        with pytest.raises(psycopg2.Error, match="proposes nothing for contract lower"):
            cursor.execute(act.text)


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_a_row_of_the_page_on_alarms_in_the_section_that_it_names(name: str) -> None:
    kind = KINDS[name]
    assert kind.title
    assert kind.does.endswith(".")
    file, _, section = kind.docs.partition("#")
    assert section in section_ids(file), kind.docs
    cells = {
        part.strip(" `*").replace("`", "")
        for line in page("alarms").splitlines()
        if line.startswith("|")
        for part in line.strip("|").split("|")[:2]
    }
    assert any(_plain(kind.row) in _plain(cell) for cell in cells), kind.row


def _plain(words: str) -> str:
    return re.sub(r"[`*:,]|\[|\]\([^)]*\)|\s+", " ", words).replace("  ", " ").strip()


def rows_under(heading: str) -> list[str]:
    """The first cells of the table of a section."""
    section = page("alarms").partition(f"\n{heading}\n")[2]
    section = re.split(r"\n#+ ", section)[0]
    return [
        line.strip("|").split("|")[0].strip(" `").replace("`", "")
        for line in section.splitlines()
        if line.startswith("| ") and not line.startswith("| of ")
    ]


def test_every_alarm_of_a_driver_in_the_documentation_is_a_kind() -> None:
    rows = rows_under("### Alarms of a driver")
    assert len(rows) == 9
    claimed = {_plain(kind.row) for kind in KINDS.values()}
    of_notifications = "notifications of the catalog's server"
    assert {_plain(row) for row in rows if row != of_notifications} <= claimed
    assert alarm_kind(of_notifications) == "notifications"


def test_every_kind_names_a_view_that_there_is() -> None:
    views = "".join(path.read_text() for path in (REPOSITORY / "sql" / "views").glob("*.sql"))
    known = set(re.findall(r"VIEW medusa_api\.(\w+)", views))
    assert {kind.view for kind in KINDS.values()} <= known


def test_every_kind_that_can_be_found_is_known_and_the_other_way_round() -> None:
    source = "".join(
        (REPOSITORY / "pipelines" / "pages" / file).read_text(encoding="utf-8")
        for file in ("to_do_figures.py", "to_do_document.py")
    )
    query = (REPOSITORY / "sql/queries/page_to_do.sql").read_text(encoding="utf-8")
    of_rows = set(re.findall(r"SELECT '(\w+)'", query))
    assert of_rows == {*CAUSES, "alarm_gap"}
    made = set(re.findall(r'kind="(\w+)"', source))
    made |= set(re.findall(r'if is_stopped else "(\w+)"', source))
    made |= of_rows | {kind for _, kind in (*ALARMS, *PROBLEMS)}
    made |= {"catalog_away", "alarm_catalog"}
    assert made == set(KINDS)


def test_values_are_quoted_for_the_shell_and_for_sql() -> None:
    hostile = dict.fromkeys(VALUES, HOSTILE)
    for kind in KINDS.values():
        act = kind.act(hostile)
        if act.means is Means.COMMAND and HOSTILE in act.text:
            assert HOSTILE.replace("'", "'\"'\"'") in act.text or HOSTILE in shlex.split(act.text)
        if act.means is Means.SQL:
            assert "x'; DROP" not in act.text


# ---------------------------------------------------------------- what is found


def test_what_is_found_has_its_cause_in_figures_and_its_act(shown: Shown) -> None:
    (tentative,) = found(shown, "tentative")
    assert (tentative["home"], tentative["subject"]) == ("beta", "kept/main")
    assert tentative["cause"] == "without more"
    (link,) = found(shown, "link_broken")
    assert (link["subject"], link["cause"]) == ("gamma", "unreachable: gone")
    text = shown.part("to-do")
    for one in shown.document("to-do.json")["findings"]:
        assert one["act"]["text"].split()[0] in text
        assert one["docs"] in text


def test_an_alarm_of_a_driver_is_found_while_it_is_raised(shown: Shown) -> None:
    alarms = Alarms(shown.settings.directory, ALPHA)
    alarms.raise_("files of given", "a.csv was replaced", 0.0)
    (alarm,) = found(shown, "alarm_files")
    assert alarm["cause"] == "a.csv was replaced"
    alarms.end("files of given")
    assert found(shown, "alarm_files") == []


KNOWN = """
INSERT INTO medusa_market.party_key (participant, public_key, learned_by, because)
VALUES ('gamma', sha256('gamma'), 'test', 'test');
INSERT INTO medusa_market.partner (participant, url, confirmed_at)
VALUES ('gamma', 'https://gamma:1', clock_timestamp());
"""


def test_a_recall_of_a_partner_is_followed_by_the_command_that_is_shown(shown: Shown) -> None:
    alarms = Alarms(shown.settings.directory, ALPHA)
    from_us = parse_time_us("from", "2026-01-05T09:30:00Z")
    recall = LineRecall(generation=2, from_us=from_us, version=Version(9), because="clock")
    news = LineNews(stream=StreamName("lower"), producer=Producer(BETA), after=Version(8),
                    version=Version(9), origin_us=0, end_us=None, recalls=(recall,))  # fmt: skip
    said = recall_sentence(news)
    assert said is not None
    alarms.raise_("import/lower of beta/0", said, 0.0)
    (alarm,) = found(shown, "alarm_recalled")
    assert alarm["act"]["text"] == (
        "medusa recall lower --from 2026-01-05T09:30:00Z --follow beta --participant alpha"
    )
    alarms.close()


def test_a_partner_whose_server_is_not_known_is_to_be_invited(shown: Shown) -> None:
    shown.sql(ALPHA, "INSERT INTO medusa.fragment (id, network, inputs, outputs) VALUES "
              "('import/more', 'kept', '{}', '{more}'); "
              "INSERT INTO medusa.assignment (fragment, partition, epoch, participant, replica, "
              "plan) VALUES ('import/more', 0, 1, 'alpha', -1, 'plan')")  # fmt: skip
    (finding,) = found(shown, "partner_without_address")
    assert (finding["subject"], finding["cause"]) == ("gamma", "more cannot arrive")
    assert finding["act"]["text"] == "medusa partner invite gamma --participant alpha"
    shown.sql(ALPHA, KNOWN)
    assert found(shown, "partner_without_address") == []


def test_a_law_that_was_broken_is_found_until_a_later_certificate_of_the_window_has_passed(
    shown: Shown,
) -> None:
    certificate = """INSERT INTO medusa.certificate (stream, participant, replica, version, suite,
        law, from_us, to_us, passed, figures, engines, quarantined)
        VALUES ('lower', 'beta', 0, 1, 'complete', 'L1', 0, 60000000, {}, '{{}}', '{{}}', 0)"""
    shown.sql(BETA, certificate.format("false"))
    (broken,) = found(shown, "law_broken")
    assert broken["cause"] == "L1 (complete) from 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z"
    assert broken["act"]["form"]["from"] == "1970-01-01T00:00:00Z"
    of_the_next_window = certificate.replace("0, 60000000", "60000000, 120000000")
    shown.sql(BETA, of_the_next_window.format("true"))
    assert len(found(shown, "law_broken")) == 1, "another window mends nothing"
    shown.sql(BETA, certificate.format("true"))
    assert found(shown, "law_broken") == []
    shown.sql(BETA, certificate.format("false"))
    shown.sql(BETA, "UPDATE medusa.certificate SET certified_at = certified_at - interval '8 days'")
    assert found(shown, "law_broken") == [], "of seven days"


def test_a_gap_of_a_lost_provider_is_found_once_whether_or_not_a_driver_says_so(
    shown: Shown,
) -> None:
    shown.sql(
        BETA,
        f"""
        WITH day AS (SELECT CAST(extract(epoch FROM clock_timestamp()) AS bigint) * 1000000 AS now)
        INSERT INTO medusa.fragment_owner
            (fragment, partition, epoch, participant, replica, from_us, timeout_ms, because)
        SELECT 'kept/main', 0, 1, 'gamma', 1, now - 60000000, {NEVER_MS}, 'lent' FROM day
        UNION ALL SELECT 'kept/main', 0, 2, 'beta', 0, now, 0, 'lost' FROM day;
        INSERT INTO medusa.segment
            (line_id, from_us, to_us, stability, version, begin_version, plan, commit_id)
        SELECT p.line_id, o.from_us, o.from_us + 60000000, 'gap', 1, 1, 'plan', 1
        FROM medusa.stream_producer AS p, medusa.fragment_owner AS o
        WHERE p.stream = 'lower' AND o.epoch = 1""",
    )
    (gap,) = found(shown, "alarm_gap")
    assert (gap["home"], gap["subject"]) == ("beta", "a range of kept/main")
    assert gap["cause"].startswith("gamma was lost, and its results from ")
    alarms = Alarms(shown.settings.directory, BETA)
    alarms.raise_("a range of kept/main", "as the driver says", 0.0)
    (raised,) = found(shown, "alarm_gap")
    assert raised["cause"] == "as the driver says"
    assert finding_key(raised) == finding_key(gap), "no news"
    alarms.close()
    two_days = "- 172800000000"
    shown.sql(
        BETA,
        f"UPDATE medusa.segment SET from_us = from_us {two_days}, to_us = to_us "
        f"{two_days}; UPDATE medusa.fragment_owner SET from_us = from_us {two_days}",
    )
    assert found(shown, "alarm_gap") == []


def test_who_may_not_trigger_dags_is_told_so(shown: Shown) -> None:
    shown.sql(ALPHA, "INSERT INTO medusa.sink (stream, name, document, from_us, problem) VALUES "
                     "('given', 'copy', '{}', 0, 'the target is gone')")  # fmt: skip
    assert "Trigger medusa_deploy" in shown.part("to-do")
    assert "may not trigger" not in shown.part("to-do")
    shown.viewer = Viewer(name="vic", roles=frozenset({"viewer"}))
    assert "Your role may not trigger it." in shown.part("to-do")


def test_hostile_values_are_escaped(shown: Shown) -> None:
    alarms = Alarms(shown.settings.directory, ALPHA)
    alarms.raise_("landing/<img src=x>", "<script>alert(1)</script>", 0.0)
    shown.sql(BETA, "UPDATE medusa_market.link SET error = '\"><svg onload=x>'")
    text = shown.get("to-do").text
    assert text.count("<script") == 1
    assert "<img" not in text
    assert "<svg onload" not in text
    alarms.close()


def test_a_full_disk_is_found_with_a_home_that_the_viewer_sees(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_do_figures, "DISK_BYTES_MIN", 10**18)
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "ola: beta")
    (full,) = found(shown, "disk_full")
    assert full["home"] == "beta"
    assert "--participant beta" in full["act"]["text"]
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "lea: beta")
    assert found(shown, "disk_full") == []


# ---------------------------------------------------------------- mends that are carried out


def carry_out(shown: Shown, act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what the page says, as a person types it."""
    monkeypatch.setenv("MEDUSA_DIR", str(shown.settings.directory))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", str(shown.settings.catalog_url))
    if act["means"] == Means.SQL.value:
        url = role_url(shown.settings.directory, shown.server.address, ALPHA, "owner")
        with closing(psycopg2.connect(url.replace("+psycopg2", ""))) as connection:
            with connection.cursor() as cursor:
                cursor.execute(act["text"])
            connection.commit()
        return
    words = shlex.split(act["text"])
    if words[0] == "chmod":
        assert words[:3] == ["chmod", "-R", "go-rwx"]
        for path in (Path(words[3]), *Path(words[3]).rglob("*")):
            path.chmod(path.stat().st_mode & ~0o077)
        return
    assert main(words[1:]) == 0


def test_a_participant_that_does_not_run_is_started(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.sql(ALPHA, "DELETE FROM medusa.lease")
    (finding,) = found(shown, "nothing_runs")
    assert finding["act"]["text"] == "medusa job start alpha"
    carry_out(shown, finding["act"], monkeypatch)
    assert found(shown, "nothing_runs") == []


def test_nobody_need_run_what_has_ended(shown: Shown) -> None:
    shown.sql(ALPHA, "DELETE FROM medusa.lease")
    assert found(shown, "nothing_runs")
    ends = "UPDATE medusa.stream_producer SET boundary_us = 9223372036854775807"
    shown.sql(ALPHA, f"{ends} WHERE participant = 'alpha'")
    assert found(shown, "nothing_runs") == []


def test_a_job_that_was_given_up_is_tried_again(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.sql(ALPHA, "DELETE FROM medusa.lease")
    shown.sql(ALPHA, """
        INSERT INTO medusa.desired_job (lane, is_desired, is_lasting, because, who)
        VALUES ('live', true, true, 'deployed', 'test');
        INSERT INTO medusa.job (lane, desired, intended_by, host, pid, started, begun_at, heard_at,
            ended_at, exit_code, because)
        SELECT 'live', number, 'test', 'elsewhere', 77, 'then', clock_timestamp(),
            clock_timestamp(), clock_timestamp(), 2, 'ended with exit code 2'
        FROM medusa.desired_job""")  # fmt: skip
    (finding,) = found(shown, "job_given_up")
    assert "exit code 2" in finding["cause"]
    carry_out(shown, finding["act"], monkeypatch)
    assert found(shown, "job_given_up") == []


@pytest.fixture
def apart(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Shown]:
    """A home that is no other test's: what is changed is more than its rows."""
    settings = Settings.from_environment(
        {"MEDUSA_DIR": str(tmp_path), "MEDUSA_CATALOG_URL": postgres_server.superuser_url()}
    )
    with make_home(settings, ALPHA, keep=True):
        pass
    made = Shown(settings, postgres_server)
    with closing(made.readings):
        yield made
    drop_home(str(settings.catalog_url), known_homes(tmp_path)[ALPHA])


def test_a_home_without_the_password_of_the_page_gets_another(
    apart: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    (apart.settings.directory / "keys" / "alpha" / "logins" / "page").unlink()
    (finding,) = found(apart, "login_missing")
    carry_out(apart, finding["act"], monkeypatch)
    assert found(apart, "login_missing") == []
    assert apart.document("to-do.json")["problems"] == []


def test_a_password_that_others_can_read_is_closed_to_them(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown.settings.directory / "keys" / "alpha" / "logins" / "page").chmod(0o644)
    shown.readings.close()
    (finding,) = found(shown, "secret_readable")
    carry_out(shown, finding["act"], monkeypatch)
    assert shown.document("to-do.json")["problems"] == []


def test_a_home_whose_connections_are_used_up_is_freed_of_idle_sessions(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.readings.close()
    url = role_url(shown.settings.directory, shown.server.address, ALPHA, "page")
    held: list[Any] = []

    def use_up() -> None:
        while True:
            held.append(psycopg2.connect(url.replace("+psycopg2", "")))

    with pytest.raises(psycopg2.OperationalError, match="too many connections"):
        use_up()
    (finding,) = found(shown, "no_connection_left")
    superuser = shown.server.superuser_url(known_homes(shown.settings.directory)[ALPHA])
    connection = psycopg2.connect(superuser.replace("+psycopg2", ""))
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(finding["act"]["text"])
    until(lambda: found(shown, "no_connection_left") == [], "the home can be read again", 30)
    for one in held:
        one.close()


def test_a_home_that_lacks_a_migration_is_migrated(
    apart: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    for statement in (
        "DELETE FROM medusa.schema_migration WHERE name = '0027_page'",
        "DELETE FROM medusa.schema_version",
        *(f"DROP POLICY all_for_page ON medusa_market.contract_{table}"
          for table in ("revision", "proposal", "signature")),
    ):  # fmt: skip
        apart.sql(ALPHA, statement)
    (finding,) = found(apart, "lacks_migration")
    carry_out(apart, finding["act"], monkeypatch)
    assert found(apart, "lacks_migration") == []


def test_a_catalog_that_is_away_is_said_with_its_mend(tmp_path: Path, shown: Shown) -> None:
    assert problem_kind("the catalog cannot be reached (connection refused)") == "catalog_away"
    away = Settings.from_environment(
        {
            "MEDUSA_DIR": str(shown.settings.directory),
            "MEDUSA_CATALOG_URL": "postgresql://nobody@127.0.0.1:1/none",
        }
    )
    lost = Shown(away, shown.server)
    document = lost.document("to-do.json")
    assert {one["kind"] for one in document["findings"]} == {"catalog_away"}
    assert "medusa up" in lost.part("to-do")
    assert json.dumps(document)
    with pytest.raises(Exception, match="cannot be reached"), PageHome(away, ALPHA).snapshot():
        pass
