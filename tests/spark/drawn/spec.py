"""A network drawn from a seed: boxes as plain data, and the Medusa network that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from medusa_core import network as medusa
from tests.spark.drawn.expressions import (
    DECIMAL,
    Aggregation,
    Columns,
    Expression,
    a_predicate,
    a_scalar,
    a_user_aggregation,
    an_aggregation,
    one_zero,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCE_COLUMNS: Columns = (
    ("at_us", "bigint"),
    ("k", "string"),
    ("s", "string"),
    ("i", "int"),
    ("j", "int"),
    ("l", "bigint"),
    ("d", "double"),
    ("m", DECIMAL),
    ("b", "boolean"),
    ("ts", "timestamp"),
    ("e", "date"),
    ("x", "binary"),
)
GROUPS = ("k", "s", "i", "d", "m", "b", "ts", "e")
BUCKET_S = 10
LATER = "later"


@dataclass(frozen=True)
class Filter:
    """Ports with their predicates, in order."""

    name: str
    input: str
    cases: tuple[tuple[str, Expression], ...]
    otherwise: str | None


@dataclass(frozen=True)
class Map:
    """Columns with their expressions, in order."""

    name: str
    input: str
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Union:
    """All records of the inputs."""

    name: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Aggregate:
    """Windows of `size_s` every `advance_s` seconds, by group.

    Or calendar windows: the period and the offsets of the zone; `size_s` is longer than any then.
    `keys` are the values of each column of the group that have a row in windows without records;
    None if such windows have none.
    """

    name: str
    input: str
    size_s: int
    advance_s: int
    group_by: tuple[str, ...]
    columns: tuple[tuple[str, Aggregation], ...]
    calendar: tuple[str, str] | None = None
    keys: tuple[tuple[str, tuple[Any, ...]], ...] | None = None


@dataclass(frozen=True)
class Session:
    """Sessions of each key `by`: rows less than `gap_us` apart, shorter than `length_us`."""

    name: str
    input: str
    by: tuple[str, ...]
    gap_us: int
    length_us: int
    columns: tuple[tuple[str, Aggregation], ...]


@dataclass(frozen=True)
class Join:
    """Pairs of two relations by `on`, pairs of columns, and `within`, two offsets in microseconds.

    `columns` has for each name `left` or `right` and the column there; `is_named` if they are given
    and not those of a Join that names none.
    """

    name: str
    left: str
    right: str
    on: tuple[tuple[str, str], ...]
    within: tuple[int, int]
    how: str
    columns: tuple[tuple[str, str, str], ...]
    is_named: bool

    @property
    def certain_us(self) -> int:
        """How long after a row on the left it is certain whether it has a partner."""
        return max(self.within[1], 0)


@dataclass(frozen=True)
class Lookup:
    """Records of `input` with the newest of `table` by `on`, pairs of columns, at most as old.

    `columns` has for each name `input` or `table` and the column there; `is_named` as of a Join.
    """

    name: str
    input: str
    table: str
    on: tuple[tuple[str, str], ...]
    max_age_us: int
    how: str
    columns: tuple[tuple[str, str, str], ...]
    is_named: bool


@dataclass(frozen=True)
class Resample:
    """Rows at multiples of `step_us` by key; `columns` with their types in the input."""

    name: str
    input: str
    by: tuple[str, ...]
    step_us: int
    max_age_us: int
    method: str
    columns: Columns
    is_named: bool


@dataclass(frozen=True)
class Rank:
    """The first `k` rows (None: all) of windows by group; `order`: columns, whether descending."""

    name: str
    input: str
    size_s: int
    advance_s: int
    group_by: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    k: int | None
    column: str


@dataclass(frozen=True)
class Deduplicate:
    """The first row of each key `by` in each span of `within_us`."""

    name: str
    input: str
    by: tuple[str, ...]
    within_us: int


@dataclass(frozen=True)
class Running:
    """Each row with values over the rows of its key and span of `within_us` up to it."""

    name: str
    input: str
    by: tuple[str, ...]
    within_us: int
    columns: tuple[tuple[str, Aggregation], ...]


@dataclass(frozen=True)
class Every:
    """Values over each `n` rows of a key and span of `within_us`."""

    name: str
    input: str
    by: tuple[str, ...]
    n: int
    within_us: int
    columns: tuple[tuple[str, Aggregation], ...]


@dataclass(frozen=True)
class Function:
    """A PySpark function of this module, over the columns k and i."""

    name: str
    input: str
    kind: str


Box = (
    Filter
    | Map
    | Union
    | Aggregate
    | Session
    | Join
    | Lookup
    | Resample
    | Rank
    | Deduplicate
    | Running
    | Every
    | Function
)


@dataclass
class Drawn:
    """A drawn network. `relations` maps every reference to its columns; `outputs` are references.

    Boxes from number `cut` on form a second fragment.
    """

    seed: int
    kind: str
    sources: tuple[str, ...] = ()
    boxes: list[Box] = field(default_factory=list)
    relations: dict[str, Columns] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    cut: int = 0

    @property
    def has_function(self) -> bool:
        """Whether a box is a Function, so that no job of its fragment can be prepared."""
        return any(isinstance(box, Function) for box in self.boxes)


def doubled(frame: DataFrame) -> DataFrame:
    return frame.unionAll(frame).selectExpr("k", "i", "stime")


def thinned(frame: DataFrame) -> DataFrame:
    return frame.where("i % 2 = 0").selectExpr("upper(k) AS k", "i + 1 AS i", "stime")


FUNCTIONS: dict[str, Any] = {"doubled": doubled, "thinned": thinned}
FUNCTION_COLUMNS: Columns = (("k", "string"), ("i", "int"))
KINDS = (
    "any",
    "foldable",
    "distinct",
    "sliding",
    "any",
    "function",
    "joined",
    "paired",
    "calendar",
    "emitting",
)
"""What a seed draws, in turn: any boxes; aggregates that are folds of panes, over boxes that
cannot fail; several distinct counts in one box; sliding windows that are all folds, so that a step
leaves its panes to the next one; a Function among other boxes; sliding windows that are all folds,
some of them over a Union of records with rows of other windows; Joins, Lookups and
Resamples among any boxes; calendar windows among any boxes; windows that have rows without records
among any boxes."""
FOLDS = ("foldable", "sliding", "joined")
SLIDING = ("sliding", "joined")


_WINDOWS_S = (
    ((10, 10), (20, 20), (30, 30), (7, 7), (20, 10), (30, 10), (25, 5), (20, 4), (10, 10)),
    ((20, 10), (30, 10), (30, 20), (25, 5), (20, 4)),
)
_WITHIN_US = (
    (0, 10_000_000), (-10_000_000, 10_000_000), (-5_000_000, 0), (5_000_000, 12_000_000),
    (-12_000_000, -3_000_000), (0, 0), (-1, 1), (-25_000_000, 4_000_000),
)  # fmt: skip
_STEPS_US = (1_000_000, 2_500_000, 7_000_000, 10_000_000)
_MAX_AGES_US = (1, 3_000_000, 10_000_000, 25_000_000)
ZONES = (
    "0", "37", "-23", "0 -20:30", "0 5:-30", "0 0:-30", "20 -10:-30", "-45 10:0 30:-60 50:5",
)  # fmt: skip
"""Offsets by which days, months, quarters and years begin among the records, around 1970: plainly,
at an instant that is skipped, at one that is repeated, at one that clocks go back from."""
_PERIODS_S = {"day": 2, "week": 8, "month": 32, "quarter": 93, "year": 367}
_SPANS_US = (1, 7_000_000, 10_000_000, 25_000_000, 60_000_000)
_GAPS_US = (
    (1, 2), (1_000_000, 3_000_000), (5_000_000, 10_000_000), (7_000_000, 25_000_000),
    (10_000_001, 45_000_000),
)  # fmt: skip
"""Gaps and greatest lengths of sessions."""
KEYS: dict[str, tuple[Any, ...]] = {
    "string": ("a", "b", "é", "x y", "nobody", None),
    "int": (0, 3, 99, -7, None),
    "bigint": (0, 2**62, -1, None),
    "boolean": (True, False, None),
}
"""Declared keys, some of which no record has."""
HOW = ("inner", "left", "semi", "anti")
COUNT = Aggregation("count(*)", "count(*)", "bigint")
_AGGREGATIONS = {"distinct": ["distinct", "distinct", "any"], "any": ["any", "any", "distinct"]}


def drawn(seed: int, parts: int = 1) -> Drawn:
    """The network of a seed: one network over the sources, or several that are deployed as one."""
    net = Drawn(seed=seed, kind=kind_of(seed))
    return _Drawing(Random(seed), net).network(parts)


def kind_of(seed: int) -> str:
    """What a seed draws."""
    return KINDS[seed % len(KINDS)]


class _Drawing:
    def __init__(self, random: Random, net: Drawn) -> None:
        self.random, self.net = random, net
        self.readable: list[str] = []
        self.unread: list[str] = []

    def network(self, parts: int) -> Drawn:
        random, net = self.random, self.net
        sources = random.randint(2 if net.kind == "foldable" else 1, 3)
        net.sources = tuple(f"in{n}" for n in range(sources))
        net.relations = dict.fromkeys(net.sources, SOURCE_COLUMNS)
        never_read = set(net.sources)
        for left in reversed(range(parts)):
            some = {s for s in net.sources if random.random() < 0.5} | {random.choice(net.sources)}
            read = [s for s in net.sources if s in (some if left else some | never_read)]
            never_read -= set(read)
            self.part(read)
        is_cut = len(net.boxes) > 1 and random.random() < 0.35
        net.cut = random.randrange(1, len(net.boxes)) if is_cut else len(net.boxes)
        return net

    def part(self, sources: Sequence[str]) -> None:
        """Boxes and outputs that read these sources and each other."""
        random, net = self.random, self.net
        self.readable, self.unread = list(sources), list(sources)
        if net.kind in FOLDS:
            self.folds(sources)
        else:
            if len(sources) > 1 and random.random() < 0.6:
                self.union(list(sources))
            if net.kind == "function":
                self.function()
            if net.kind == "distinct":
                self.aggregate()
            if net.kind == "emitting":
                self.aggregate()
                if random.random() < 0.3:
                    self.pair()
            if net.kind == "paired":
                self.pair()
                if random.random() < 0.4:
                    self.resample()
            for _ in range(random.randint(1, 4)):
                self.box()
            if net.kind == "paired" and random.random() < 0.5:
                self.pair()
            # Every source is read by something.
            for source in [s for s in sources if s in self.unread]:
                self.aggregate(source)
        refs = list(self.unread)
        inner = [r for r in self.readable if r not in refs and r not in net.sources]
        if net.kind in FOLDS:
            inner = [r for r in inner if r.startswith("agg")]
        refs += [r for r in inner if random.random() < 0.35]
        if random.random() < 0.15:
            refs.append(random.choice(refs))
        for ref in refs:
            net.outputs[f"out{len(net.outputs)}"] = ref

    def folds(self, sources: Sequence[str]) -> None:
        """Folds of all sources over boxes that cannot fail, and boxes behind them."""
        random, net = self.random, self.net
        if random.random() < 0.3:
            self.filter(self.random.choice(list(sources)), ports=1)
        alike = list(self.unread)
        if len(alike) > 1 and (net.kind == "foldable" or random.random() < 0.7):
            self.union(alike)
        if net.kind == "joined":
            self.join(random.choice(self.unread))
        for ref in list(self.unread):
            for _ in range(random.choice((1, 1, 2))):
                self.aggregate(ref)
        self.readable = [r for r in self.readable if r.startswith("agg")]
        for _ in range(random.randint(0, 2)):
            makes = [self.filter, self.map, self.aggregate, self.rank, self.first, self.session]
            random.choice([*makes, self.running, self.every])()

    def join(self, records: str) -> None:
        """A Union of records with rows of their own windows, both under the same columns."""
        random, net = self.random, self.net
        self.aggregate(records)
        windows = self.readable[-1]
        types = dict(net.relations[records]).values()
        alike = [(n, t) for n, t in net.relations[windows] if t in types]
        taken = random.sample(alike, min(len(alike), random.randint(1, 3)))
        names = [f"c{len(net.boxes)}{at}" for at in range(len(taken))]
        mapped = []
        for ref, columns in (
            (windows, taken),
            (records, [self.a_column(records, t) for _, t in taken]),
        ):
            pairs = tuple(
                (m, Expression(n, n, t)) for m, (n, t) in zip(names, columns, strict=True)
            )
            box = Map(self.name("map"), self.read(ref), pairs)
            self.add_box(box, columns=tuple((n, e.type) for n, e in pairs))
            mapped.append(box.name)
        random.shuffle(mapped)
        self.union(mapped)

    def pair(self) -> None:
        """A Join or Lookup of two relations, or of one with itself, by columns of one type.

        Where there are pairs of pairs, rows would be very many: they are met by source rows alone.
        """
        random, net = self.random, self.net
        left = self.some_input()
        has_pairs = any(isinstance(box, Join) for box in net.boxes)
        right = random.choice(list(net.sources) if has_pairs else self.readable)
        if random.random() < 0.3:
            left, right = right, left
        types = [
            [(n, t) for n, t in net.relations[ref] if t not in ("double", "binary")]
            for ref in (left, right)
        ]
        alike = [(a, b) for a, t in types[0] for b, u in types[1] if t == u]
        if not alike:
            return
        same = [pair for pair in alike if pair in (("k", "k"), ("i", "i"), ("e", "e"))]
        on = tuple(
            dict.fromkeys(random.choice(same or alike) for _ in range(random.choice((1, 2))))
        )
        how, is_named = random.choice(HOW), random.random() < 0.6
        is_lookup = random.random() < 0.4
        if is_lookup:
            how = random.choice(HOW[:2])
        names = ("input", "table") if is_lookup else ("left", "right")
        sides = tuple(zip(names, (left, right), strict=True))[: 2 if how in HOW[:2] else 1]
        if is_named:
            of_all = [(side, n) for side, ref in sides for n, _ in net.relations[ref]]
            taken = random.sample(of_all, min(len(of_all), random.randint(2, 6)))
            columns = [(f"c{len(net.boxes)}{at}", *one) for at, one in enumerate(taken)]
        else:
            columns = [(n, names[0], n) for n, _ in net.relations[left]]
            known = {n for n, _, _ in columns} | {b for _, b in on}
            if len(sides) == 2:
                columns += [(n, names[1], n) for n, _ in net.relations[right] if n not in known]
        typed = {side: dict(net.relations[ref]) for side, ref in sides}
        if is_lookup:
            self.add_box(
                Lookup(self.name("lookup"), self.read(left), self.read(right), on,
                       random.choice(_MAX_AGES_US), how, tuple(columns), is_named),
                columns=tuple((n, typed[side][c]) for n, side, c in columns),
            )  # fmt: skip
            return
        box = Join(self.name("join"), self.read(left), self.read(right), on,
                   random.choice(_WITHIN_US), how, tuple(columns), is_named)  # fmt: skip
        self.add_box(box, columns=tuple((n, typed[side][c]) for n, side, c in columns))

    def resample(self) -> None:
        """Rows of a source at equal distances, with the newest record or between two."""
        random, net = self.random, self.net
        ref = random.choice(self.readable)
        types = dict(net.relations[ref])
        can_group = [n for n, t in types.items() if t != "double" and n != "at_us"]
        by = tuple(random.sample(can_group, min(len(can_group), random.choice((0, 1, 1, 2)))))
        method = random.choice(("previous", "linear"))
        others = [
            n for n, t in types.items()
            if n not in by and not (method == "linear" and t.startswith("decimal"))
        ]  # fmt: skip
        is_named = method == "linear" or random.random() < 0.6
        if is_named:
            others = random.sample(others, min(len(others), random.randint(1, 5)))
        columns = tuple((n, types[n]) for n in others if n != "sample_time")
        box = Resample(self.name("resample"), self.read(ref), by, random.choice(_STEPS_US),
                       random.choice(_MAX_AGES_US), method, columns, is_named)  # fmt: skip
        numbers = ("int", "bigint", "double") if method == "linear" else ()
        made = tuple((n, "double" if t in numbers else t) for n, t in columns)
        keys = tuple((n, types[n]) for n in by)
        self.add_box(box, columns=(("sample_time", "timestamp"), *keys, *made))

    def a_column(self, ref: str, type_: str) -> tuple[str, str]:
        """Some column of a relation, of that type."""
        return self.random.choice([c for c in self.net.relations[ref] if c[1] == type_])

    @property
    def may_fail(self) -> bool:
        """Whether expressions of the next box may fail on a record."""
        return self.net.kind not in FOLDS and self.random.random() < 0.4

    def add(self, ref: str, columns: Columns) -> None:
        self.net.relations[ref] = columns
        self.readable.append(ref)
        self.unread.append(ref)

    def add_box(self, box: Box, *ports: str, columns: Columns) -> None:
        self.net.boxes.append(box)
        for port in ports or ("",):
            self.add(f"{box.name}.{port}" if port else box.name, columns)

    def name(self, kind: str) -> str:
        return f"{kind}{len(self.net.boxes)}"

    def read(self, ref: str) -> str:
        if ref in self.unread:
            self.unread.remove(ref)
        return ref

    def some_input(self) -> str:
        """A relation; one that nobody reads yet is preferred."""
        is_new = self.unread and self.random.random() < 0.6
        return self.random.choice(self.unread if is_new else self.readable)

    def box(self) -> None:
        makes = [self.filter, self.map, self.aggregate, self.aggregate, self.union]
        makes += [self.rank, self.first, self.session, self.running, self.every]
        self.random.choice(makes)()

    def filter(self, ref: str | None = None, ports: int | None = None) -> None:
        ref = ref or self.some_input()
        columns, fails = self.net.relations[ref], self.may_fail
        names = [f"p{n}" for n in range(ports or self.random.randint(1, 3))]
        cases = tuple((p, a_predicate(self.random, columns, may_fail=fails)) for p in names)
        otherwise = "rest" if ports is None and self.random.random() < 0.4 else None
        box = Filter(self.name("filter"), self.read(ref), cases, otherwise)
        if otherwise:
            names.append(otherwise)
        self.add_box(box, *(names if len(names) > 1 else ("",)), columns=columns)

    def map(self) -> None:
        ref = self.some_input()
        columns, fails = self.net.relations[ref], self.may_fail
        kept = [(n, Expression(n, n, t)) for n, t in columns if self.random.random() < 0.6]
        made = [
            (f"c{len(self.net.boxes)}{n}", a_scalar(self.random, columns, may_fail=fails))
            for n in range(self.random.randint(1, 3))
        ]
        pairs = tuple(kept + made)
        box = Map(self.name("map"), self.read(ref), pairs)
        self.add_box(box, columns=tuple((n, e.type) for n, e in pairs))

    def union(self, refs: list[str] | None = None) -> None:
        if refs is None:
            first = self.some_input()
            relations = self.net.relations
            alike = [r for r in self.readable if relations[r] == relations[first]]
            refs = [first, *(self.random.choice(alike) for _ in range(self.random.randint(1, 2)))]
        columns = self.net.relations[refs[0]]
        box = Union(self.name("union"), tuple(self.read(r) for r in refs))
        self.add_box(box, columns=columns)

    def aggregate(self, ref: str | None = None) -> None:
        random, net = self.random, self.net
        ref = ref or self.some_input()
        columns, fails = net.relations[ref], self.may_fail
        size_s, advance_s = random.choice(_WINDOWS_S[net.kind in SLIDING])
        calendar = None
        if net.kind == "calendar" and random.random() < 0.7:
            calendar = random.choice(sorted(_PERIODS_S)), random.choice(ZONES)
            size_s = advance_s = _PERIODS_S[calendar[0]] * 86_400
        group_by, keys = self.some_group(columns), None
        if net.kind == "emitting" and random.random() < 0.7:
            group_by = tuple(g for g in group_by if dict(columns)[g] in KEYS)
            keys = tuple((g, self.some_keys(dict(columns)[g])) for g in group_by)
        is_fold = net.kind in FOLDS
        kinds = ["foldable"] if is_fold else _AGGREGATIONS.get(net.kind, ["any"])
        values = tuple(
            (
                f"a{len(net.boxes)}{n}",
                an_aggregation(random, columns, group_by, kind=random.choice(kinds),
                               may_fail=fails),
            )
            for n in range(random.randint(1, 5))
        )  # fmt: skip
        # Drawn apart, so that networks without one are those that a seed had before.
        apart = Random(f"{net.seed} {len(net.boxes)}")
        own = None if is_fold or apart.random() > 0.3 else a_user_aggregation(apart, columns)
        if own is not None:
            values += ((f"a{len(net.boxes)}{len(values)}", own),)
        if keys is not None:
            # What is computed of a key alone is no aggregate, and the oracle has a row for none.
            values = tuple((n, COUNT if a.spark.startswith("coalesce") else a) for n, a in values)
        if is_fold and all(a.duck.startswith("coalesce") for _, a in values):
            # A box without an aggregate has nothing to fold.
            values += ((f"a{len(net.boxes)}{len(values)}", COUNT),)
        if is_fold and random.random() < 0.4:
            name = random.choice([n for n, _ in columns])
            is_double = dict(columns)[name] == "double"
            duck = one_zero(name, "double") if is_double else name
            one = Aggregation(f"count(distinct {name})", f"count(DISTINCT {duck})", "bigint")
            values += ((f"a{len(net.boxes)}{len(values)}", one),)
        box = Aggregate(self.name("agg"), self.read(ref), size_s, advance_s, group_by, values,
                        calendar, keys)  # fmt: skip
        grouped = tuple((g, dict(columns)[g]) for g in group_by)
        self.add_box(
            box,
            columns=(("window_start", "timestamp"), *grouped, *((n, a.type) for n, a in values)),
        )

    def some_keys(self, type_: str) -> tuple[Any, ...]:
        """Values of a type, each once."""
        known = KEYS[type_]
        return tuple(self.random.sample(known, self.random.randint(1, min(3, len(known)))))

    def rank(self) -> None:
        random, net = self.random, self.net
        ref = self.some_input()
        columns = net.relations[ref]
        size_s, advance_s = random.choice(_WINDOWS_S[0])
        keys = random.sample(columns, min(len(columns), random.choice((0, 1, 1, 2))))
        order = tuple((n, random.random() < 0.5) for n, _ in keys)
        box = Rank(self.name("rank"), self.read(ref), size_s, advance_s, self.some_group(columns),
                   order, random.choice((1, 2, None)), f"r{len(net.boxes)}")  # fmt: skip
        start = () if "window_start" in dict(columns) else (("window_start", "timestamp"),)
        self.add_box(box, columns=(*start, *columns, (box.column, "bigint")))

    def first(self) -> None:
        ref = self.some_input()
        columns = self.net.relations[ref]
        by = self.some_group(columns) or (self.random.choice(columns)[0],)
        within_us = self.random.choice(_SPANS_US)
        self.add_box(
            Deduplicate(self.name("first"), self.read(ref), by, within_us), columns=columns
        )

    def session(self) -> None:
        random, net = self.random, self.net
        ref = self.some_input()
        columns, fails = net.relations[ref], self.may_fail
        by = tuple(n for n in self.some_group(columns) if n not in ("window_start", "window_end"))
        values = tuple(
            (
                f"a{len(net.boxes)}{n}",
                an_aggregation(random, columns, by, kind=random.choice(("any", "any", "distinct")),
                               may_fail=fails),
            )
            for n in range(random.randint(1, 3))
        )  # fmt: skip
        box = Session(self.name("session"), self.read(ref), by, *random.choice(_GAPS_US), values)
        bounds = (("window_start", "timestamp"), ("window_end", "timestamp"))
        keys = tuple((n, dict(columns)[n]) for n in by)
        self.add_box(box, columns=(*bounds, *keys, *((n, a.type) for n, a in values)))

    def running(self) -> None:
        ref = self.some_input()
        columns, by = self.net.relations[ref], self.some_group(self.net.relations[ref])
        values = tuple(
            (name, COUNT if "distinct" in a.spark or "collect" in a.spark else a)
            for name, a in self.values(columns, by)
        )
        box = Running(self.name("running"), self.read(ref), by, self.random.choice(_SPANS_US),
                      values)  # fmt: skip
        self.add_box(box, columns=(*columns, *((n, a.type) for n, a in values)))

    def every(self) -> None:
        ref = self.some_input()
        columns, by = self.net.relations[ref], self.some_group(self.net.relations[ref])
        values = self.values(columns, by)
        box = Every(self.name("every"), self.read(ref), by, self.random.choice((1, 2, 3, 7)),
                    self.random.choice(_SPANS_US), values)  # fmt: skip
        grouped = tuple((name, dict(columns)[name]) for name in by)
        self.add_box(box, columns=(*grouped, *((n, a.type) for n, a in values)))

    def values(self, columns: Columns, by: tuple[str, ...]) -> tuple[tuple[str, Aggregation], ...]:
        """One to three values of a group."""
        is_fold, fails = self.net.kind in FOLDS, self.may_fail
        kinds = ["foldable"] if is_fold else _AGGREGATIONS.get(self.net.kind, ["any"])
        return tuple(
            (
                f"a{len(self.net.boxes)}{n}",
                an_aggregation(self.random, columns, by, kind=self.random.choice(kinds),
                               may_fail=fails),
            )
            for n in range(self.random.randint(1, 3))
        )  # fmt: skip

    def some_group(self, columns: Columns) -> tuple[str, ...]:
        """None, one or two of the columns, to group by."""
        can_group = [n for n, t in columns if n in GROUPS or (n[0] in "ca" and t != "binary")]
        count = min(len(can_group), self.random.choice((0, 1, 1, 2)))
        return tuple(self.random.sample(can_group, count))

    def function(self) -> None:
        able = [
            r for r in self.readable
            if {("k", "string"), ("i", "int")} <= set(self.net.relations[r])
        ]  # fmt: skip
        box = Function(self.name("function"), self.read(self.random.choice(able)),
                       self.random.choice(sorted(FUNCTIONS)))  # fmt: skip
        self.add_box(box, columns=FUNCTION_COLUMNS)


def medusa_network(net: Drawn, members: Sequence[str] = ("",)) -> medusa.Network:
    """The network as a user of Medusa writes it, once for each member (a suffix of all names).

    Members say the same in fragments of their own.
    """
    return medusa.Network(
        name="drawn",
        sources=tuple(
            medusa.Source(name=f"{s}{m}", columns=dict(SOURCE_COLUMNS), time="at_us")
            for m in members
            for s in net.sources
        ),
        boxes=tuple(box for m in members for box in _boxes(net, m)),
        outputs=tuple(
            medusa.Output(name=f"{name}{m}", input=of_member(ref, m))
            for m in members
            for name, ref in net.outputs.items()
        ),
        bucket=f"{BUCKET_S}s",
    )


def of_member(ref: str, member: str) -> str:
    """A reference of the drawn network as that of a member."""
    owner, dot, port = ref.partition(".")
    return f"{owner}{member}{dot}{port}"


def _boxes(net: Drawn, member: str) -> Iterator[medusa.Box]:
    for at, box in enumerate(net.boxes):
        fragment = f"{'main' if at < net.cut else LATER}{member}"
        name = f"{box.name}{member}"
        match box:
            case Filter():
                yield medusa.Filter(
                    name=name, input=of_member(box.input, member), fragment=fragment,
                    cases={p: e.spark for p, e in box.cases}, otherwise=box.otherwise,
                )  # fmt: skip
            case Map():
                yield medusa.Map(
                    name=name, input=of_member(box.input, member), fragment=fragment,
                    columns={n: e.spark for n, e in box.columns},
                )  # fmt: skip
            case Union():
                yield medusa.Union(
                    name=name, inputs=tuple(of_member(r, member) for r in box.inputs),
                    fragment=fragment,
                )  # fmt: skip
            case Aggregate():
                yield medusa.Aggregate(
                    name=name, input=of_member(box.input, member), fragment=fragment,
                    group_by=box.group_by, columns={n: a.spark for n, a in box.columns},
                    empty="skip" if box.keys is None else "emit", keys=dict(box.keys or ()),
                    aggregates=tuple({a.own.name: a.own for _, a in box.columns if a.own}.values()),
                    **_windows(box),
                )  # fmt: skip
            case Session():
                yield medusa.Session(
                    name=name, input=of_member(box.input, member), fragment=fragment, by=box.by,
                    gap=f"{box.gap_us}us", length_max=f"{box.length_us}us",
                    columns={n: a.spark for n, a in box.columns},
                )  # fmt: skip
            case Join():
                yield medusa.Join(
                    name=name, left=of_member(box.left, member),
                    right=of_member(box.right, member), fragment=fragment, how=box.how,
                    on=tuple(a if a == b else f"{a} = {b}" for a, b in box.on),
                    within=(f"{box.within[0]}us", f"{box.within[1]}us"),
                    columns={n: f"{s}.{c}" for n, s, c in box.columns} if box.is_named else {},
                )  # fmt: skip
            case Lookup():
                yield medusa.Lookup(
                    name=name, input=of_member(box.input, member),
                    table=of_member(box.table, member), fragment=fragment, how=box.how,
                    on=tuple(a if a == b else f"{a} = {b}" for a, b in box.on),
                    max_age=f"{box.max_age_us}us",
                    columns={n: f"{s}.{c}" for n, s, c in box.columns} if box.is_named else {},
                )  # fmt: skip
            case Resample():
                yield medusa.Resample(
                    name=name, input=of_member(box.input, member), fragment=fragment, by=box.by,
                    step=f"{box.step_us}us", max_age=f"{box.max_age_us}us", method=box.method,
                    columns=tuple(n for n, _ in box.columns) if box.is_named else (),
                )  # fmt: skip
            case Rank():
                yield medusa.Rank(
                    name=name, input=of_member(box.input, member), fragment=fragment,
                    size=f"{box.size_s}s", advance=f"{box.advance_s}s", group_by=box.group_by,
                    order=tuple(f"{n} desc" if is_desc else n for n, is_desc in box.order),
                    k=box.k, column=box.column,
                )  # fmt: skip
            case Deduplicate():
                yield medusa.Deduplicate(
                    name=name, input=of_member(box.input, member), fragment=fragment,
                    by=box.by, within=f"{box.within_us}us",
                )  # fmt: skip
            case Running():
                yield medusa.Running(
                    name=name, input=of_member(box.input, member), fragment=fragment,
                    by=box.by, within=f"{box.within_us}us",
                    columns={n: a.spark for n, a in box.columns},
                )  # fmt: skip
            case Every():
                yield medusa.Every(
                    name=name, input=of_member(box.input, member), fragment=fragment,
                    by=box.by, n=box.n, within=f"{box.within_us}us",
                    columns={n: a.spark for n, a in box.columns},
                )  # fmt: skip
            case Function():
                yield medusa.Function(
                    name=name, input=of_member(box.input, member), fragment=fragment,
                    function=FUNCTIONS[box.kind], columns=dict(FUNCTION_COLUMNS),
                )  # fmt: skip


def _windows(box: Aggregate) -> dict[str, Any]:
    """The windows as an Aggregate of Medusa declares them. The name of the zone is not used."""
    if box.calendar is None:
        return {"size": f"{box.size_s}s", "advance": f"{box.advance_s}s"}
    every, offsets = box.calendar
    return {"every": every, "zone": "UTC", "zone_offsets": offsets}
