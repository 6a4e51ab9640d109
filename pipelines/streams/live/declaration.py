"""What feeds a source, as declared: a watched directory, a paced replay, or the generator.

A declaration comes from a stream's contract as a mapping of plain values and is read strictly: an
unknown field, or a value of another kind, is refused with the stream, the field and what to write.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.names import StreamName

MAX_SKEW_US = 5_000_000
RATE_PER_S_MAX = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What is declared of a source's time, in microseconds.

    `time` names the event-time column, if the declaration says it; `disorder_us` None is what the
    network's file says. `wall_time`: event time is the clock's; `idle_after_us` then has no effect.
    The words are those of `medusa_core.lateness`.
    """

    time: str | None = None
    disorder_us: int | None = None
    max_jump_us: int | None = None
    idle_after_us: int | None = None
    max_skew_us: int = MAX_SKEW_US
    wall_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedDirectory:
    """A folder into which whole files are moved; `format` csv or parquet refuses all others."""

    path: Path
    format: str | None
    timing: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedReplay:
    """Recorded files, one behind the other; an hour of event time takes an hour / `speed`."""

    paths: tuple[Path, ...]
    speed: float
    timing: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGenerator:
    """Made-up connections in the clock's time, `rate_per_s` on average from `sources` addresses.

    `records` is after how many it ends (None: never).
    """

    seed: int
    rate_per_s: int
    sources: int
    records: int | None
    timing: Timing


SourceDeclaration = WatchedDirectory | PacedReplay | LiveGenerator


def parse_declaration(
    stream: StreamName, document: Mapping[str, object] | str
) -> SourceDeclaration:
    """The declaration of what feeds `stream`, from plain values or their JSON text.

    Raises Refused, naming the stream and the field, for anything that is not one.
    """
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            raise Refused(f"the source of {stream} is no JSON: declare it again") from None
    if not isinstance(document, Mapping):
        raise Refused(f"the source of {stream} is {document!r}: write a mapping with its kind")
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in _PARSERS:
        raise Refused(
            f"the source of {stream} has kind {kind!r}: write one of {', '.join(_PARSERS)}"
        )
    return _PARSERS[kind](_Fields(stream, document))


class _Fields:
    """The fields of a declaration, taken one by one; what is left over is not known."""

    def __init__(self, stream: StreamName, document: Mapping[str, object]) -> None:
        self._stream = stream
        self._left = {name: value for name, value in document.items() if name != "kind"}
        self._known: list[str] = ["kind"]

    def refused(self, field: str, value: object, wanted: str) -> Refused:
        return Refused(f"the source of {self._stream} has {field} {value!r}: write {wanted}")

    def take(self, field: str) -> object:
        self._known.append(field)
        return self._left.pop(field, None)

    def text(self, field: str) -> str | None:
        value = self.take(field)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        raise self.refused(field, value, "a text that is not empty")

    def path(self, field: str, value: object) -> Path:
        if isinstance(value, str) and value.strip() and "\0" not in value:
            return Path(value)
        raise self.refused(field, value, "a path, such as /data/incoming")

    def duration_us(self, field: str, *, or_none_at_all: bool = False) -> int | None:
        value = self.take(field)
        if value is None:
            return None
        if or_none_at_all and value in (0, "0", "0s") and value is not False:
            return 0
        try:
            if isinstance(value, str | int):
                return parse_duration_us(value)
        except Refused:
            pass
        raise self.refused(field, value, "a duration of at most 366 days, such as 60s or 1h")

    def flag(self, field: str, default: bool) -> bool:
        value = self.take(field)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        raise self.refused(field, value, "true or false")

    def whole(self, field: str, default: int | None, least: int, most: int) -> int | None:
        value = self.take(field)
        if value is None:
            return default
        if type(value) is int and least <= value <= most:
            return value
        raise self.refused(field, value, f"a whole number from {least} to {most}")

    def timing(self, *, wall_time: bool = False) -> Timing:
        max_skew_us = self.duration_us("max_skew", or_none_at_all=True)
        return Timing(
            time=self.text("time"),
            disorder_us=self.duration_us("disorder", or_none_at_all=True),
            max_jump_us=self.duration_us("max_jump"),
            idle_after_us=self.duration_us("idle_after"),
            max_skew_us=MAX_SKEW_US if max_skew_us is None else max_skew_us,
            wall_time=self.flag("wall_time", wall_time),
        )

    def check_all_known(self) -> None:
        for field in self._left:
            near = get_close_matches(str(field), self._known, n=1)
            raise Refused(
                f"the source of {self._stream} has a field {field!r} that is not known: "
                + (f"did you mean {near[0]}?" if near else f"write {', '.join(self._known)}")
            )


def _directory(fields: _Fields) -> WatchedDirectory:
    path = fields.path("path", fields.take("path"))
    format_ = fields.text("format")
    if format_ not in (None, "csv", "parquet"):
        raise fields.refused("format", format_, "csv, parquet, or nothing for both")
    timing = fields.timing()
    fields.check_all_known()
    return WatchedDirectory(path=path, format=format_, timing=timing)


def _replay(fields: _Fields) -> PacedReplay:
    given = fields.take("paths")
    if not isinstance(given, list | tuple) or not given:
        raise fields.refused("paths", given, "a list of recorded files, such as [day.csv.gz]")
    paths = tuple(fields.path("paths", path) for path in given)
    speed = fields.take("speed")
    speed = 1 if speed is None else speed
    if (
        isinstance(speed, bool)
        or not isinstance(speed, int | float)
        or not math.isfinite(speed)
        or speed <= 0
    ):
        raise fields.refused("speed", speed, "how many times as fast as it was, such as 10")
    time, disorder_us = fields.text("time"), fields.duration_us("disorder", or_none_at_all=True)
    max_jump_us = fields.duration_us("max_jump")
    fields.check_all_known()
    timing = Timing(time=time, disorder_us=disorder_us, max_jump_us=max_jump_us)
    return PacedReplay(paths=paths, speed=float(speed), timing=timing)


def _generate(fields: _Fields) -> LiveGenerator:
    from pipelines.streams.generate_connections import SOURCES_MAX

    seed = fields.whole("seed", 0, 0, 2**63 - 1)
    rate_per_s = fields.whole("rate_per_s", 56, 1, RATE_PER_S_MAX)
    sources = fields.whole("sources", 2_000, 1, SOURCES_MAX)
    records = fields.whole("records", None, 1, 2**53)
    time, disorder_us = fields.text("time"), fields.duration_us("disorder", or_none_at_all=True)
    fields.check_all_known()
    assert seed is not None
    assert rate_per_s is not None
    assert sources is not None
    return LiveGenerator(
        seed=seed,
        rate_per_s=rate_per_s,
        sources=sources,
        records=records,
        timing=Timing(time=time, disorder_us=disorder_us, wall_time=True),
    )


_PARSERS: Mapping[str, Callable[[_Fields], SourceDeclaration]] = {
    "directory": _directory,
    "replay": _replay,
    "generate": _generate,
}
