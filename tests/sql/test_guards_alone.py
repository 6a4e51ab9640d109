"""Guards of functions that the program's own checks stand before: each is shown by itself."""

from __future__ import annotations

import json
from typing import Any

import psycopg2
import pytest

from medusa_core.errors import MedusaError, Refused
from pipelines.catalog.postgres.database_errors import error_of
from tests.catalog import building as a
from tests.sql.conftest import LogIn
from tests.sweeps import long_but

DAY_MS = 86_400_000
UNKNOWN = "stream none is not deployed here"
PROMISE = ("landing/src", 0, "alpha", 0, "live", 1, "me", "src")


def refusal(log_in: LogIn, role: str, call: str, *values: Any) -> MedusaError:
    """What a call is refused with."""
    with log_in(role).cursor() as cursor, pytest.raises(psycopg2.Error) as error:
        cursor.execute(f"SELECT medusa.{call}({', '.join(['%s'] * len(values))})", values)
    ours = error_of(error.value)
    assert ours is not None, error.value
    return ours


def answer(log_in: LogIn, role: str, call: str, *values: Any) -> Any:
    with log_in(role).cursor() as cursor:
        cursor.execute(f"SELECT medusa.{call}({', '.join(['%s'] * len(values))})", values)
        (row,) = cursor.fetchall()
        return row[0]


@pytest.mark.parametrize(
    ("values", "refused"),
    long_but(
        2,
        [
            ((1_000, "suspend", "suspend", None), True),
            ((1_000, "process", "suspend", None), True),
            ((None, "suspend", "process", 500), True),
            ((1_000, "suspend", "process", 1_001), True),
            ((1_000, "suspend", "process", 0), True),
            ((1_000, "suspend", "process", 1_000), False),
            ((1_000, "delay", "process", None), False),
            ((None, "process", "process", None), False),
        ],
        quick=True,
    ),
)
def test_a_stream_is_suspended_within_a_limit_and_a_bound_only(
    log_in: LogIn, values: tuple[Any, ...], refused: bool
) -> None:
    if refused:
        error = refusal(log_in, "job", "declare_bound", "sums", *values, 0)
        assert "suspending_has_a_limit" in str(error)
    else:
        answer(log_in, "job", "declare_bound", "sums", *values, 0)


@pytest.mark.parametrize(
    ("call", "guard"),
    long_but(
        2,
        [
            (("declare_bound", "sums", 0, "process", "process", None, 0), "bound_is_above_zero"),
            (("declare_bound", "sums", 9, "halt", "process", None, 0), "policies_are_known"),
            (("declare_bound", "sums", 9, "process", "halt", None, 0), "policies_are_known"),
            (("declare_bound", "sums", 9, "process", "process", None, -1), "lag_is_not_below_zero"),
            (("declare_retention", "sums", 0), "cannot be kept for 0 ms"),
            (("declare_verify", "sums", 0), "cannot be verified by 0 producers"),
            (("declare_qos", "sums", '{"loss": [[0, 1], [1, 0]]}'), "qos_is_of_graphs"),
        ],
        quick=True,
    ),
)
def test_a_promise_is_one_that_can_be_kept(
    log_in: LogIn, call: tuple[Any, ...], guard: str
) -> None:
    assert guard in str(refusal(log_in, "job", *call))


@pytest.mark.parametrize(
    ("values", "reason"),
    long_but(
        4,
        [
            (("sums", "Beta", 0, 1_000, 0), "a reader is named like a participant"),
            (("sums", "beta; --", 0, 1_000, 0), "a reader is named like a participant"),
            (("sums", "", 0, 1_000, 0), "a reader is named like a participant"),
            (("none", "beta", 0, 1_000, 0), UNKNOWN),
            (("sums", "beta", 0, 0, 0), "a reader holds for 1 ms to 31 days"),
            (("sums", "beta", 0, 31 * DAY_MS + 1, 0), "a reader holds for 1 ms to 31 days"),
            (("sums", "beta", 0, None, 0), "a reader holds for 1 ms to 31 days"),
            (("sums", "beta", 0, 1_000, -1), "a path costs 0 ms to 31 days"),
            (("sums", "beta", 0, 1_000, 31 * DAY_MS + 1), "a path costs 0 ms to 31 days"),
            (("sums", "beta", 0, 1_000, None), "a path costs 0 ms to 31 days"),
            (("sums", "beta", 4 * a.WIDTH_US, 1_000, 0), "does not reach to"),
            (("sums", "beta", None, 1_000, 0), "does not reach to"),
        ],
        quick=True,
    ),
)
def test_an_acknowledgement_of_a_partner_is_within_bounds(
    log_in: LogIn, values: tuple[Any, ...], reason: str
) -> None:
    error = refusal(log_in, "job", "acknowledge", *values)
    assert isinstance(error, Refused)
    assert reason in str(error)


@pytest.mark.parametrize("values", [(3 * a.WIDTH_US, 1, 0), (0, 31 * DAY_MS, 31 * DAY_MS)])
def test_an_acknowledgement_at_its_bounds_is_taken(
    log_in: LogIn, values: tuple[int, int, int]
) -> None:
    through_us, limit_ms, path_ms = values
    answer(log_in, "job", "acknowledge", "sums", "beta", through_us, limit_ms, path_ms)


