"""Where alarms are sent: a webhook and mail, each if its connection exists.

| connection | type | what it says |
|---|---|---|
| `medusa_webhook` | any | host: the whole URL; password: sent as a bearer token |
| `medusa_mail` | `smtp` | the mail server; extra `to`: addresses, separated by commas |

What is sent: a title, sentences, and for a webhook the findings as JSON.
"""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from medusa_core.errors import MedusaError, Refused, Unavailable
from pipelines.airflow.task_links import page_address

WEBHOOK, MAIL = "medusa_webhook", "medusa_mail"
TIMEOUT_S = 10.0
TITLE_MAX = 200
ENDED = ("success", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`title` is one line; `sentences` are the lines below it; `facts` are JSON values."""

    title: str
    sentences: Sequence[str]
    facts: Mapping[str, Any]


def channels() -> list[str]:
    """The connections that exist."""
    return [name for name in (WEBHOOK, MAIL) if _connection(name) is not None]


def send(channel: str, message: Message) -> None:
    """Send a message by one connection; nothing where it does not exist any more.

    Raises Unavailable if it could not be delivered, Refused if the connection lacks something.
    """
    connection = _connection(channel)
    if connection is None:
        return
    try:
        (_post if channel == WEBHOOK else _mail)(connection, message)
    except MedusaError:
        raise
    except Exception as error:  # noqa: BLE001 - of libraries that raise what they like
        # Their texts may hold the connection's password.
        raise Unavailable(
            f"{channel} did not take the message ({type(error).__name__}): correct the connection"
        ) from None


async def report_missed_deadline(
    dag: str, minutes: int, context: Mapping[str, Any] | None = None, **_: Any
) -> None:
    """For a deadline: a run of a DAG has not ended within so many minutes.

    Airflow keeps the deadline of a run that failed in time: that is nothing to send.
    """
    if ((context or {}).get("dag_run") or {}).get("state") in ENDED:
        return
    message = Message(
        title=f"Medusa: {dag} has not ended within {minutes} min",
        sentences=[
            f"{dag}: a run was queued {minutes} min ago and has not ended; scheduler or tasks hang",
            "medusa doctor",
            page_address(f"/dags/{dag}/runs"),
        ],
        facts={"dag": dag, "minutes": minutes},
    )
    for channel in await asyncio.to_thread(channels):
        await asyncio.to_thread(send, channel, message)


def _connection(name: str) -> Any:
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None


def _post(connection: Any, message: Message) -> None:
    import httpx

    url = str(connection.host or "")
    if not url.startswith(("http://", "https://")):
        raise Refused(f"the connection {WEBHOOK} has no URL: write all of it as its host")
    headers = {"Authorization": f"Bearer {connection.password}"} if connection.password else {}
    body = {"title": message.title, "text": "\n".join(message.sentences), **message.facts}
    try:
        answer = httpx.post(url, json=body, headers=headers, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(f"the webhook of {WEBHOOK} does not answer: {error}") from None
    if answer.is_error:
        raise Unavailable(f"the webhook of {WEBHOOK} answers {answer.status_code}")


def _mail(connection: Any, message: Message) -> None:
    from airflow.providers.smtp.hooks.smtp import SmtpHook

    to = [one.strip() for one in str(connection.extra_dejson.get("to", "")).split(",")]
    if not any(to):
        raise Refused(f'the connection {MAIL} names nobody: add "to" to its extra fields')
    content = "".join(f"<p>{escape(sentence)}</p>" for sentence in message.sentences)
    title = " ".join(message.title.split())[:TITLE_MAX]
    try:
        with SmtpHook(smtp_conn_id=MAIL) as hook:
            hook.send_email_smtp(to=[one for one in to if one], subject=title, html_content=content)
    except (OSError, smtplib.SMTPException) as error:
        raise Unavailable(f"the mail server of {MAIL} did not take the message: {error}") from None
