"""The options of `format("medusa")`, checked before anything is opened.

There is no option for a URL, a login or a folder: the location of the home is taken from the
environment of the reading processes, so that it is in no plan and no page of Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.names import Participant, StreamName, Version, check_name
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import parse_time_us

STABLE, ALL = "stable", "all"
NAMES = (
    "stream", "participant", "stability", "from", "to", "as_of", "maxRecordsPerTrigger",
    "maxBucketsPerTrigger",
)  # fmt: skip
LENGTH_MAX = 200
_DATE = re.compile(r"[0-9]{4}-")
COUNT_MAX = 10**15
_STREAM = re.compile(r"[a-z][a-z0-9_]{0,62}(/[a-z0-9_]{1,63})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a reader; event times in microseconds, `to_us` exclusive.

    A version of the past is given by its number or by `as_of_ms`, a time of the home's clock.
    """

    stream: StreamName
    participant: Participant | None = None
    with_tentative: bool = False
    from_us: int | None = None
    to_us: int = FOREVER_US
    as_of: Version | None = None
    as_of_ms: int | None = None
    records_per_trigger_max: int | None = None
    buckets_per_trigger_max: int | None = None


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """The options as values; names are compared without case, as everywhere in Spark.

    Raises Refused, naming the option, for one that is not known or not possible.
    """
    values = _known(given)
    stream = values.get("stream")
    if stream is None:
        raise Refused('name the stream to read: .option("stream", "…")')
    if not _STREAM.fullmatch(stream):
        raise Refused(
            f"option stream {stream!r} is not the name of a stream: `medusa streams` lists them"
        )
    from_us, to_us = _time(values, "from", BEGINNING_US), _time(values, "to", FOREVER_US)
    if from_us >= to_us:
        raise Refused(
            f"option from {values.get('from')!r} is not before option to {values.get('to')!r}: "
            "to is exclusive"
        )
    participant = None
    if "participant" in values:
        participant = Participant(check_name("option participant", values["participant"]))
    as_of, as_of_ms = _past(values)
    return ReadOptions(
        stream=StreamName(stream),
        participant=participant,
        with_tentative=_stability(values) == ALL,
        from_us=from_us if "from" in values else None,
        to_us=to_us,
        as_of=as_of,
        as_of_ms=as_of_ms,
        records_per_trigger_max=_count(values, "maxRecordsPerTrigger", least=1),
        buckets_per_trigger_max=_count(values, "maxBucketsPerTrigger", least=1),
    )


def for_batch(options: ReadOptions) -> ReadOptions:
    """Options of `spark.read`; Refused for those that only a streaming query has."""
    if options.records_per_trigger_max or options.buckets_per_trigger_max:
        raise Refused(
            "maxRecordsPerTrigger and maxBucketsPerTrigger are for spark.readStream: leave them "
            "out, or read less with from and to"
        )
    return options


def for_stream(options: ReadOptions) -> ReadOptions:
    """Options of `spark.readStream`; Refused for those that make no sense without an end."""
    if options.with_tentative:
        raise Refused(
            "a streaming query gets stable rows only, for it cannot take a tentative row back: "
            'leave stability out, or read tentative rows with spark.read and stability "all" and '
            "write them by their key"
        )
    if options.as_of is not None or options.as_of_ms is not None:
        raise Refused(
            "option as_of is for spark.read, for a past version does not grow: leave it out"
        )
    return options


def _known(given: Mapping[str, str]) -> dict[str, str]:
    spelled = {name.lower(): name for name in NAMES}
    values: dict[str, str] = {}
    for name, value in given.items():
        # The value is not repeated: whoever takes options for the place of a login puts one there.
        if name.lower() not in spelled:
            hint = did_you_mean(name, NAMES, f"it has {', '.join(NAMES)}")
            raise Refused(
                f"format medusa has no option {name[:LENGTH_MAX]!r}: {hint} (where the home is and "
                "how to log in stand in the environment, MEDUSA_DIR and MEDUSA_CATALOG_URL)"
            )
        if len(value) > LENGTH_MAX:
            raise Refused(f"option {spelled[name.lower()]} is longer than {LENGTH_MAX} characters")
        values[spelled[name.lower()]] = value
    return values


def _stability(values: Mapping[str, str]) -> str:
    given = values.get("stability", STABLE)
    if given not in (STABLE, ALL):
        raise Refused(
            f"option stability {given!r} is neither {STABLE!r} (final rows, the default) nor "
            f"{ALL!r} (tentative rows too)"
        )
    return given


def _time(values: Mapping[str, str], name: str, otherwise: int) -> int:
    return parse_time_us(f"option {name}", values[name]) if name in values else otherwise


def _past(values: Mapping[str, str]) -> tuple[Version | None, int | None]:
    """A version by its number, or a time of the home's clock in milliseconds."""
    given = values.get("as_of")
    if given is not None and _DATE.match(given):
        return None, parse_time_us("option as_of", given) // 1_000
    number = _count(values, "as_of", least=0)
    return (None if number is None else Version(number)), None


def _count(values: Mapping[str, str], name: str, *, least: int) -> int | None:
    given = values.get(name)
    if given is None:
        return None
    is_number = given.isascii() and given.isdigit() and len(given) <= len(str(COUNT_MAX))
    if not (is_number and least <= int(given) <= COUNT_MAX):
        raise Refused(f"option {name} {given!r} is no whole number from {least} on")
    return int(given)
