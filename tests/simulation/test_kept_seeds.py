"""Seeds that once showed something, each with a sentence.

One is run again with every test run, all of them by `make test-long`.

A seed is one schedule as long as scenarios and faults are drawn as they were. Where that changes,
a seed kept here is an ordinary one from then on; what it showed has a test of its own elsewhere, or
a planted bug.
"""

from __future__ import annotations

import pytest

from pipelines.simulation.faults.schedule_runs import schedule_of
from pipelines.simulation.faults.schedule_shapes import (
    MARKETS,
    MOVES,
    REPLICAS,
    REVISIONS,
    TRIMS,
    WHOLE,
    Shape,
)

CLOSED_BY_ANOTHER = (
    "a driver that was frozen while it closed buckets wakes when another has closed them and their "
    "landed files are trimmed: it has to look again before it calls the input changed"
)

LATE_BEGINNING = (
    "before every input has begun nobody knows where an output begins, so its first answers are "
    "as late as the input that began last, and no promise is broken"
)

TENTATIVE_ACROSS_A_DIVERGENCE = (
    "a tentative row is corrected as a whole: one that begins before the bucket over which "
    "producers differ and reaches behind it stays tentative, with what is computed from it"
)

TRIMMED_BEFORE_IT_WAS_COMPARED = (
    "a row of one producer that is chosen and trimmed before another one is final there is "
    "compared with nothing, and what the two differ in is not noted"
)

ENDED_LATER = (
    "that an input has ended is known later than its last row: what it lets be answered has waited "
    "for corrections since then at the most, not since that row"
)

ENDED_BEFORE_THE_OTHERS = (
    "that a producer has ended, so that it agrees with whoever has one more empty bucket, is known "
    "later than that bucket: what it verifies is final from then on, not since the bucket came"
)

NOT_COMPARED_YET = (
    "a row that comes last is compared with the other producers' in its reader's next turn: a "
    "schedule that ends in between has noted no divergence, and none was overlooked"
)

LOST_BEHIND_THE_END_OF_ANOTHER = (
    "a producer had computed one more empty bucket before it knew its end, and a reader lost it: "
    "that was declared a gap, although the reader's own line, which ended before it, tells it empty"
)

NO_ROOM_FOR_A_LARGE_ONE = (
    "who has no room for a large fragment was never asked for a smaller one: its payer stayed over "
    "its threshold although both would have gained"
)

LESS_ROOM_THAN_ANY_NEEDS = (
    "who had told of room that is smaller than any fragment of its payer never told of more, and "
    "was never asked again"
)

ROOM_MADE_PIECE_BY_PIECE = (
    "room that a relay makes piece by piece was told for small fragments, offered one as large as "
    "all of it, and declined, again and again"
)

A_DEARER_LEVEL_DOES_NOT_PAY = (
    "the level at which a partner would take most did not pay for any fragment by difference, and "
    "the one below, at which it would take some and which paid, was never tried"
)

NOBODY_ELSE_PAYS = (
    "who had asked in an overload itself, and had room long since, was never asked, as another one "
    "was left to ask at whose price nothing paid by difference"
)

A_LARGE_ONE_HIDES_A_SMALL_ONE = (
    "a large fragment that alone would have ended an overload was offered at the dearer level at "
    "which there was room for a small one; declined, it took that word of room with it, and all "
    "sizes were asked for from the lowest level on, again and again"
)

BACKLOG_OF_WINDOWS = (
    "a participant that came back from a crash computed a backlog of tentative windows of two "
    "buckets one bucket a turn, since no window ended in every second bucket and that one was "
    "stable: the last answer came 26 s after its inputs were fresh, at a bound of 3.7 s"
)

SENT_AGAIN_BEHIND_A_REVISION = (
    "a commit that was sent again after a revision of its line was not found, because the key of a "
    "commit named the generation that the revision had begun"
)

TRIMMED_WHILE_IT_IS_OWED = (
    "a participant trimmed buckets that it was to compute again for a partner's revision: the "
    "reader that it computes them for keeps them for longer, and kept the old ones"
)

