"""The audit names who did what, and the first line that somebody has touched."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from medusa_core.names import Participant
from tests.agreements.building import ALPHA, RAISE_PRICE, Party, SqlRefused, agree
from tests.sweeps import long_but

TOUCH = "SET LOCAL session_replication_role = replica; "


def by_force(watcher: Engine, statement: str) -> None:
    """As somebody would who has the disk: no trigger guards the table."""
    with watcher.connect() as connection:
        connection.execute(text(f"DO $$ BEGIN {TOUCH}{statement}; END $$"))


def test_every_edit_is_in_the_audit_with_its_login(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    alpha.sql(RAISE_PRICE, 1.3)
    lines = alpha.sql(
        "SELECT what, who, after->'subject'->>'price_high' FROM medusa_api.audit "
        "WHERE subject = 'spare_load' ORDER BY audit_id"
    )
    owner, job = alpha.urls.database + "_owner", alpha.urls.database + "_job"
    assert lines[0] == ("proposed", owner, "1.2")
    assert lines[-1] == ("proposed", owner, "1.3")
    assert {(what, who) for what, who, _ in lines[1:-1]} == {
        (what, job) for what in ("told", "signed", "agreed", "activated")
    }
    assert alpha.agreements.verify_audit() is None


MISSING, ALTERED = (
    "line {} of the audit is missing",
    "line {} of the audit is not as it was written",
)
NEW_HASH = (
    "UPDATE medusa_market.audit AS a SET hash = medusa_market.audit_hash(a) WHERE audit_id = 3"
)
BREAK = {
    "altered": ("UPDATE medusa_market.audit SET who = 'x' WHERE audit_id = 3", ALTERED.format(3)),
    "taken out": ("DELETE FROM medusa_market.audit WHERE audit_id = 4", MISSING.format(4)),
    "cut off": ("DELETE FROM medusa_market.audit WHERE audit_id > 2", MISSING.format(3)),
    "cut off with the number of its end": (
        (
            "DELETE FROM medusa_market.audit WHERE audit_id > 2; "
            "UPDATE medusa_market.audit_head SET audit_id = 2"
        ),
        "line 2 of the audit is not the last that was written",
    ),
    "exchanged": (
        (
            "UPDATE medusa_market.audit SET audit_id = 1007 - audit_id WHERE audit_id IN (3, 4); "
            "UPDATE medusa_market.audit SET audit_id = audit_id - 1000 WHERE audit_id > 900"
        ),
        ALTERED.format(3),
    ),
    "altered with its hash": (
        f"UPDATE medusa_market.audit SET who = 'x' WHERE audit_id = 3; {NEW_HASH}",
        ALTERED.format(4),
    ),
}


@pytest.mark.parametrize(
    ("broken", "named"), long_but(1, BREAK.values(), quick=True), ids=list(BREAK)
)
def test_a_line_that_was_touched_is_named(
    alpha: Party, watchers: dict[Participant, Engine], broken: str, named: str
) -> None:
    for at in range(5):
        alpha.agreements.learn_key(Participant(f"partner_{at}"), bytes([at]) * 32, "a test")
    assert alpha.agreements.verify_audit() is None
    by_force(watchers[ALPHA], broken)
    assert alpha.agreements.verify_audit() == named


@pytest.mark.parametrize(
    "table",
    long_but(
        4,
        [
            "audit", "contract_revision", "contract_signature", "round", "contract_agreement",
            "contract_activation", "party_key", "contract_notice", "contract_proposal",
            "statement", "contract_void", "key_disowned",
        ],
        quick=True,
    ),
)  # fmt: skip
def test_the_books_are_insert_only_by_grant_and_by_trigger(
    alpha: Party, beta: Party, watchers: dict[Participant, Engine], table: str
) -> None:
    for verb in (f"DELETE FROM medusa_market.{table}", f"TRUNCATE medusa_market.{table} CASCADE"):
        with pytest.raises(SqlRefused) as refused:
            alpha.sql(verb)
        assert refused.value.code == "42501", verb
        with pytest.raises(Exception, match=r"insert-only"), watchers[ALPHA].connect() as superuser:
            superuser.execute(text(verb))
    column = "state" if table == "contract_proposal" else "who"
    with pytest.raises(SqlRefused) as refused:
        alpha.sql(f"UPDATE medusa_market.{table} SET {column} = 'x'")
    assert refused.value.code in ("42501", "42703")
    if table != "contract_proposal":
        ((column,),) = alpha.sql(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum = 2",
            f"medusa_market.{table}",
        )
        with pytest.raises(Exception, match=r"insert-only"), watchers[ALPHA].connect() as superuser:
            superuser.execute(text(f"UPDATE medusa_market.{table} SET {column} = {column}"))
