"""No password gets through, whatever it looks like and wherever it stands."""

from __future__ import annotations

import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.base.redaction import LENGTH_MAX, SafeText

CANARY = "kanarien/vo:gel@1"
AWKWARD = string.ascii_letters + string.digits + ":/@?#%&=+!$'*,;[]() é"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:{}@db:5432/x",
        "could not connect to postgresql+psycopg2://me:{}@db/x: refused",
        "dsn: host=db user=me password={} dbname=x",
        "dsn: host=db password='{}' dbname=x",
        '{{"user": "me", "password": "{}"}}',
        "PGPASSWORD={} psql",
    ],
)
def test_an_unknown_password_is_recognised_by_its_place(text: str) -> None:
    shown = SafeText()(text.format(CANARY))
    assert CANARY not in shown
    assert "***" in shown
    assert "me" in shown or "PG" in shown or "dsn" in shown


def test_a_password_that_is_known_is_taken_out_anywhere() -> None:
    safe = SafeText([f"postgresql://me:{quote(CANARY, safe='')}@db/x", None, "eine-lerche"])
    for form in (CANARY, quote(CANARY, safe=""), "eine-lerche"):
        assert safe(f"login with ({form}) failed") == "login with (***) failed"


@given(st.text(AWKWARD, min_size=8, max_size=20), st.booleans())
def test_no_form_of_a_known_password_is_shown(password: str, is_quoted: bool) -> None:
    written = quote(password, safe="") if is_quoted else password
    shown = SafeText([f"postgresql://me:{quote(password, safe='')}@db/x"])(f"<{written}>")
    assert shown == "<***>"


def test_a_word_that_is_somebodys_password_is_still_a_word() -> None:
    safe = SafeText(["postgresql://medusa:medusa@db/medusa"])
    assert safe("medusa.commit of medusa/0") == "medusa.commit of medusa/0"
    assert safe("postgresql://medusa:medusa@db") == "postgresql://medusa:***@db"


@pytest.mark.parametrize(
    "text",
    ["a Wait: nothing to do", "http://127.0.0.1:9464/metrics", "src [1, 2): late",
     "password authentication failed for user me", "mailto:me@example.org", "s3://bucket/a@b"],
)  # fmt: skip
def test_what_holds_no_password_stays_as_it_is(text: str) -> None:
    assert SafeText(["postgresql://me:kanarienvogel@db/x"])(text) == text


def test_text_is_cut_and_what_is_no_text_is_replaced() -> None:
    safe = SafeText()
    assert len(safe("x" * 10_000)) == LENGTH_MAX
    safe("\ud800\0").encode()
    assert "\0" not in safe("a\0b")
