"""Messages about alarms: what a receiver gets, and what is said where none can be delivered."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.runner import ROOT
from tests.hosting.receivers import mail_receiver, webhook_receiver

SENT = """
import asyncio, json, sys
from medusa_core.errors import MedusaError
from pipelines.airflow.alarm_channels import Message, channels, report_missed_deadline, send

asked = json.loads(sys.argv[1])
said = []
for channel in channels():
    try:
        send(channel, Message(title="one\\r\\nBcc: x@example.org", sentences=["<b>two</b>"],
                              facts={"open": 3}))
    except MedusaError as error:
        said.append(f"{type(error).__name__}: {error}")
for state in asked["states"]:
    asyncio.run(report_missed_deadline("medusa_alarms", 5, context={"dag_run": {"state": state}}))
print(json.dumps({"channels": channels(), "said": said}))
"""


def sent(tmp_path: Path, states: tuple[str, ...] = (), **connections: Any) -> dict[str, Any]:
    """What a process with Airflow in it says, with these connections."""
    found = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(one) for name, one in connections.items()}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SENT, json.dumps({"states": states})],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ
        | {
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__API__BASE_URL": "http://airflow.example",
            "PYTHONPATH": str(ROOT),
            **found,
        },
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_message_reaches_the_webhook_and_the_mail_server_and_carries_no_markup(
    tmp_path: Path,
) -> None:
    with webhook_receiver() as webhooks, mail_receiver() as mails:
        found = sent(
            tmp_path,
            states=("running", "failed", "success"),
            medusa_webhook={"conn_type": "generic", "host": f"http://127.0.0.1:{webhooks.port}/",
                            "password": "word"},
            medusa_mail={"conn_type": "smtp", "host": "127.0.0.1", "port": mails.port,
                         "extra": {"to": "anna@example.org, ben@example.org",
                                   "from_email": "medusa@example.org",
                                   "disable_ssl": True, "disable_tls": True}},
        )  # fmt: skip
    assert found == {"channels": ["medusa_webhook", "medusa_mail"], "said": []}
    (word, body), (_, missed) = webhooks.posted
    assert (word, body["open"], body["text"]) == ("Bearer word", 3, "<b>two</b>")
    assert missed["title"] == "Medusa: medusa_alarms has not ended within 5 min"
    assert "http://airflow.example/dags/medusa_alarms/runs" in missed["text"]
    assert len(webhooks.posted) == len(mails.delivered) == 2, "runs that ended have missed nothing"
    mail = mails.delivered[0]
    assert mail["Subject"] == "one Bcc: x@example.org"
    assert mail["Bcc"] is None
    assert mail["To"] == "anna@example.org, ben@example.org"
    assert "&lt;b&gt;two&lt;/b&gt;" in mail.get_body(("html",)).get_content()


@pytest.mark.parametrize(
    ("name", "connection", "sentence"),
    [
        ("medusa_webhook", {"host": "chat.example"}, "Refused: .*has no URL: write all of it"),
        ("medusa_webhook", {"host": "http://127.0.0.1:9/"}, "Unavailable: .*does not answer"),
        ("medusa_mail", {"host": "127.0.0.1"}, 'Refused: .*names nobody: add "to"'),
        (
            "medusa_mail",
            {"host": "127.0.0.1", "port": 9, "extra": {"to": "a@example.org", "timeout": 2,
             "retry_limit": 1, "disable_ssl": True}},
            "Unavailable: .*did not take the message",
        ),
    ],
)  # fmt: skip
@pytest.mark.long
def test_what_cannot_be_delivered_is_said_in_a_sentence(
    tmp_path: Path, name: str, connection: dict[str, Any], sentence: str
) -> None:
    kind = "smtp" if name == "medusa_mail" else "generic"
    (said,) = sent(tmp_path, **{name: {"conn_type": kind, **connection}})["said"]

    assert re.search(sentence, said), said


@pytest.mark.long
def test_without_a_connection_nobody_is_told(tmp_path: Path) -> None:
    assert sent(tmp_path) == {"channels": [], "said": []}
