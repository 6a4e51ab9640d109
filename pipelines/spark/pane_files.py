"""Panes that an answer leaves to its correction: files next to the step's, with an index.

An index is a small file next to the panes that says which range of which inputs they hold, by the
fingerprint of its content, and the hash of each file. Nothing else refers to them: panes that are
incomplete, missing, of another plan or of another content are not used, and the records are read
again. So panes are never more than a saving.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from math import lcm
from pathlib import Path, PurePosixPath
from typing import Any

from medusa_core.decide import ComputeStep
from medusa_core.errors import WRONG_FORM, MedusaError, Unavailable
from medusa_core.grid import BEGINNING_US, Range, ceil_us
from medusa_core.names import PlanId, StreamName
from medusa_core.segments import Read, SegmentFile, content_of
from pipelines.base.files import write_atomically
from pipelines.language.pane_fragments import PanesOf
from pipelines.spark.inputs import Part
from pipelines.spark.step_panes import ranges_of
from pipelines.storage.segment_files import check_file
from pipelines.storage.store import remove_file

FOLDER = "_panes"
"""Under the storage root; no stream has such a name."""

SUFFIX = ".panes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneRows:
    """The panes of one Aggregate: their files, and how many rows begin at which instant."""

    files: tuple[SegmentFile, ...]
    rows: Mapping[int, int]

    def after(self, from_us: int | None) -> Part | None:
        """Those that begin at an instant or later (None: all); None if there are none."""
        rows = {at: n for at, n in self.rows.items() if from_us is None or at >= from_us}
        if not rows:
            return None
        return Part(self.files, Range(min(rows), max(rows) + 1), sum(rows.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftPanes:
    """What one answer left: panes by box, of everything in a range of each input.

    `inputs` maps each input to the range and the fingerprint of what was in it (`content_of`).
    """

    plan: PlanId
    shape: str
    range: Range
    inputs: Mapping[StreamName, tuple[Range, str]]
    panes: Mapping[str, PaneRows]

    @property
    def files(self) -> Iterator[SegmentFile]:
        """Every file of it."""
        return (file for panes in self.panes.values() for file in panes.files)

    def is_of(self, step: ComputeStep) -> bool:
        """Whether its inputs hold now what they held then, as final."""
        return all(
            name in step.fragment.inputs and contents(step, name, part) == content
            for name, (part, content) in self.inputs.items()
        )

    def is_there(self, root: Path) -> bool:
        """Whether its files are there with their hashes."""
        try:
            return all((root / f.path).is_file() and check_file(root, f) for f in self.files)
        except Unavailable:
            return False


def contents(step: ComputeStep, name: StreamName, part: Range) -> str | None:
    """The fingerprint of what is in a range of an input; None if that may change."""
    segments = tuple(step.fragment.inputs[name].overlapping(part))
    if not all(s.stability.is_final for s in segments):
        return None
    return content_of(segments, part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a correction takes of the panes, and what is left for it to read."""

    panes: Mapping[str, tuple[Part, ...]]
    reads: tuple[Read, ...]


def taken_of(
    step: ComputeStep, left: Iterable[LeftPanes], panes: Sequence[PanesOf],
    is_there: Callable[[LeftPanes], bool],
) -> Taken | None:  # fmt: skip
    """The panes that stand for what the step reads, each record once; None if there are none.

    Where two have the same range, as of windows that slide, the later one is cut at an instant that
    no pane and no bucket is divided by; what neither covers is read. Where a box can fail, they
    stand for nothing that the step would not read: windows that are there in part may fail too.
    """
    ranges = ranges_of(step.reads)
    is_fallible = step.fragment.fragment.is_fallible
    parts: dict[str, list[Part]] = {p.box: [] for p in panes}
    covered: dict[StreamName, list[Range]] = {}
    done_us: int | None = None
    for one in sorted(left, key=_from_us):
        if not any(s in ranges and part.overlaps(ranges[s]) for s, (part, _) in one.inputs.items()):
            continue
        if is_fallible and not all(
            s in ranges and ranges[s].covers(part) for s, (part, _) in one.inputs.items()
        ):
            continue
        to_us = max(part.to_us for part, _ in one.inputs.values())
        cut_us = None
        if done_us is not None and _from_us(one) < done_us:
            widths = [step.fragment.inputs[s].width_us for s in one.inputs]
            cut_us = ceil_us(done_us, reduce(lcm, [*widths, *(p.size_us for p in panes)]))
            if cut_us >= to_us:
                continue
        if not one.is_of(step) or not is_there(one):
            continue
        for box, rows in one.panes.items():
            if (part_of := rows.after(cut_us)) is not None:
                parts[box].append(part_of)
        for stream, (part, _) in one.inputs.items():
            from_us = part.from_us if cut_us is None else max(part.from_us, cut_us)
            if from_us < part.to_us:
                covered.setdefault(stream, []).append(Range(from_us, part.to_us))
        done_us = to_us
    if not covered:
        return None
    return Taken(
        panes={box: tuple(found) for box, found in parts.items()},
        reads=tuple(_without(step.reads, covered)),
    )


