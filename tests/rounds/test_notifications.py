"""Bells tell that something happened in a home, and nothing of what it costs or carries."""

from __future__ import annotations

import re
import select

import pytest

from pipelines.catalog.postgres.queries import SQL_FOLDER
from tests.agreements.building import Login
from tests.rounds.building import Trader, a_price, a_round, agree_on, parts

MARK = "SELECT pg_notify('medusa_progress', 'mark')"


def heard(login: Login, trader: Trader) -> list[str]:
    """What rang, up to now, in order."""
    trader.sql(MARK)
    payloads: list[str] = []
    while "mark" not in payloads:
        assert select.select([login.connection], [], [], 30)[0], "the mark never came"
        login.connection.poll()
        payloads += [note.payload for note in login.connection.notifies]
        login.connection.notifies.clear()
    return payloads[:-1]


def test_what_a_partner_hears_of_a_round_is_the_same_whatever_load_costs(
    alpha: Trader, beta: Trader
) -> None:
    agree_on(alpha, beta, a_price("10"))
    ear = beta.party.a_login("exchange")
    ear("LISTEN medusa_progress")
    rung = []
    for capacity, share in ((1.0, 0.1), (7.5, 0.1), (7.5, 2.4)):
        heard(ear, beta)
        beta.declares(capacity, capacity * 0.9)
        beta.carries(parts(3, share))
        assert heard(ear, beta) == [], "cost and load ring no bell"
        beta.opens()
        rung.append(heard(ear, beta))
    assert rung[0] == rung[1] == rung[2]
    assert set(rung[0]) == {""}
    ear.connection.close()


@pytest.mark.long(quick=True)
def test_notifications_of_trade_are_empty(alpha: Trader, beta: Trader) -> None:
    agree_on(alpha, beta, a_price("10"))
    listener_io = [trader.party.a_login("exchange") for trader in (alpha, beta)]
    for ear in listener_io:
        ear("LISTEN medusa_progress")
    for trader, carried in ((alpha, parts(9)), (beta, parts(3))):
        trader.declares(1.0, 0.9)
        trader.carries(carried)
    a_round(alpha, beta)
    assert len(beta.moves()) == 2
    for ear, trader in zip(listener_io, (alpha, beta), strict=True):
        assert set(heard(ear, trader)) == {""}
        ear.connection.close()


def test_a_notification_has_no_payload() -> None:
    functions = (SQL_FOLDER / "functions").rglob("*.sql")
    sql = "".join(path.read_text(encoding="utf-8") for path in functions)
    calls = re.findall(r"pg_notify\(([^)]*)\)", sql)
    assert calls
    assert set(calls) <= {"'medusa_progress', ''", "'medusa_supervision', ''"}
    assert not re.search(r"^\s*NOTIFY\b", sql, re.MULTILINE)
