"""What every bucket is to hold while sources are revised: the oracle's answer for what it read.

Each revision of a source gives some of its buckets another content. Whatever is computed has read
each of these buckets in one of its contents, which follows from the versions in its lineage, over
all streams and homes between. Of that state of the sources the oracle says what a bucket holds.
A bucket that has read two contents of one source's bucket, over two paths, is a mixture that the
oracle has no answer for; it is to be computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from medusa_core.commits import Commit
from medusa_core.grid import Range, floor_us
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer, Read
from pipelines.catalog.memory.tables import CommitRow
from pipelines.simulation.faults.expected import Buckets, expected_buckets, sources_of
from pipelines.simulation.faults.scenario import Row, Scenario, bucket_of
from pipelines.simulation.faults.simulated_networks import WIDTH_US

SourceBucket = tuple[StreamName, int]
State = Mapping[SourceBucket, frozenset[int]]
"""Which contents of the revised buckets of sources something has read: 0 is the first one."""
Written = tuple[StreamName, Producer, Version]

REACH_US, AHEAD_US = 24 * WIDTH_US, 8 * WIDTH_US
"""How far behind and ahead of a bucket what it is computed from lies at most."""

UNREVISED: State = {}


@dataclass(slots=True)
class Content:
    """The contents of one bucket of a source, and the versions of its line from the second on."""

    rows: list[Counter[Row]]
    versions: list[Version] = field(default_factory=list)

    def at(self, version: Version) -> int:
        """Which of the contents a version of the line has."""
        return sum(made <= version for made in self.versions)


class RevisedContents:
    """The contents of one schedule's sources, and what follows from them."""

    def __init__(self, scenario: Scenario, unrevised: Buckets) -> None:
        self._scenario = scenario
        self._fragments = {
            stream: fragment
            for fragment in scenario.fragments.values()
            for stream in fragment.outputs
        }
        self._reads: dict[Written, tuple[Read, ...]] = {}
        self._contents: dict[SourceBucket, Content] = {}
        self._states: dict[tuple[Written, int], State] = {}
        self._steps: list[dict[SourceBucket, int]] = [{}]
        self._answers: dict[frozenset[tuple[SourceBucket, int]], Buckets] = {frozenset(): unrevised}

    # what happened

    def note_commit(self, row: CommitRow) -> None:
        """Keep what the outputs of a commit were computed from."""
        commit: Commit = row.commit
        for stream, version in row.versions.items():
            reads = tuple(read for read in commit.lineage if read.output == stream)
            self._reads[stream, commit.lease.key.producer, version] = reads

    def revise(
        self, stream: StreamName, version: Version, buckets: Mapping[int, Counter[Row]]
    ) -> None:
        """A version of a source's line gave some of its buckets other contents."""
        for at_us, rows in buckets.items():
            content = self._contents.setdefault(
                (stream, at_us), Content([self._answers[frozenset()][stream].get(at_us, Counter())])
            )
            content.rows.append(rows)
            content.versions.append(version)
        self._steps.append({of: len(content.versions) for of, content in self._contents.items()})
        self._states.clear()

    # what is to be

    @property
    def are_revised(self) -> bool:
        """Whether a source was revised."""
        return bool(self._contents)

    def newest(self, stream: StreamName, at_us: int) -> Counter[Row]:
        """The content of a source's bucket since its last revision."""
        content = self._contents.get((stream, at_us))
        if content is None:
            return self._answers[frozenset()][stream].get(at_us, Counter())
        return content.rows[-1]

    def final(self) -> Buckets:
        """The content of every bucket, once all has been computed again."""
        return self._answer(self._steps[-1])

    def expected(self, written: Written, bucket: Range) -> Counter[Row] | None:
        """The rows of one bucket as a version of its line holds it; None for a mixture."""
        state = self.state(written, bucket)
        if any(len(read) > 1 for read in state.values()):
            return None
        read = {of: next(iter(indices)) for of, indices in state.items()}
        # Mostly it is how all sources were at some time, for which the oracle was asked before.
        for step in reversed(self._steps):
            if all(step.get(of, 0) == index for of, index in read.items()):
                return rows_within(self._answer(step), written[0], bucket)
        return rows_within(self._answer(read), written[0], bucket)

    def state(self, written: Written, bucket: Range) -> State:
        """Which contents one bucket of a version of a line was computed from."""
        if not self._contents or not self._reaches(bucket):
            return UNREVISED
        key = (written, bucket.from_us)
        if key not in self._states:
            self._states[key] = dict(self._read_by(written, bucket))
        return self._states[key]

    def identity(self, written: Written, bucket: Range) -> frozenset[tuple[object, ...]]:
        """The state as a value that stays the same when other buckets are revised later.

        Of a mixture it says too which input has read which content.
        """
        state = self.state(written, bucket)
        found: list[tuple[object, ...]] = [
            (of, *sorted(read)) for of, read in state.items() if read != {0}
        ]
        if any(len(read) > 1 for read in state.values()):
            inputs = list(self.inputs_of(written, bucket))
            found += [(read[0], part.from_us, self.identity(read, part)) for read, part in inputs]
        return frozenset(found)

    def inputs_of(self, written: Written, bucket: Range) -> Iterator[tuple[Written, Range]]:
        """The buckets that one bucket of a computed line was computed from, as they were."""
        fragment = self._fragments.get(written[0])
        need = {} if fragment is None else fragment.needed(written[0], bucket)
        for read in self._reads.get(written, ()):
            width_us = self._scenario.widths_us[read.input]
            over = need[read.input].widened(width_us) if read.input in need else None
            part = None if over is None else over.intersection(read.range)
            for at_us in () if part is None else range(part.from_us, part.to_us, width_us):
                yield (read.input, read.producer, read.version), Range(at_us, at_us + width_us)

    def _read_by(
        self, written: Written, bucket: Range
    ) -> Iterable[tuple[SourceBucket, frozenset[int]]]:
        stream, _, version = written
        found: dict[SourceBucket, frozenset[int]] = {}
        if stream in self._scenario.feeds:
            for at_us in range(bucket.from_us, bucket.to_us, WIDTH_US):
                content = self._contents.get((stream, at_us))
                if content is not None:
                    found[stream, at_us] = frozenset({content.at(version)})
        for read, part in self.inputs_of(written, bucket):
            for of, indices in self.state(read, part).items():
                found[of] = found.get(of, frozenset()) | indices
        return found.items()

    def _reaches(self, bucket: Range) -> bool:
        return any(
            bucket.from_us - REACH_US <= at_us < bucket.to_us + AHEAD_US
            for _, at_us in self._contents
        )

    def _answer(self, read: Mapping[SourceBucket, int]) -> Buckets:
        """The oracle's answer for some contents of the sources, the others as they were at
        first."""
        revised = {of: index for of, index in read.items() if index}
        key = frozenset(revised.items())
        if key not in self._answers:
            sources = {
                stream: [
                    *(row for row in rows if (stream, bucket_of(row[0])) not in revised),
                    *(
                        row
                        for of, index in revised.items()
                        if of[0] == stream
                        for row in self._contents[of].rows[index].elements()
                    ),
                ]
                for stream, rows in sources_of(self._scenario).items()
            }
            self._answers[key] = expected_buckets(self._scenario, sources)
        return self._answers[key]


def rows_within(buckets: Buckets, stream: StreamName, part: Range) -> Counter[Row]:
    """The rows of a stream in a range, of those by the start of the narrowest bucket."""
    found: Counter[Row] = Counter()
    of_stream = buckets[stream]
    for at_us in range(floor_us(part.from_us, WIDTH_US), part.to_us, WIDTH_US):
        found.update({row: n for row, n in of_stream.get(at_us, {}).items() if part.holds(row[0])})
    return found
