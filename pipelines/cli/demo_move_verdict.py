"""The end of the demo's scene of load: what is checked in both homes, and the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from medusa_core.grid import floor_us
from medusa_core.market.bill_statements import Statement, statement_id
from medusa_core.market.money import total_of
from medusa_core.market.moves import MoveState
from medusa_core.market.terms import plain
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from medusa_core.suggest import counted
from pipelines.base.text_table import facts, table
from pipelines.base.time_text import duration
from pipelines.catalog.records import OwnerLine
from pipelines.cli.demo_move_homes import BILLED, CONTRACT, FRAGMENT, PAYER, PROVIDER, PartyHome
from pipelines.homes.home import Home
from pipelines.report.move_figures import Check, MoveFigures
from pipelines.storage.segment_rows import columns_of, read_segments, stream_record

INPUT, OUTPUT = StreamName("connections"), StreamName("active_sources")
WIDTH_US = 1_000_000
MOVE_LAWS = ("L1", "S2", "S3", "S12")
Row = tuple[int, str, int, int]


def statements_of(payer: PartyHome) -> tuple[Statement, ...]:
    """The provider's statements, as the payer has received them."""
    return tuple(
        payer.books.statements(CONTRACT, bill.period)[0]
        for bill in payer.bills()
        if bill.made_by == PROVIDER
    )


def checks_of(payer: PartyHome, provider: PartyHome, owners: Sequence[OwnerLine]) -> list[Check]:
    """What has to be so after a fragment has moved and come back."""
    return [
        check_rows(rows_of(payer.home), rows_counted_again(payer.home)),
        check_owners(owners),
        _check_statements(payer, provider),
        _check_home(payer, provider, owners),
    ]


def show_figures(figures: MoveFigures, say: Callable[[str], None]) -> bool:
    """Print the bill and the checks; whether everything is as promised."""
    rows = [
        (one.period, charge.subject, plain(charge.quantity), plain(charge.price),
         plain(charge.amount))
        for one in figures.statements
        for charge in one.charges
    ]  # fmt: skip
    say("")
    say(table(("period", "load of", "CPU s", "EUR an hour", "EUR"), rows))
    say("")
    broken = [law for law in figures.answers.laws if law.name in MOVE_LAWS and not law.holds]
    delay_ms = figures.answers.delay_ms_max or 0
    held = ", ".join(name for name in MOVE_LAWS if name not in {law.name for law in broken})
    laws = f"{held} hold" + "".join(f"; {law.name} BROKEN: {law.found}" for law in broken)
    say(
        facts(
            [
                *((c.name, c.found if c.holds else f"WRONG: {c.found}") for c in figures.checks),
                ("results", f"{duration(delay_ms * 1_000)} late at most"),
                ("laws", laws),
            ]
        )
    )
    return not broken and all(check.holds for check in figures.checks)


# ------------------------------------------------------------ rows


def rows_of(home: Home) -> list[Row]:
    """The final rows of the output: window, source, connections, ports."""
    found: list[Row] = []
    for rows in _final(home, OUTPUT):
        names = ("window_start", "orig_h", "connections", "ports")
        starts, *others = (rows[name] for name in names)
        times = starts.cast(pa.int64()).to_pylist()
        found += zip(times, *(column.to_pylist() for column in others), strict=True)
    return found


def rows_counted_again(home: Home) -> Mapping[tuple[int, str], tuple[int, int]]:
    """What the output has to be: counted from the landed records, without Medusa's operators."""
    connections: Counter[tuple[int, str]] = Counter()
    ports: dict[tuple[int, str], set[int]] = {}
    for rows in _final(home, INPUT):
        columns = (rows[name].to_pylist() for name in ("ts_us", "orig_h", "resp_p"))
        for ts_us, host, port in zip(*columns, strict=True):
            key = (floor_us(ts_us, WIDTH_US), host)
            connections[key] += 1
            ports.setdefault(key, set()).add(port)
    return {key: (count, len(ports[key])) for key, count in connections.items()}


def _final(home: Home, stream: StreamName) -> Iterable[pa.Table]:
    record = stream_record(home.catalog, stream)
    # Of the output there are imported copies of the provider's line as well.
    line = home.catalog.segments(stream, producer=Producer(PAYER))
    segments = [s for s in line if s.stability.is_final]
    return read_segments(home.storage, segments, columns_of(record))


def check_rows(rows: Sequence[Row], expected: Mapping[tuple[int, str], tuple[int, int]]) -> Check:
    """Every row that has to be there is there once, and no other one."""
    through_us = max((row[0] for row in rows), default=0)
    due = Counter((at, host, *values) for (at, host), values in expected.items()
                  if at <= through_us)  # fmt: skip
    wrong = (Counter(rows) - due) + (due - Counter(rows))
    found = f"all {len(rows):,} are what landed, each once"
    if wrong or not rows:
        found = f"{counted(sum(wrong.values()), 'row')} of {len(rows):,} differ from what landed"
    return Check(name="rows", found=found, holds=bool(rows) and not wrong)


# ------------------------------------------------------------ owners and bills


def check_owners(owners: Sequence[OwnerLine]) -> Check:
    """The log gives every bucket one owner: there and back, each epoch once, never backwards."""
    epochs = [int(line.epoch) for line in owners]
    starts = [line.from_us for line in owners]
    names = [line.owner.participant for line in owners]
    holds = (
        epochs == list(range(1, len(owners) + 1))
        and starts == sorted(starts)
        and names == [PROVIDER, PAYER]
    )
    path = " -> ".join([PAYER, *names])
    return Check(name="owners", found=f"one for each bucket: {path}", holds=holds)


def _check_statements(payer: PartyHome, provider: PartyHome) -> Check:
    """Both homes have made the same statements, what was billed is settled, nothing is blocked."""
    own = {b.period: b.statement for b in payer.bills() if b.made_by == PAYER}
    made = {b.period: b.statement for b in provider.bills() if b.made_by == PROVIDER}
    received = statements_of(payer)
    # One home may have stated a period more than the other when they ended.
    differing = sorted(period for period in own.keys() & made.keys() if own[period] != made[period])
    differing += [r.period for r in received if own.get(r.period) != statement_id(r)]
    open_ = [
        b.period for b in (*payer.bills(), *provider.bills()) if b.state == BILLED or b.blocked
    ]
    total = plain(total_of(one.total for one in received))
    found = f"equal in both homes, and settled: {PAYER} owes {PROVIDER} {total} EUR"
    if differing or open_ or not received:
        found = f"{len(received)} received; periods that differ: {differing}; not settled: {open_}"
    holds = bool(received) and not differing and not open_
    return Check(name="statements", found=found, holds=holds)


def _check_home(payer: PartyHome, provider: PartyHome, owners: Sequence[OwnerLine]) -> Check:
    """The move has ended in both homes, and the payer owns what follows."""
    states = [None if (m := party.last_move()) is None else m.state for party in (payer, provider)]
    back = bool(owners) and owners[-1].owner.participant == PAYER
    holds = back and all(state is MoveState.ENDED for state in states)
    return Check(
        name="fragment",
        found=f"{FRAGMENT} is {PAYER}'s again" if holds else f"moves are {states}",
        holds=holds,
    )