TRIMMED_IN_A_COPY = (
    "what one late record needed was trimmed only in the copy of a partner's stream: the revision "
    "of all late records of its source was planned with it and refused, again and again"
)

HELD_BEHIND_THE_ORDER = (
    "what a provider was to read was held at its payer's next look, behind the order, and only for "
    "the first bucket, in which no window ended: it was trimmed before, and the provider made rows "
    "final without it"
)

TRIMMED_WHILE_IT_WAS_ADOPTED = (
    "a trim ignored the hold of a fragment that adopts, since it reads no output of its own: the "
    "files of rows were removed in the moment in which they were adopted"
)

TRIMMED_BEFORE_IT_REPLACED_A_TENTATIVE_ONE = (
    "a fragment that adopts held the rows of its provider from its own boundary on: a tentative "
    "bucket before that was replaced by a provider's rows whose files a trim had just removed"
)

A_GAP_HAS_NO_AGE = (
    "a provider had a tentative bucket from before its move, which its payer trimmed: it became a "
    "gap, and the check of ages compared that with the payer's row, of which a part was still there"
)

READ_BESIDE_ITS_PAYERS = (
    "a fragment that was moved behind another one of its payer to the same provider read the line "
    "of that one there, which began later, and made final rows of nothing"
)

BEFORE_1970 = "an order whose first bucket lies before 1970 was refused as none of Medusa's"

KEPT: tuple[tuple[int, Shape, str], ...] = (
    (266, WHOLE, CLOSED_BY_ANOTHER),
    (7149, WHOLE, LATE_BEGINNING),
    (4887, TRIMS, LATE_BEGINNING),
    (2_015, REPLICAS, TRIMMED_BEFORE_IT_WAS_COMPARED),
    (500_924, REPLICAS, ENDED_LATER),
    (2_080, REPLICAS, ENDED_BEFORE_THE_OTHERS),
    (6_048, REPLICAS, NOT_COMPARED_YET),
    (20_160, WHOLE, BACKLOG_OF_WINDOWS),
    (30_028, REPLICAS, TENTATIVE_ACROSS_A_DIVERGENCE),
    (9_364, REPLICAS, LOST_BEHIND_THE_END_OF_ANOTHER),
    (9, REVISIONS, TRIMMED_WHILE_IT_IS_OWED),
    (33, REVISIONS, SENT_AGAIN_BEHIND_A_REVISION),
    (29, REVISIONS, TRIMMED_IN_A_COPY),
    (1_059, MOVES, HELD_BEHIND_THE_ORDER),
    (1_007, MOVES, TRIMMED_WHILE_IT_WAS_ADOPTED),
    (5_001_082, MOVES, TRIMMED_BEFORE_IT_REPLACED_A_TENTATIVE_ONE),
    (5_001_398, MOVES, A_GAP_HAS_NO_AGE),
    (194, MOVES, READ_BESIDE_ITS_PAYERS),
    (2, MOVES, BEFORE_1970),
    (4, MARKETS, NO_ROOM_FOR_A_LARGE_ONE),
    (44, MARKETS, LESS_ROOM_THAN_ANY_NEEDS),
    (114, MARKETS, ROOM_MADE_PIECE_BY_PIECE),
    (1_673, MARKETS, A_DEARER_LEVEL_DOES_NOT_PAY),
    (4_055, MARKETS, NOBODY_ELSE_PAYS),
    (10_035, MARKETS, A_LARGE_ONE_HIDES_A_SMALL_ONE),
)


ONCE = {266}
"""Each shape has schedules of its own in `make test`."""


@pytest.mark.parametrize(
    ("seed", "shape", "sentence"),
    [kept if kept[0] in ONCE else pytest.param(*kept, marks=pytest.mark.long) for kept in KEPT],
)
def test_a_seed_that_once_showed_something_breaks_no_law(
    seed: int, shape: Shape, sentence: str
) -> None:
    schedule = schedule_of(seed, shape)
    assert schedule.violation is None, sentence
    assert schedule.faults.total() > 0