@pytest.mark.parametrize(
    ("origin_us", "end_us"),
    long_but(1, [(1, None), (0, 2 * a.WIDTH_US + 1), (2 * a.WIDTH_US, a.WIDTH_US)], quick=True),
)
def test_a_source_begins_and_ends_on_its_grid_and_in_order(
    log_in: LogIn, origin_us: int, end_us: int | None
) -> None:
    error = refusal(log_in, "job", "promise", *PROMISE, origin_us, 2 * a.WIDTH_US, end_us)
    assert isinstance(error, Refused)
    assert "not on its grid or not in order" in str(error)


def test_a_transition_is_of_a_fragment_of_this_home_and_noted_once(log_in: LogIn) -> None:
    error = refusal(log_in, "job", "record_transition", "none", 0, "alpha", 0, "FAILED", "why")
    assert "fragment none is not deployed here" in str(error)
    main = ("record_transition", a.MAIN, 0, "alpha", 0)
    assert not answer(log_in, "job", *main, "STABLE", "it begins so")
    states = log_in("job").cursor()
    states.execute("SELECT DISTINCT state FROM medusa.transition")
    assert states.fetchall() == []


@pytest.mark.parametrize(
    "call",
    [
        ("declare_bound", "none", 1_000, "process", "process", None, 0),
        ("declare_verify", "none", 2),
        ("declare_retention", "none", 1_000),
        ("declare_following", "none", True),
        ("declare_qos", "none", None),
        ("place_hold", "none", "beta", "reading", 0, None),
    ],
)
def test_what_is_declared_is_declared_of_a_stream_of_this_home(
    log_in: LogIn, call: tuple[Any, ...]
) -> None:
    error = refusal(log_in, "job", *call)
    assert isinstance(error, Refused)
    assert "stream none is not deployed here" in str(error)


LEASE_OF_MAIN = {"fragment": a.MAIN, "partition": 0, "participant": "alpha", "replica": 0,
                 "lane": "live", "epoch": 1, "holder": "me"}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "request_", "words"),
    [
        ("admit_late", {"stream": "src", "late": [[]]}, "a revision by late records names none"),
        (
            "commit_choice",
            {**LEASE_OF_MAIN, "stream": "sums", "commits": []},
            "fragment example/main does not choose among the producers of sums",
        ),
    ],
)
def test_a_request_of_a_job_is_within_what_its_function_does(
    log_in: LogIn, call: str, request_: dict[str, Any], words: str
) -> None:
    """By medusa.admit_late and medusa.commit_choice."""
    error = refusal(log_in, "job", call, json.dumps(request_))
    assert isinstance(error, Refused)
    assert words in str(error)


def test_a_source_that_is_assigned_to_nobody_is_not_revised(log_in: LogIn) -> None:
    """By medusa.revise."""
    request = {
        "key": "k", "stream": "src", "participant": "alpha", "replica": 0, "generation": 1,
        "because": "a test", "who": "ada", "parts": [{"from_us": 0, "to_us": a.WIDTH_US}],
        "behind": {}, "needed": {}, "fragment": "landing/none",
    }  # fmt: skip
    error = refusal(log_in, "owner", "revise", json.dumps(request))
    assert isinstance(error, Refused)
    assert "fragment landing/none is not assigned to anybody: deploy it first" in str(error)


STREAM_OF_ALL = """
    INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns)
    VALUES ('sums__all', 'derived', 1, '[]', '{}');
    INSERT INTO medusa.stream_producer (stream, participant, replica)
    VALUES ('sums__all', 'alpha', 0)
"""


def test_a_stream_is_shared_that_this_home_computes_under_a_name_of_its_own(log_in: LogIn) -> None:
    """By medusa_market.add_recipient."""
    with log_in("owner").cursor() as owner:
        owner.execute(STREAM_OF_ALL)
    for stream, words in (
        ("none", "stream 'none' is not computed by this home"),
        ("sums__all", "stream sums__all cannot be shared"),
    ):
        with log_in("owner").cursor() as owner, pytest.raises(psycopg2.Error, match=words):
            owner.execute("SELECT medusa_api.grant_to_recipient(%s, 'acme')", (stream,))


def test_access_to_a_public_stream_is_not_withdrawn_from_one_recipient(log_in: LogIn) -> None:
    """By medusa_api.withdraw_from_recipient."""
    withdraw = "SELECT medusa_api.withdraw_from_recipient('sums', 'acme')"
    with log_in("owner").cursor() as owner:
        owner.execute("SELECT medusa_api.declare_recipients('sums', '{acme}', true)")
        with pytest.raises(psycopg2.Error, match="stream sums is public: remove public from its"):
            owner.execute(withdraw)
        owner.execute("SELECT medusa_api.declare_recipients('sums', '{acme}', false)")
        owner.execute(withdraw)
        assert owner.fetchall() == [(True,)]
