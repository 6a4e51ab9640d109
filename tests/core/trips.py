"""Trips of users with fees, for the tests of boxes that read them by spans."""

from __future__ import annotations

from hypothesis import strategies as st

from medusa_core.fragments import Fragment, fragments_of
from medusa_core.names import StreamName
from medusa_core.network import Box, Network, Output, Source

TRIPS, RESULT = StreamName("trips"), StreamName("result")
AT = {"user": 1, "fee": 2}
"""Where the columns are in a row, behind its event time."""

Row = tuple[int, ...]
ROWS = st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 1), st.integers(0, 2)), max_size=12)


def a_network(*boxes: Box) -> Network:
    """trips -> boxes -> result."""
    columns = {"at_us": "bigint", "user": "string", "fee": "int"}
    return Network(
        name="example",
        sources=(Source(name="trips", columns=columns, time="at_us"),),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )


def a_fragment(*boxes: Box) -> Fragment:
    """The only fragment of such a network."""
    (fragment,) = fragments_of(a_network(*boxes))
    return fragment
