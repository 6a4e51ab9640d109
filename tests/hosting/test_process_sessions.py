"""What is left of a session is ours, and nothing that only has a number of ours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.platform.airflow_components.process_sessions import Process, Started, leftovers

LEADER = Started("scheduler", 100, "boot 5000")


def process(pid: int, session: int = 100, since: str = "boot 5001", user: int = 7) -> Process:
    return Process(pid, session, since, user)


def left(*processes: Process) -> tuple[int, ...]:
    return tuple(one.pid for one in leftovers(LEADER, processes, user=7))


def test_what_lives_in_the_session_of_a_dead_leader_is_left() -> None:
    assert left(process(101), process(102), process(103, session=1)) == (101, 102)


def test_the_leader_is_left_while_it_lives() -> None:
    assert left(process(100, since="boot 5000"), process(101)) == (100, 101)


def test_nothing_is_left_where_the_leaders_number_was_reused() -> None:
    assert left(process(100, since="boot 9000"), process(101, since="boot 9001")) == ()


def test_nothing_is_left_from_before_the_start_of_another_user_or_of_another_boot() -> None:
    assert left(process(101, since="boot 4999")) == ()
    assert left(process(101, user=8)) == ()
    assert left(process(101, since="later 5001")) == ()


@given(
    st.lists(
        st.builds(
            Process,
            st.integers(1, 300),
            st.integers(99, 101),
            st.sampled_from(["boot 4999", "boot 5000", "boot 5001", "later 5001", "Sat Nov 21"]),
            st.integers(7, 8),
        ),
        unique_by=lambda one: one.pid,
    )
)
def test_only_ours_are_ever_left(processes: list[Process]) -> None:
    for one in leftovers(LEADER, processes, user=7):
        assert one.session == LEADER.pid
        assert one.user == 7
        assert one.since in ("boot 5000", "boot 5001")
