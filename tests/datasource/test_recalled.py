"""A streaming query that has read what was recalled since is told so; any other one goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.errors import Expired
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer
from pipelines.datasource.offsets import beginning, check_offset, offset_of
from pipelines.datasource.stream_snapshot import StreamSnapshot

ALPHA = Participant("alpha")
LINE = StreamSnapshot(
    stream=StreamName("sums"),
    home=ALPHA,
    incarnation="1",
    width_us=10,
    columns={"n": "bigint"},
    producer=Producer(ALPHA),
    version=Version(7),
    origin_us=0,
    stable_through_us=100,
    final_through_us=100,
    trimmed_us=None,
    generation=3,
    recalls=((2, 60), (3, 40)),
)


def test_what_was_read_of_an_older_generation_must_lie_before_what_was_recalled() -> None:
    read = replace(beginning(LINE, 0), generation=1)
    check_offset(LINE, replace(read, through_us=40), 40)
    for through_us in (50, 100):
        with pytest.raises(Expired, match="recalled"):
            check_offset(LINE, replace(read, through_us=through_us), through_us)
    check_offset(LINE, replace(read, through_us=100, generation=3), 100)
    with pytest.raises(Expired, match="recalled"):
        check_offset(LINE, replace(read, through_us=50, generation=2), 50)


def test_a_checkpoint_from_before_there_were_recalls_is_of_the_first_generation() -> None:
    document = beginning(LINE, 0).document()
    del document["generation"]
    assert offset_of(document).generation == 1
    assert beginning(LINE, 0).generation == 3
