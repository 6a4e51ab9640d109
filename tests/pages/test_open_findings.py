"""What is told of findings: each once when it is new, and once when it is over."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from pipelines.pages.open_findings import (
    FindingChanges,
    OpenFindings,
    finding_changes,
    finding_title,
    open_findings,
)
from pipelines.pages.to_do_document import SHOWN_MAX
from pipelines.watching.alarms import Alarms
from tests.pages.pages_under_test import ALPHA, BETA, Shown

SINK = """INSERT INTO medusa.sink (stream, name, document, from_us, problem)
    VALUES ('given', 'copy{0}', '{{}}', 0, 'the target is gone')"""
CERTIFICATE = """INSERT INTO medusa.certificate (stream, participant, replica, version, suite, law,
    from_us, to_us, passed, figures, engines, quarantined)
    VALUES ('given', 'alpha', 0, 1, 'complete', 'L{0}', 0, 60000000, false, '{{}}', '{{}}', 0)"""


def told(shown: Shown, known: FindingChanges | None = None) -> FindingChanges:
    return finding_changes(open_findings(shown.settings), known.open if known else {})


def kinds(changes: FindingChanges) -> list[Any]:
    return sorted((one["kind"], one["home"]) for one in changes.new)


def test_what_is_open_is_told_once_and_what_is_over_once(shown: Shown) -> None:
    first = told(shown)
    assert ("tentative", BETA) in kinds(first)
    assert not told(shown, first).is_news
    shown.sql(BETA, "UPDATE medusa.transition SET state = 'STABLE'")
    second = told(shown, first)
    assert (second.new, len(second.over)) == ((), 1)
    assert not told(shown, second).is_news


def test_findings_of_a_home_that_cannot_be_read_are_neither_over_nor_new_again(
    shown: Shown,
) -> None:
    first = told(shown)
    password = shown.settings.directory / "keys" / "beta" / "logins" / "page"
    secret = password.read_text()
    password.unlink()
    away = told(shown, first)
    assert (kinds(away), away.over) == ([("login_missing", BETA)], ())
    assert not told(shown, away).is_news
    password.touch(mode=0o600)
    password.write_text(secret)
    back = told(shown, away)
    assert back.new == ()
    assert back.over == (finding_title(away.new[0]),)
    assert back.open == first.open


@pytest.mark.parametrize(
    ("statement", "kind"), [(SINK, "sink_blocked"), (CERTIFICATE, "law_broken")]
)
def test_another_one_of_the_same_stream_is_news(shown: Shown, statement: str, kind: str) -> None:
    shown.sql(ALPHA, statement.format(1))
    first = told(shown)
    shown.sql(ALPHA, statement.format(2))
    second = told(shown, first)
    assert kinds(second) == [(kind, ALPHA)]
    assert second.over == ()
    assert "2" in finding_title(second.new[0])


def finding(**which: object) -> dict[str, Any]:
    return {"home": "alpha", "kind": "bill_disputed", "subject": "lent", "title": "A dispute",
            "which": which}  # fmt: skip


def test_another_period_of_a_contract_and_another_partner_are_news() -> None:
    first = finding_changes(OpenFindings(findings=(finding(period=1),)), {})
    both = (finding(period=1), finding(period=2))
    assert finding_changes(OpenFindings(findings=both), first.open).new == (both[1],)
    partners = (finding(partner="beta"), finding(partner="gamma"))
    assert len(finding_changes(OpenFindings(findings=partners), {}).new) == 2


def test_more_findings_are_told_of_than_the_page_shows(shown: Shown) -> None:
    shown.sql(
        ALPHA,
        f"""INSERT INTO medusa.sink (stream, name, document, from_us, problem)
        SELECT 'given', 'copy' || n, '{{}}', 0, 'gone' FROM generate_series(0, {SHOWN_MAX}) AS n""",
    )
    assert len(shown.document("to-do.json")["findings"]) == SHOWN_MAX
    assert len(told(shown).new) > SHOWN_MAX


def test_a_recall_by_another_partner_is_news(shown: Shown) -> None:
    alarms = Alarms(shown.settings.directory, ALPHA)
    said = "partner {} recalled lower from 2026-01-05T09:30:00Z on (clock)"
    with closing(alarms):
        alarms.raise_("import/lower of beta/0", said.format("beta"), 0.0)
        first = told(shown)
        alarms.raise_("import/lower of gamma/0", said.format("gamma"), 0.0)
        assert kinds(told(shown, first)) == [("alarm_recalled", ALPHA)]
