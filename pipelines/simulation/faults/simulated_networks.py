"""The simulated query networks: of a few forms, because the oracle has a rule for each by hand.

    branches        s.. -> gathered -> pick -> picked -> counts (windows) -> loud (Filter)
                               |         `-> rest
                               `-> sums (windows)
    diamond         s.. -> gathered -> pick -> picked -> meeting (Union) -> counts -> loud
                               |         `-> rest           |
                               `----------------------------'
    window diamond  s.. -> gathered -> pick -> picked -> counts -> meeting (Union) -> loud
                               |         `-> rest                     |
                               `-> totals (windows) ------------------'
    knot            the window diamond in one fragment, behind it loud -> peaks
    chain           s.. -> gathered -> counts -> loud -> peaks (windows over windows)
    pairs           the diamond with a Join of picked with gathered in the place of the Union
    absence         the same, with a Join that gives what of gathered has no partner in picked
    newest          the same, with a Lookup of gathered in picked
    ranks           s.. -> gathered -> best (Rank) -> counts -> loud
    firsts          s.. -> gathered -> firsts (Deduplicate) -> counts -> loud
    sessions        s.. -> gathered -> visits (Session) -> counts -> loud
    running         s.. -> gathered -> so_far (Running) -> counts -> loud
    every           s.. -> gathered -> groups (Every) -> counts -> loud

In a diamond one stream reaches a fragment on two paths, one longer than the other; in a knot it
is read once, for windows of two lengths. A chain has four fragments one behind the other and no
other path. Pairs are answered without an input; for what is absent, inputs are waited for, as
for what is the newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Join,
    Lookup,
    Network,
    Output,
    Rank,
    Running,
    Session,
    Source,
    Union,
)

WIDTH_US = 10_000_000
WIDTH_S = WIDTH_US // 1_000_000
COLUMNS = {"at": "bigint", "key": "bigint", "value": "bigint"}
GAP_S = 4
"""After how long without a record a session ends."""
NO_LATE: Mapping[str, int] = {}
COUNTED = {"n": "count(*)", "total": "sum(value)"}


class Form(Enum):
    """How the boxes of a network lie."""

    BRANCHES = "branches"
    DIAMOND = "diamond"
    WINDOW_DIAMOND = "window diamond"
    KNOT = "knot"
    CHAIN = "chain"
    PAIRS = "pairs"
    ABSENCE = "absence"
    NEWEST = "newest"
    RANKS = "ranks"
    FIRSTS = "firsts"
    SESSIONS = "sessions"
    RUNNING = "running"
    EVERY = "every"


DRAWN_BY_NUMBER = (
    Form.PAIRS, Form.ABSENCE, Form.NEWEST, Form.RANKS, Form.FIRSTS, Form.SESSIONS, Form.RUNNING,
    Form.EVERY,
)  # fmt: skip
DRAWN_BY_CHANCE = tuple(form for form in Form if form not in DRAWN_BY_NUMBER)


WIDE = {
    Form.BRANCHES: frozenset({"counts", "loud"}),
    Form.DIAMOND: frozenset({"counts", "loud"}),
    Form.WINDOW_DIAMOND: frozenset({"counts", "totals", "meeting", "loud"}),
    Form.KNOT: frozenset({"meeting", "loud", "peaks"}),
    Form.CHAIN: frozenset({"counts", "loud", "peaks"}),
    Form.PAIRS: frozenset({"counts", "loud"}),
    Form.ABSENCE: frozenset({"counts", "loud"}),
    Form.NEWEST: frozenset({"counts", "loud"}),
    Form.RANKS: frozenset({"counts", "loud"}),
    Form.FIRSTS: frozenset({"counts", "loud"}),
    Form.SESSIONS: frozenset({"counts", "loud"}),
    Form.RUNNING: frozenset({"counts", "loud"}),
    Form.EVERY: frozenset({"counts", "loud"}),
}
"""The streams whose buckets may be wider: windows, and what is behind them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The form of a network and the numbers in its expressions; windows in buckets.

    `is_cut_finely`: boxes that could share a fragment have one each. `within_s` are the bounds of a
    Join, `max_age_s` that of a Lookup.
    """

    form: Form
    modulus: int
    remainder: int
    loud_from: int
    counts_size: int
    counts_advance: int
    sums_size: int
    is_cut_finely: bool
    within_s: tuple[int, int] = (0, 0)
    max_age_s: int = 1


def network_of(
    rules: Rules, sources: Sequence[StreamName], late_every_s: Mapping[str, int] = NO_LATE
) -> Network:
    """The network with the numbers filled in.

    `late_every_s`: the sources that admit late records, with their period in seconds.
    """
    match rules.form:
        case Form.BRANCHES:
            boxes, outputs = _branches(rules)
        case Form.DIAMOND:
            boxes, outputs = _diamond(rules)
        case Form.WINDOW_DIAMOND:
            boxes, outputs = _window_diamond(rules)
        case Form.KNOT:
            boxes, outputs = _knot(rules)
        case Form.CHAIN:
            boxes, outputs = _chain(rules)
        case Form.PAIRS | Form.ABSENCE | Form.NEWEST:
            boxes, outputs = _joined(rules)
        case Form.RANKS:
            boxes, outputs = _counted_behind(rules, _best(rules))
        case Form.FIRSTS:
            boxes, outputs = _counted_behind(rules, _firsts(rules))
        case Form.SESSIONS:
            boxes, outputs = _counted_behind(rules, _visits(rules))
        case Form.RUNNING:
            boxes, outputs = _counted_behind(rules, _so_far(rules))
        case Form.EVERY:
            boxes, outputs = _counted_behind(rules, _groups(rules))
    gathering = Union(name="gathered", inputs=tuple(sources), fragment="gather")
    return Network(
        name="simulated",
        sources=tuple(
            Source(
                name=s, columns=COLUMNS, time="at", late="revise", late_every=f"{late_every_s[s]}s"
            )
            if s in late_every_s
            else Source(name=s, columns=COLUMNS, time="at")
            for s in sources
        ),
        boxes=(gathering, *boxes),
        outputs=tuple(Output(name=name, input=port) for name, port in outputs.items()),
        bucket=f"{WIDTH_S}s",
    )


Boxes = tuple[Box, ...]
Outputs = dict[str, str]
"""Output -> the port that it comes from."""


def _branches(rules: Rules) -> tuple[Boxes, Outputs]:
    boxes = (
        _pick(rules),
        _counts(rules, "pick.picked", fragment="count"),
        _loud(rules, "counts", fragment="loud" if rules.is_cut_finely else "count"),
        Aggregate(
            name="adding",
            input="gathered",
            size=f"{rules.sums_size * WIDTH_S}s",
            columns=COUNTED,
            fragment="add",
        ),
    )
    return boxes, {
        "loud": "noise.loud",
        "counts": "counts",
        "rest": "pick.rest",
        "sums": "adding",
    }


def _diamond(rules: Rules) -> tuple[Boxes, Outputs]:
    boxes = (
        _pick(rules),
        Union(name="meeting", inputs=("gathered", "pick.picked"), fragment="meet"),
        _counts(rules, "meeting", fragment="count"),
        _loud(rules, "counts", fragment="loud" if rules.is_cut_finely else "count"),
    )
    return boxes, {"loud": "noise.loud", "counts": "counts", "rest": "pick.rest"}


def _window_diamond(rules: Rules) -> tuple[Boxes, Outputs]:
    boxes = (
        _pick(rules),
        _counts(rules, "pick.picked", fragment="count"),
        _totals(rules, fragment="add"),
        Union(name="meeting", inputs=("counts", "totals"), fragment="meet"),
        _loud(rules, "meeting", fragment="loud" if rules.is_cut_finely else "meet"),
    )
    return boxes, {
        "loud": "noise.loud",
        "counts": "counts",
        "totals": "totals",
        "rest": "pick.rest",
    }


def _knot(rules: Rules) -> tuple[Boxes, Outputs]:
    boxes = (
        _pick(rules, fragment="meet"),
        _counts(rules, "pick.picked", fragment="meet"),
        _totals(rules, fragment="meet"),
        Union(name="meeting", inputs=("counts", "totals"), fragment="meet"),
        _loud(rules, "meeting", fragment="loud"),
        _peaks(rules),
    )
    return boxes, {"loud": "noise.loud", "peaks": "peaks"}


def _chain(rules: Rules) -> tuple[Boxes, Outputs]:
    boxes = (
        _counts(rules, "gathered", fragment="count"),
        _loud(rules, "counts", fragment="loud"),
        _peaks(rules),
    )
    return boxes, {"loud": "noise.loud", "counts": "counts", "peaks": "peaks"}


def _joined(rules: Rules) -> tuple[Boxes, Outputs]:
    boxes = (
        _pick(rules),
        _newest(rules) if rules.form is Form.NEWEST else _met(rules),
        _counts(rules, "meeting", fragment="count"),
        _loud(rules, "counts", fragment="loud" if rules.is_cut_finely else "count"),
    )
    return boxes, {"loud": "noise.loud", "counts": "counts", "rest": "pick.rest"}


def _newest(rules: Rules) -> Lookup:
    return Lookup(
        name="meeting",
        input="gathered",
        table="pick.picked",
        on=("key",),
        max_age=f"{rules.max_age_s}s",
        # Rows of the simulated engine have no NULL.
        how="inner",
        columns={"at": "input.at", "key": "input.key", "value": "table.value"},
        fragment="meet",
    )


def _met(rules: Rules) -> Join:
    are_pairs = rules.form is Form.PAIRS
    return Join(
        name="meeting",
        left="pick.picked" if are_pairs else "gathered",
        right="gathered" if are_pairs else "pick.picked",
        on=("key",),
        within=(f"{rules.within_s[0]}s", f"{rules.within_s[1]}s"),
        how="inner" if are_pairs else "anti",
        columns={
            "at": "left.at",
            "key": "left.key",
            "value": "right.value" if are_pairs else "left.value",
        },
        fragment="meet",
    )


def _counted_behind(rules: Rules, box: Box) -> tuple[Boxes, Outputs]:
    boxes = (
        box,
        _counts(rules, box.name, fragment="count"),
        _loud(rules, "counts", fragment="loud"),
    )
    return boxes, {"loud": "noise.loud", "counts": "counts"}


def _best(rules: Rules) -> Rank:
    return Rank(
        name="best",
        input="gathered",
        size=f"{rules.sums_size * WIDTH_S}s",
        group_by=("key",),
        order=("value desc",),
        k=rules.loud_from,
        fragment="rank",
    )


def _within(rules: Rules) -> str:
    """The length of spans: no whole number of buckets, so that a bucket lies in two."""
    return f"{rules.sums_size * WIDTH_S - 3}s"


def _firsts(rules: Rules) -> Deduplicate:
    return Deduplicate(
        name="firsts", input="gathered", by=("key",), within=_within(rules), fragment="first"
    )


def _so_far(rules: Rules) -> Running:
    return Running(
        name="so_far",
        input="gathered",
        by=("key",),
        within=_within(rules),
        columns=COUNTED,
        fragment="add",
    )


def _groups(rules: Rules) -> Every:
    return Every(
        name="groups",
        input="gathered",
        by=("key",),
        n=rules.loud_from,
        within=_within(rules),
        columns={"value": "sum(value)", "n": "count(*)"},
        fragment="group",
    )


def _visits(rules: Rules) -> Session:
    # Neither is a whole number of buckets, so that sessions end and are cut within one.
    return Session(
        name="visits",
        input="gathered",
        by=("key",),
        gap=f"{GAP_S}s",
        length_max=f"{rules.sums_size * WIDTH_S - 3}s",
        columns={"value": "sum(value)"},
        fragment="visit",
    )


def _pick(rules: Rules, fragment: str = "pick") -> Filter:
    return Filter(
        name="pick",
        input="gathered",
        cases={"picked": f"value % {rules.modulus} = {rules.remainder}"},
        otherwise="rest",
        fragment=fragment,
    )


def _counts(rules: Rules, input_: str, fragment: str) -> Aggregate:
    return Aggregate(
        name="counts",
        input=input_,
        size=f"{rules.counts_size * WIDTH_S}s",
        advance=f"{rules.counts_advance * WIDTH_S}s",
        group_by=("key",),
        columns=COUNTED,
        fragment=fragment,
    )


def _totals(rules: Rules, fragment: str) -> Aggregate:
    return Aggregate(
        name="totals",
        input="gathered",
        size=f"{rules.sums_size * WIDTH_S}s",
        group_by=("key",),
        columns=COUNTED,
        fragment=fragment,
    )


def _peaks(rules: Rules) -> Aggregate:
    return Aggregate(
        name="peaks",
        input="noise.loud",
        size=f"{rules.sums_size * WIDTH_S}s",
        group_by=("key",),
        columns={"times": "count(*)", "records": "sum(n)"},
        fragment="peak",
    )


def _loud(rules: Rules, input_: str, fragment: str) -> Filter:
    return Filter(
        name="noise", input=input_, cases={"loud": f"n >= {rules.loud_from}"}, fragment=fragment
    )
