"""Who may see and do what about contracts, each logged in over TCP."""

from __future__ import annotations

import select

import psycopg2
import pytest

from medusa_core.commits import Lane
from medusa_core.loads import ActivityKind, LoadSample, Shares
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import INSERT, RAISE_PRICE, Login, Party, SqlRefused, agree

NO_RIGHT = "42501"
TABLES = (
    "party_key", "contract_order", "contract_revision", "contract_signature", "contract_proposal",
    "contract_agreement", "contract_notice", "round", "contract_activation", "contract_claim",
    "inbox", "outbox", "audit", "audit_head", "statement", "statement_due", "contract_void",
    "key_disowned", "partner_home",
)  # fmt: skip
JOBS = (
    "learn_first_key('beta', '', '')", "propose_document('', 1, '')", "sign_contract('', '', '')",
    "take_document(1, '', '{}', NULL, NULL, NULL, NULL)", "take_notice(1, '', '[]')",
    "state('', '', '')", "take_refusal(1, '', 1, '', 0)", "send_statuses()",
    "take_status(1, NULL, '')", "take_holdings(1, '[]')",
    "expire_proposals()", "verify_envelope(1)", "refuse_envelope(1, '')",
    "seal_message(1, '', 1, 1, '')",
    "put_message('beta', 'offer', 'x', '')",
)  # fmt: skip


def is_refused(party: Party, role: str, statement: str) -> bool:
    try:
        party.sql(statement, role=role)
    except SqlRefused as refused:
        return refused.code == NO_RIGHT
    return False


@pytest.mark.parametrize("role", ["owner", "job", "airflow", "analyst", "exchange"])
def test_no_login_writes_a_table_of_agreements_directly(alpha: Party, role: str) -> None:
    for table in TABLES:
        for verb in ("DELETE FROM {}", "INSERT INTO {} DEFAULT VALUES", "TRUNCATE {}"):
            statement = verb.format(f"medusa_market.{table}")
            assert is_refused(alpha, role, statement), (role, statement)


