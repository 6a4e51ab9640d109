"""Status names the streams that a home writes or reads, and no number for the limits of time."""

from __future__ import annotations

from medusa_core.decisions import DecisionReason
from medusa_core.exchange import import_fragment
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.segments import Producer
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.watching.home_status import held_streams
from tests.catalog import building as a

BETA = Producer(a.Participant("beta"))


def test_an_output_of_a_partners_fragment_that_is_not_read_is_left_out() -> None:
    home = MemoryCatalog(BETA.participant, ManualClock())
    writing = {a.MAIN: ((a.SRC,), (a.SUMS, a.BIG)), a.LANDING: ((), (a.SRC,))}
    reading = import_fragment(a.SUMS)
    home.deploy(
        a.a_deployment(
            fragments={**writing, reading: ((), ())},
            assignments=(
                a.an_assignment(a.LANDING, producer=BETA),
                a.an_assignment(a.MAIN),
                a.an_assignment(reading, producer=BETA),
            ),
        )
    )
    assert {s.stream.name for s in home.streams()} == {a.SRC, a.SUMS, a.BIG}
    assert {s.stream.name for s in held_streams(home)} == {a.SRC, a.SUMS}


def test_a_reason_shows_the_limits_of_event_time_in_words() -> None:
    numbers = {"closed_us": BEGINNING_US, "end_us": FOREVER_US, "records": 3}
    assert str(DecisionReason("the source has promised nothing", numbers)) == (
        "the source has promised nothing (closed_us before the first record, end_us the end of "
        "time, records 3)"
    )
    assert Range(BEGINNING_US, 10).shown == "[before the first record, 10)"


def test_the_text_of_a_range_in_the_key_of_a_commit_is_its_numbers() -> None:
    assert str(Range(BEGINNING_US, 10)) == "[-9223372036854775808, 10)"
