"""The fields of the declaration of a source's feed, read strictly, one by one.

An unknown field, or a value of another kind, is refused with the stream, the field and what to
write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.names import StreamName
from medusa_core.suggest import did_you_mean

MAX_SKEW_US = 5_000_000
RECORDS_PER_S_MAX = 10_000_000


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
class Where:
    """Which records are a stream's: those with this value, as written, of a declared column."""

    column: str
    value: str | int | bool


class Fields:
    """The fields of a declaration, taken one by one; what is left over is not known."""

    def __init__(self, stream: StreamName, document: Mapping[str, object]) -> None:
        self._stream = stream
        self._left = {name: value for name, value in document.items() if name != "kind"}
        self._known: list[str] = ["kind"]

    def refused(self, field: str, value: object, expected: str) -> Refused:
        return Refused(f"the source of {self._stream} has {field} {value!r}: write {expected}")

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

    def where(self) -> Where | None:
        given = self.take("where")
        if given is None:
            return None
        expected = "one column and its value, such as {region: north}"
        if not isinstance(given, Mapping) or len(given) != 1:
            raise self.refused("where", given, expected)
        ((column, value),) = given.items()
        if not isinstance(column, str) or not isinstance(value, str | int) or value == "":
            raise self.refused("where", given, expected)
        return Where(column=column, value=value)

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
            raise Refused(
                f"the source of {self._stream} has a field {field!r} that is not known: "
                + did_you_mean(field, self._known, f"write {', '.join(self._known)}")
            )