def test_only_the_owner_edits_contracts_and_replaces_keys(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    for role in ("job", "airflow", "analyst", "exchange"):
        for statement in (
            "UPDATE medusa_api.contract SET price_high = 9",
            "DELETE FROM medusa_api.contract",
            "SELECT medusa_api.accept_contract('spare_load')",
            "SELECT medusa_api.withdraw_contract('spare_load')",
            "SELECT medusa_api.replace_key('beta', 'x')",
            "SELECT medusa_market.learn_key('beta', '', '', true)",
        ):
            assert is_refused(alpha, role, statement), (role, statement)


def test_only_the_participants_own_program_signs_and_takes(alpha: Party) -> None:
    for role in ("airflow", "analyst", "exchange"):
        for call in JOBS:
            assert is_refused(alpha, role, f"SELECT medusa_market.{call}"), (role, call)
    assert not is_refused(alpha, "airflow", "SELECT medusa_market.open_round(0)")
    assert is_refused(alpha, "analyst", "SELECT medusa_market.open_round(0)")
    assert is_refused(alpha, "exchange", "SELECT medusa_market.open_round(0)")


def test_what_is_only_proposed_is_seen_by_the_owner_and_its_program_alone(
    alpha: Party, beta: Party
) -> None:
    agree(alpha, beta)
    alpha.sql(RAISE_PRICE, 1.3)
    settle((alpha.contract_sync, beta.contract_sync))
    shown = "SELECT number, price_high FROM medusa_api.contract"
    revisions = "SELECT count(*) FROM medusa_market.contract_revision"
    for party, (number, price) in ((alpha, (2, 1.3)), (beta, (1, 1.2))):
        for role in ("owner", "job"):
            ((n, high),) = party.sql(shown, role=role)
            assert (n, float(high)) == (number, price)
            assert party.sql(revisions, role=role) == [(2,)]
        for role in ("analyst", "airflow"):
            ((n, high),) = party.sql(shown, role=role)
            assert (n, float(high)) == (1, 1.2), "what is agreed"
            assert party.sql(revisions, role=role) == [(1,)]
            assert party.sql("SELECT * FROM medusa_market.contract_proposal", role=role) == []


def test_the_exchange_server_sees_nothing_of_any_contract(alpha: Party, beta: Party) -> None:
    agree(alpha, beta)
    for table in TABLES:
        assert is_refused(alpha, "exchange", f"SELECT * FROM medusa_market.{table}"), table
    views = alpha.sql("SELECT viewname FROM pg_views WHERE schemaname = 'medusa_api'")
    seen = {v for (v,) in views if not is_refused(alpha, "exchange", f"TABLE medusa_api.{v}")}
    assert seen == set()


CANARY = "31337.42421"
COST = f"""INSERT INTO medusa_api.cost (kind, capacity, scale, threshold, currency)
    VALUES ('queue', {CANARY}, 1, 30000, 'EUR')"""


LOAD_US = 2_718_281_828
LOADS = (str(LOAD_US), "27182.81828")
"""What a driver spent in 100 ms, and the load that this is."""


def spend(party: Party) -> None:
    """Record a period of the party's driver."""
    catalog = PostgresCatalog(party.urls.job, party.name)
    sample = LoadSample(driver="a test", number=1, lane=Lane.LIVE, length_ms=100,
                        shares=Shares(kinds={ActivityKind.DECIDING: LOAD_US}))  # fmt: skip
    assert catalog.record_load(sample)
    catalog.close()


def everything_seen(party: Party, role: str) -> str:
    """All that a login can read in a home: tables, views, and what functions without arguments say,
    with the errors that the others raise."""
    found = []
    names = party.sql(
        "SELECT c.oid::regclass::text FROM pg_class AS c WHERE c.relkind IN ('r', 'v', 'S') AND "
        "c.relnamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace, "
        "'medusa_api'::regnamespace)",
    )
    calls = party.sql(
        "SELECT p.oid::regproc::text FROM pg_proc AS p WHERE p.pronargs = 0 AND "
        "p.prorettype <> 'trigger'::regtype AND "
        "p.pronamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace, "
        "'medusa_api'::regnamespace)"
    )
    for statement in (*(f"TABLE {name}" for (name,) in names),
                      *(f"SELECT {call}()" for (call,) in calls)):  # fmt: skip
        try:
            found.append(repr(party.sql(statement, role=role)))
        except SqlRefused as refused:
            found.append(refused.detail)
    return "\n".join(found)


def test_nothing_private_is_seen_by_another_login_or_reaches_a_partner(
    alpha: Party, beta: Party, postgres_server: EmbeddedServer
) -> None:
    listener_io = []
    for party in (alpha, beta):
        for role in ("exchange", "analyst"):
            login = party.a_login(role)
            login("LISTEN medusa_progress")
            listener_io.append(login)
    alpha.sql(COST)
    spend(alpha)
    agree(alpha, beta)
    alpha.sql(RAISE_PRICE, 1.3)
    beta.sql("UPDATE medusa_api.contract SET price_high = 1.4")
    settle((alpha.contract_sync, beta.contract_sync))
    with pytest.raises(SqlRefused) as refused:
        alpha.sql("UPDATE medusa_api.contract SET price_high = 0.5")

    private = (CANARY, *LOADS)
    shown = everything_seen(alpha, "owner")
    assert [one for one in private if one not in shown] == [], "it is there to be found"
    told = b"".join(e.body for party in (alpha, beta) for e in party.post.seen)
    assert b"spare_load" in told
    places = {
        **{f"alpha as {role}": everything_seen(alpha, role)
           for role in ("airflow", "analyst", "exchange")},
        **{f"beta as {role}": everything_seen(beta, role)
           for role in ("owner", "job", "airflow", "analyst", "exchange")},
        "a refusal": refused.value.detail,
        "what is sent": told.decode(),
        "the server's log": postgres_server.log.read_text(),
    }  # fmt: skip
    for place, output in places.items():
        assert [one for one in private if one in output] == [], place
    for login in listener_io:
        heard = []
        while select.select([login.connection], [], [], 0.05)[0]:
            login.connection.poll()
            heard += login.connection.notifies
            login.connection.notifies.clear()
        assert {note.payload for note in heard} <= {""}
        login.connection.close()


def test_an_owner_of_one_home_reaches_no_other(alpha: Party, beta: Party) -> None:
    alpha.sql(INSERT)
    alpha_at_beta = alpha.urls.owner.removesuffix(alpha.urls.database) + beta.urls.database
    with pytest.raises(psycopg2.OperationalError, match="permission denied"):
        Login(alpha_at_beta)
