"""What is wrong in a federation that runs is sent once, by each channel, and when it is over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hosting.live import Live, live_federation
from tests.hosting.receivers import Mails, Webhooks, mail_receiver, webhook_receiver
from tests.waiting import until

pytestmark = pytest.mark.airflow_long
SENT_S_MAX = 240
WORD = "a word"


@pytest.fixture(scope="module")
def webhooks() -> Iterator[Webhooks]:
    with webhook_receiver() as kept:
        yield kept


@pytest.fixture(scope="module")
def mails() -> Iterator[Mails]:
    with mail_receiver() as kept:
        yield kept


@pytest.fixture(scope="module")
def live(webhooks: Webhooks, mails: Mails) -> Iterator[Live]:
    with live_federation() as made:
        hook = f"http://127.0.0.1:{webhooks.port}/alarms"
        made.ask("connections", {"connection_id": "medusa_webhook", "conn_type": "generic",
                                 "host": hook, "password": WORD})  # fmt: skip
        extra = {"to": "anna@example.org", "from_email": "medusa@example.org",
                 "disable_ssl": True, "disable_tls": True}  # fmt: skip
        made.ask("connections", {"connection_id": "medusa_mail", "conn_type": "smtp",
                                 "host": "127.0.0.1", "port": mails.port,
                                 "extra": json.dumps(extra)})  # fmt: skip
        yield made


def new(webhooks: Webhooks, kind: str) -> list[dict[str, Any]]:
    """The findings of a kind that were sent as new."""
    sent = [one for _, body in webhooks.posted for one in body.get("new", ())]
    return [one for one in sent if one["kind"] == kind]


def missed(webhooks: Webhooks) -> list[str]:
    """What was sent about deadlines."""
    return [body["title"] for _, body in webhooks.posted if "minutes" in body]


def over(webhooks: Webhooks) -> list[str]:
    return [title for _, body in webhooks.posted for title in body.get("over", ())]


def test_a_participant_that_is_stopped_is_sent_once_by_each_channel_and_when_it_runs_again(
    live: Live, webhooks: Webhooks, mails: Mails
) -> None:
    live.platform.succeed("job", "stop", "delta", "--because", "the test")
    until(lambda: new(webhooks, "nothing_runs"), "the webhook was called", SENT_S_MAX)
    (finding,) = new(webhooks, "nothing_runs")
    assert (finding["home"], finding["act"]["text"]) == ("delta", "medusa job start delta")
    assert {word for word, _ in webhooks.posted} == {f"Bearer {WORD}"}
    until(lambda: any("delta" in str(mail) for mail in mails.delivered), "mail came", SENT_S_MAX)
    assert mails.delivered[-1]["To"] == "anna@example.org"
    live.platform.succeed("job", "start", "delta", "--because", "the test")
    until(lambda: any("delta" in title for title in over(webhooks)), "it is over", SENT_S_MAX)
    assert len(new(webhooks, "nothing_runs")) == 1, "what is open is not sent again each minute"
    assert not missed(webhooks), "a red run that ended in time has missed no deadline"


def test_what_a_channel_did_not_take_is_sent_when_it_is_back_and_the_run_is_red(
    live: Live, webhooks: Webhooks
) -> None:
    webhooks.status = 503
    sent = len(webhooks.posted)
    live.platform.succeed("job", "stop", "delta", "--because", "the test")

    def is_red() -> bool:
        runs = live.ask("dags/medusa_alarms/dagRuns?limit=100")["dag_runs"]
        return any("answers 503" in str(run["note"]) for run in runs)

    until(is_red, "a run says what the webhook answers", SENT_S_MAX)
    assert len(webhooks.posted) == sent
    webhooks.status = 200
    until(lambda: len(new(webhooks, "nothing_runs")) == 2, "it is sent later", SENT_S_MAX)


def test_an_alarm_is_an_event_of_the_asset(live: Live) -> None:
    found = live.ask("assets?limit=100")["assets"]
    (asset,) = [one["id"] for one in found if one["name"] == "medusa_alarms"]
    events = live.ask(f"assets/events?asset_id={asset}&limit=100")["asset_events"]
    kinds = {one["kind"] for event in events for one in event["extra"]["new"]}
    assert "nothing_runs" in kinds, events
