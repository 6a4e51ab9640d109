"""The health that Airflow reports: read over HTTP on this machine, never through a proxy.

Times are milliseconds since the epoch, by Airflow's clock, which is this machine's.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from typing import Any

from medusa_core.errors import WRONG_FORM

HEARTBEATS = {
    "scheduler": "latest_scheduler_heartbeat",
    "dag_processor": "latest_dag_processor_heartbeat",
    "triggerer": "latest_triggerer_heartbeat",
}
HEALTH_S_MAX, DAGS_S_MAX = 3.0, 10.0
_ANSWER_BYTES_MAX = 10_000_000
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Read:
    """The DAGs that Airflow shows: the files they come from, and the files that have errors."""

    files: frozenset[str]
    broken: Mapping[str, str]


def read_health(url: str) -> Mapping[str, int] | None:
    """Component -> when it was last heard of; None if the API server does not answer."""
    document = _ask(f"{url}/api/v2/monitor/health", timeout_s=HEALTH_S_MAX)
    if document is None:
        return None
    heard = {}
    for component, field in HEARTBEATS.items():
        facts = document.get(component)
        at = facts.get(field) if isinstance(facts, dict) else None
        if isinstance(at, str):
            try:
                heard[component.replace("_", "-")] = int(
                    datetime.fromisoformat(at).timestamp() * 1000
                )
            except (ValueError, OverflowError):
                continue
    return heard


def status_of(url: str) -> int | None:
    """The status of the answer to a request; None if there is no answer."""
    try:
        with _direct.open(url, timeout=DAGS_S_MAX) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except (OSError, HTTPException, ValueError):
        return None


def read_dags(url: str, user: str, password: str) -> Read | None:
    """What Airflow has read of the folder of DAGs; None if it does not tell now."""
    login = {"username": user, "password": password}
    token = _ask(f"{url}/auth/token", timeout_s=DAGS_S_MAX, body=login)
    if token is None or not isinstance(token.get("access_token"), str):
        return None
    bearer = token["access_token"]
    dags = _ask(f"{url}/api/v2/dags?limit=1000", timeout_s=DAGS_S_MAX, bearer=bearer)
    errors = _ask(f"{url}/api/v2/importErrors?limit=1000", timeout_s=DAGS_S_MAX, bearer=bearer)
    if dags is None or errors is None:
        return None
    try:
        return Read(
            frozenset(str(one.get("relative_fileloc")) for one in dags.get("dags", ())),
            {
                str(e.get("filename")): str(e.get("stack_trace", "")).strip().rpartition("\n")[2]
                for e in errors.get("import_errors", ())
            },
        )
    except WRONG_FORM:
        return None  # an answer of another Airflow, or of another program on that port


def _ask(
    url: str,
    *,
    timeout_s: float,
    body: Mapping[str, str] | None = None,
    bearer: str | None = None,
) -> dict[str, Any] | None:
    request = urllib.request.Request(url)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if bearer is not None:
        request.add_header("Authorization", f"Bearer {bearer}")
    try:
        with _direct.open(request, timeout=timeout_s) as answer:
            found = json.loads(answer.read(_ANSWER_BYTES_MAX))
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