def _from_us(left: LeftPanes) -> int:
    return min(part.from_us for part, _ in left.inputs.values())


def _without(reads: Iterable[Read], covered: Mapping[StreamName, list[Range]]) -> Iterator[Read]:
    for read in reads:
        for rest in read.range.without(sorted(covered.get(read.input, ()))):
            yield replace(read, range=rest)


class PaneFiles:
    """The panes of one fragment in a home's storage."""

    def __init__(self, root: Path, fragment: str) -> None:
        self._root = root
        self.folder = f"{FOLDER}/{fragment}"
        self._may_have_some = True
        self._first_us: int | None = None

    def read(self, step: ComputeStep, shape: str) -> list[LeftPanes]:
        """What was left in a step's range, under its plan and by boxes of this shape."""
        names = (path for path in self._indexes() if step.range.overlaps(_range_of(path)))
        found = (self._left(path) for path in names)
        return [
            one for one in found if one and one.plan == step.fragment.plan and one.shape == shape
        ]

    def leave(self, name: str, left: LeftPanes) -> None:
        """Write the index of panes whose files are written; without it nobody finds them."""
        path = self._root / self.folder / f"{left.range.from_us}-{left.range.to_us}-{name}{SUFFIX}"
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(_document(left)), durable=False)
            self._may_have_some = True

    def remove(self, files: Iterable[SegmentFile]) -> None:
        """Remove files that are of no use."""
        for file in files:
            remove_file(self._root, file.path)

    def let_go(self, step: ComputeStep) -> None:
        """Remove what lies before the first answer that is still to be corrected.

        Asks the disk only if there may be some that were not let go before.
        """
        found = (o.tentative_us for o in step.fragment.outputs.values())
        first_us = min((at for at in found if at is not None), default=None)
        if not self._may_have_some or (first_us is not None and first_us == self._first_us):
            return
        self._may_have_some, self._first_us = False, first_us
        for path in self._indexes():
            if first_us is not None and _range_of(path).to_us > first_us:
                self._may_have_some = True
                continue
            left = self._left(path)
            remove_file(self._root, path.relative_to(self._root).as_posix())
            self.remove(left.files if left else ())

    def _indexes(self) -> list[Path]:
        return sorted((self._root / self.folder).glob(f"*{SUFFIX}"))

    def _left(self, path: Path) -> LeftPanes | None:
        """An index; None if it is gone or none."""
        try:
            left = _of_document(json.loads(path.read_text()))
        except (OSError, MedusaError, *WRONG_FORM):
            return None
        mine = PurePosixPath(self.folder)
        inside = (mine in PurePosixPath(f.path).parents and ".." not in f.path for f in left.files)
        return left if all(inside) else None


def _range_of(path: Path) -> Range:
    """The range that an index's name tells; one before all others if it tells none."""
    match = _NAME.match(path.name)
    from_us, to_us = (int(match[1]), int(match[2])) if match else (0, 0)
    return Range(from_us, to_us) if from_us < to_us else Range(BEGINNING_US, BEGINNING_US + 1)


_NAME = re.compile(r"(-?\d{1,19})-(-?\d{1,19})-")


def _document(left: LeftPanes) -> dict[str, Any]:
    return {
        "plan": left.plan,
        "shape": left.shape,
        "range": [left.range.from_us, left.range.to_us],
        "inputs": {s: [r.from_us, r.to_us, content] for s, (r, content) in left.inputs.items()},
        "panes": {
            box: {
                "files": [[f.path, f.size_bytes, f.sha256, f.rows] for f in panes.files],
                "rows": list(panes.rows.items()),
            }
            for box, panes in left.panes.items()
        },
    }


def _of_document(document: Any) -> LeftPanes:
    return LeftPanes(
        plan=PlanId(document["plan"]),
        shape=document["shape"],
        range=Range(*document["range"]),
        inputs={
            StreamName(s): (Range(from_us, to_us), content)
            for s, (from_us, to_us, content) in document["inputs"].items()
        },
        panes={
            box: PaneRows(
                files=tuple(
                    SegmentFile(path=p, size_bytes=size, sha256=hashed, rows=rows)
                    for p, size, hashed, rows in panes["files"]
                ),
                rows={int(at): int(n) for at, n in panes["rows"]},
            )
            for box, panes in document["panes"].items()
        },
    )
