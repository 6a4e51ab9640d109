"""What the runs of replays come to: medians, the cost at the margin, and what is promised.

A start costs seconds that a long replay does not notice. So two sizes are compared: what the
records cost that the larger has more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.command_costs import CommandCosts
from bench.wanted import Wanted, wanted_lines

MILLION, GIB = 1_000_000, 1024
MEMORY_RATIO_MAX = 1.3
"""The memory of the largest replay, of that of the smallest: Python, and the JVM."""

NAMES = {
    "bare": "a bare Spark",
    "streaming": "b Structured Streaming",
    "medusa": "c Medusa",
    "duckdb": "d DuckDB, a file at a time",
}
NOT_MEASURED = "Flink is not measured: it is not installed on this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replays:
    """The runs of each contender over recordings of one format, by the number of records.

    `rows`: the rows of each output, on which all agree. `fresh`: the size that is compared with
    the seconds promised for a new process; None: there is no such run.
    """

    format: str
    runs: Mapping[int, Mapping[str, Sequence[CommandCosts]]]
    rows: Mapping[int, Mapping[str, int]]
    fresh: int | None = None

    @property
    def sizes(self) -> list[int]:
        """The sizes between which the margin is, smallest first."""
        return sorted(size for size in self.runs if size != self.fresh)

    @property
    def contenders(self) -> list[str]:
        """All contenders, in the order of their letters."""
        return [name for name in NAMES if all(name in runs for runs in self.runs.values())]

    def median(self, contender: str, records: int, figure: str) -> float:
        """The median of a figure over the runs of a contender over so many records."""
        return median(getattr(costs, figure) for costs in self.runs[records][contender])


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """What the records cost that a larger replay has more than a smaller one."""

    records: int
    seconds: float
    cpu_s: float

    @property
    def millions_per_s(self) -> float:
        """Records a second, in millions; NaN if the larger replay took no longer."""
        return self.records / MILLION / self.seconds if self.seconds > 0 else float("nan")

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU a record."""
        return self.cpu_s * MILLION / self.records


def margin_of(replays: Replays, contender: str) -> Margin | None:
    """Between the smallest and the largest size; None if there is only one."""
    if len(replays.sizes) < 2:
        return None
    small, large = replays.sizes[0], replays.sizes[-1]
    return Margin(
        records=large - small,
        seconds=replays.median(contender, large, "seconds")
        - replays.median(contender, small, "seconds"),
        cpu_s=replays.median(contender, large, "cpu_s") - replays.median(contender, small, "cpu_s"),
    )


RATES = {"parquet": (1.2, 2.0), "csv.gz": (0.4, 0.8)}
"""Million records a second at the margin: promised, and the goal."""

CPU_US = {"parquet": (1.5, 1.0)}
"""Microseconds of CPU a record, start of the command included: promised, and the goal."""

FRESH_S = (10.0, 6.0)
MEMORY_GIB = 1.5


def wanted_of(replays: Replays) -> list[Wanted]:
    """What is promised of Medusa, with what was measured."""
    found: list[Wanted] = []
    if margin := margin_of(replays, "medusa"):
        promised, goal = RATES[replays.format]
        found.append(
            Wanted(
                name="million records/s at the margin",
                measured=margin.millions_per_s,
                promised=promised,
                goal=goal,
                is_least=True,
            )
        )
    if replays.sizes:
        large = replays.sizes[-1]
        if replays.format in CPU_US:
            promised, goal = CPU_US[replays.format]
            cpu_us = replays.median("medusa", large, "cpu_s") * MILLION / large
            name = f"CPU µs a record, {large:,} records in all"
            found.append(Wanted(name=name, measured=cpu_us, promised=promised, goal=goal))
        gib = replays.median("medusa", large, "memory_mib") / GIB
        name = f"memory at {large:,} records, GiB"
        found.append(Wanted(name=name, measured=gib, promised=MEMORY_GIB))
    if replays.fresh is not None:
        promised, goal = FRESH_S
        seconds = replays.median("medusa", replays.fresh, "seconds")
        name = f"{replays.fresh:,} records in a new process, s"
        found.append(Wanted(name=name, measured=seconds, promised=promised, goal=goal))
    return [*found, *memory_ratios(replays)]


def memory_ratios(replays: Replays) -> list[Wanted]:
    """The memory of the largest replay of Medusa, of that of the smallest."""
    if len(replays.sizes) < 2:
        return []
    small, large = replays.sizes[0], replays.sizes[-1]
    return [
        Wanted(
            name=f"memory of {name}, {large:,} records of {small:,}",
            measured=replays.median("medusa", large, figure)
            / max(replays.median("medusa", small, figure), 1.0),
            promised=MEMORY_RATIO_MAX,
        )
        for name, figure in (("Python", "python_mib"), ("the JVM", "jvm_mib"))
    ]


_FIGURES = ("seconds", "cpu_s", "memory_mib", "python_mib", "jvm_mib")


def lines_of(replays: Replays) -> Iterator[str]:
    """The tables of one format, a line for each contender."""
    for records in sorted(replays.runs):
        rounds = len(replays.runs[records][replays.contenders[0]])
        agreed = ", ".join(f"{name} {count:,}" for name, count in replays.rows[records].items())
        yield ""
        yield f"{records:,} records, {replays.format}, median of {rounds}; equal results: {agreed}"
        yield _table_line(
            "", "seconds", "CPU s", "µs/record", "memory MiB", "Python MiB", "JVM MiB"
        )
        for name in replays.contenders:
            values = {figure: replays.median(name, records, figure) for figure in _FIGURES}
            yield _table_line(
                NAMES[name],
                f"{values['seconds']:.1f}",
                f"{values['cpu_s']:.1f}",
                f"{values['cpu_s'] * MILLION / records:.2f}",
                *(f"{values[figure]:,.0f}" for figure in _FIGURES[2:]),
            )
    yield from _margin_lines(replays)
    if "medusa" in replays.contenders:
        yield from _program_lines(replays)
        yield ""
        yield from wanted_lines(wanted_of(replays))


def _table_line(name: str, *cells: str) -> str:
    return f"{name:28}" + "".join(f"{cell:>12}" for cell in cells)


def _margin_lines(replays: Replays) -> Iterator[str]:
    if len(replays.sizes) < 2:
        return
    yield ""
    small, large = replays.sizes[0], replays.sizes[-1]
    yield f"at the margin, from {small:,} to {large:,} records"
    yield _table_line("", "million/s", "µs/record")
    for name in replays.contenders:
        margin = margin_of(replays, name)
        assert margin is not None
        yield _table_line(NAMES[name], f"{margin.millions_per_s:.2f}", f"{margin.cpu_us:.2f}")


def _program_lines(replays: Replays) -> Iterator[str]:
    yield ""
    for records in sorted(replays.runs):
        runs = replays.runs[records]["medusa"]
        programs = sorted({name for costs in runs for name in costs.cpu_by_program})
        parts = [
            f"{name} {median(costs.cpu_by_program.get(name, 0.0) for costs in runs):.1f}"
            for name in programs
        ]
        yield f"CPU s of Medusa, {records:,} records: {', '.join(parts)}"
