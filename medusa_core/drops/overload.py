"""Whether a participant is overloaded, by the load equation over what it knows, and what it drops.

The load of a fragment is what its records of a second of event time cost, by its last steps, and
what a step costs besides, once within the time that an overload is tolerated. For inputs that
arrive as event time passes that is what the loop needs of each second, and an overload is known
before anything is late. It is noticed, and acted on, when the oldest bucket that could be computed
has waited for as long as the delay graph loses nothing, less what the path to the output takes.

Only outputs with a QoS are dropped, and fragments that compute nothing else. Nothing is remembered:
drops end when the load has fallen, or the wait.

Limits: the fragments of one plan are counted; recorded inputs are always behind, so that no QoS is
declared of what is computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from math import lcm

from medusa_core import owed
from medusa_core.drops.keeping import is_unit_kept, seed_of
from medusa_core.drops.load_equation import LoadedBox, LoadedNetwork
from medusa_core.drops.road_map import DropPlan, plan_for
from medusa_core.drops.utility import AfterDrop, Qos, UtilityGraph
from medusa_core.fragments import Fragment
from medusa_core.frozen import freeze
from medusa_core.grid import Range, ceil_us
from medusa_core.knowledge import FragmentKnowledge, Knowledge
from medusa_core.names import StreamName
from medusa_core.network import Filter, Map, Union
from medusa_core.partial import fresh
from medusa_core.paths import rests_ms

HEADROOM = 0.95
"""Of the capacity that steps are planned for: what they cost is an estimate."""

NOTICE_SHARE_MIN = 0.1
"""An overload is tolerated for at least this part of what the delay graph allows."""

UNIT_WINDOWS = 4
"""How long a unit is at least, in lengths of windows that overlap: at its ends windows are lost."""

BY_RECORD = (Filter, Map, Union)
"""Boxes whose rows each follow from one record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """The load is above what the capacity allows.

    `is_noticed`: it has lasted for so long that records are dropped, by `plan`. `by_record`: they
    are dropped one by one, else by whole windows.
    """

    load: float
    load_max: float
    behind_ms: int
    notice_ms: int
    plan: DropPlan
    home: DroppingHome
    by_record: bool

    @property
    def is_noticed(self) -> bool:
        """Whether it has lasted for so long that records are dropped."""
        return self.behind_ms >= self.notice_ms

    @property
    def numbers(self) -> dict[str, int | float]:
        """What was reckoned with."""
        return {
            "load": round(self.load, 3),
            "load_max": round(self.load_max, 3),
            "behind_ms": self.behind_ms,
            "notice_ms": self.notice_ms,
            "plan": self.plan.number,
            "load_after": round(self.plan.load, 3),
            "utility_lost": round(self.plan.lost, 3),
        }

    def share_of(self, fragment: FragmentKnowledge) -> float:
        """How much is kept of a fragment, at most: of what the outputs behind it keep."""
        return self.home.network.share_of(fragment.fragment.id, self.plan.shares)

    def is_needed(self, fragment: FragmentKnowledge, part: Range) -> bool:
        """Whether a row of `part` is in a window that is kept, here or behind."""
        return self.home.is_needed(fragment.fragment, part, self.plan.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppingHome:
    """The fragments of a home as boxes with a load, their readers, and the QoS of outputs."""

    fragments: Mapping[str, FragmentKnowledge]
    network: LoadedNetwork
    written: frozenset[StreamName]
    qos: Mapping[str, Qos]
    readers: Mapping[StreamName, tuple[Fragment, ...]]
    unit_us: int
    seed: int = field(default=0)

    def __post_init__(self) -> None:
        freeze(self, "fragments", "qos", "readers")

    def is_needed(self, fragment: Fragment, part: Range, shares: Mapping[str, float]) -> bool:
        """Whether an output keeps a unit that `part` of a fragment's outputs is needed for."""
        for stream in fragment.outputs:
            if stream in self.qos:
                share = shares[stream]
                if any(is_unit_kept(u, share, self.seed) for u in self._units(part)):
                    return True
            elif stream in self.network.outputs:
                return True
            for reader in self.readers.get(stream, ()):
                if self._is_read(reader, stream, part, shares):
                    return True
        return False

    def _is_read(
        self, reader: Fragment, stream: StreamName, part: Range, shares: Mapping[str, float]
    ) -> bool:
        """Whether a kept unit of a reader needs something of `part`."""
        backs = (reader.reaches(output).get(stream, (0, 0))[0] for output in reader.outputs)
        back_us = max(backs, default=0)
        for unit in self._units(Range(part.from_us, part.to_us + back_us)):
            whole = Range(unit * self.unit_us, (unit + 1) * self.unit_us)
            need = reader.needed_by_all(whole).get(stream)
            if need and need.overlaps(part) and self.is_needed(reader, whole, shares):
                return True
        return False

    def _units(self, part: Range) -> range:
        first = part.from_us // self.unit_us
        return range(first, -(-part.to_us // self.unit_us))


def has_qos(knowledge: Knowledge) -> bool:
    """Whether an output of this home may be dropped."""
    return any(o.qos for f in knowledge.fragments for o in f.outputs.values())


def overload_of(knowledge: Knowledge, now_ms: int) -> Overload | None:
    """The overload of a participant; None if there is none or nothing may be dropped."""
    if not has_qos(knowledge):
        return None
    home = _home_of(knowledge)
    load_max = knowledge.limits.capacity * HEADROOM
    if home.network.load <= load_max:
        return None
    loss: dict[str, UtilityGraph] = {name: qos.loss for name, qos in home.qos.items()}
    plan = plan_for(home.network, loss, load_max)
    waits = [
        (behind_ms, notice)
        for fragment, notice in notices_ms(knowledge).items()
        if (behind_ms := behind(home.fragments[fragment], now_ms)) is not None
    ]
    behind_ms, notice_ms = max(waits, key=lambda w: w[0] - w[1], default=(0, 1))
    dropped = [f for f in home.fragments.values() if _share(home, f, plan) < 1]
    is_kept = all(qos.after is AfterDrop.CORRECT for qos in home.qos.values())
    return Overload(
        load=home.network.load,
        load_max=load_max,
        behind_ms=behind_ms,
        notice_ms=notice_ms,
        plan=plan,
        home=home,
        by_record=is_kept and all(passes_records_singly(f.fragment) for f in dropped),
    )


def _share(home: DroppingHome, fragment: FragmentKnowledge, plan: DropPlan) -> float:
    return home.network.share_of(fragment.fragment.id, plan.shares)


def passes_records_singly(fragment: Fragment) -> bool:
    """Whether what remains is right row by row when single records are left out."""
    return all(isinstance(box, BY_RECORD) for box in fragment.boxes)


def behind(fragment: FragmentKnowledge, now_ms: int) -> int | None:
    """How long the next bucket of a fragment could have been computed already; None: not yet."""
    ready = owed.frontier(fragment)
    if ready is None:
        return None
    first = Range(ready.from_us, min(ready.from_us + fragment.width_us, ready.to_us))
    fresh_ms = fresh(fragment, first)
    return None if fresh_ms is None else max(now_ms - fresh_ms, 0)


def tolerated_ms(knowledge: Knowledge, now_ms: int) -> int | None:
    """How long corrections may take until a bucket is late by its QoS; None: no output has one."""
    notices = notices_ms(knowledge) if has_qos(knowledge) else {}
    left = [
        notices[f.fragment.id] - (behind(f, now_ms) or 0)
        for f in knowledge.fragments
        if f.fragment.id in notices
    ]
    return max(min(left), 0) if left else None


def notices_ms(knowledge: Knowledge) -> dict[str, int]:
    """For each fragment with a QoS, here or behind, how long it may be late and nothing is lost.

    The good part of the delay graph, as it is seen so much earlier on the path.
    """
    rests = rests_ms(knowledge.fragments)
    good_ms: dict[StreamName, float] = {}
    found: dict[str, int] = {}
    for fragment in reversed(knowledge.fragments):
        behind_ms = [good_ms[stream] for stream in fragment.outputs if stream in good_ms]
        own_ms = [output.qos.good_ms for output in fragment.outputs.values() if output.qos]
        if not behind_ms + own_ms:
            continue
        limit_ms = min(behind_ms + own_ms)
        rest_ms = fragment.cost.path_ms + rests[fragment.fragment.id]
        found[fragment.fragment.id] = int(max(limit_ms - rest_ms, limit_ms * NOTICE_SHARE_MIN))
        for stream in fragment.inputs:
            good_ms[stream] = min(good_ms.get(stream, limit_ms), limit_ms)
    return found


def _home_of(knowledge: Knowledge) -> DroppingHome:
    notices = notices_ms(knowledge)
    fragments = {f.fragment.id: f for f in knowledge.fragments}
    writers = {s: id_ for id_, f in fragments.items() for s in f.outputs}
    readers: dict[StreamName, tuple[Fragment, ...]] = {}
    for known in fragments.values():
        for stream in known.inputs:
            readers[stream] = (*readers.get(stream, ()), known.fragment)
    sources = {s for f in fragments.values() for s in f.inputs if s not in writers}
    boxes = tuple(
        LoadedBox(
            name=id_,
            inputs=tuple(writers.get(s, s) for s in f.inputs),
            record_us=0.0,
            fixed=_load_of(f, notices.get(id_, 0)),
        )
        for id_, f in fragments.items()
    )
    here: set[str] = {f.fragment.name for f in fragments.values()}
    outputs: dict[str, str] = {
        stream: id_
        for id_, f in fragments.items()
        for stream in f.outputs
        if f.outputs[stream].qos or _is_kept_whole(f.fragment, stream, readers, here)
    }
    qos: dict[str, Qos] = {
        s: o.qos for f in fragments.values() for s, o in f.outputs.items() if o.qos
    }
    plan = min((f.plan for f in fragments.values()), default="")
    return DroppingHome(
        fragments=fragments,
        network=LoadedNetwork(boxes=boxes, rates=dict.fromkeys(sorted(sources), 0.0),
                              outputs=outputs),
        written=frozenset(writers),
        qos=qos,
        readers=readers,
        unit_us=unit_us([f for id_, f in fragments.items() if id_ in notices]),
        seed=seed_of(plan),
    )  # fmt: skip


def _is_kept_whole(
    fragment: Fragment, stream: StreamName, readers: Mapping[StreamName, object], here: Set[str]
) -> bool:
    """Whether all of a stream is needed: it has no QoS, and is an output or is read elsewhere."""
    if stream not in readers or any(o.name == stream for o in fragment.network.outputs):
        return True
    port = fragment.outputs[stream]
    homes = {box.name: box.fragment for box in fragment.network.boxes}
    read_by = {homes[arc.end] for arc in fragment.network.box_arcs if arc.start == port}
    return not read_by <= here


def _load_of(fragment: FragmentKnowledge, notice_ms: int) -> float:
    """The seconds of work per second that a fragment takes, by what lies ahead of it."""
    if fragment.provider is not None:
        return 0.0
    every_ms = max(fragment.width_us / 1_000, notice_ms, 1)
    by_records = _records_per_s(fragment) * fragment.cost.record_us / 1e6
    return by_records + fragment.cost.step_ms / every_ms


def _records_per_s(fragment: FragmentKnowledge) -> float:
    """Records per second of event time that its inputs have, where they are ahead of its outputs.

    Where nothing is ahead, by what it read last.
    """
    start_us, rate = owed.start_us(fragment), 0.0
    for name, input_ in fragment.inputs.items():
        from_us = start_us - fragment.fragment.delay_us(name)
        ahead = [s for s in input_.segments if s.range.to_us > from_us] or input_.segments
        if not ahead:
            continue
        whole = Range(min(max(ahead[0].range.from_us, from_us), ahead[-1].range.from_us),
                      ahead[-1].range.to_us)  # fmt: skip
        records = sum(d.rows for s in ahead for d in s.within(whole).values())
        rate += records * 1e6 / (whole.to_us - whole.from_us)
    return rate


def unit_us(fragments: list[FragmentKnowledge]) -> int:
    """How long a unit is: whole buckets of all, and some windows where windows overlap."""
    grid_us = lcm(*(f.width_us for f in fragments)) if fragments else 1
    back_us = max(
        (
            back
            for f in fragments
            for output in f.outputs
            for back, _ in f.fragment.reaches(output).values()
        ),
        default=0,
    )
    return grid_us if back_us <= grid_us else ceil_us(UNIT_WINDOWS * back_us, grid_us)
