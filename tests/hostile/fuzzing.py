"""Inputs near to good ones: good seeds, cut, spliced, repeated and spoilt, for every parser.

Each target takes bytes; whatever it is given it answers, or raises one of Medusa's errors.
"""

from __future__ import annotations

import copy
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from medusa_core.columns import Column
from medusa_core.errors import MedusaError
from medusa_core.grid import parse_duration_us
from medusa_core.names import check_name
from pipelines.base.settings import Settings
from pipelines.base.time_text import parse_time_us
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.contracts.yaml_values import parse_yaml
from pipelines.language.expressions import compile_expression
from pipelines.sources.recorded.reader import read_recorded_file
from tests.hostile.cases.log_files import ZEEK_FIELDS, ZEEK_HEAD, ZEEK_ROW, line
from tests.hostile.cases.shapes import CONNECTIONS
from tests.hostile.cases.text_files import GOOD, HEADER
from tests.hostile.cases.whole_files import parquet

Target = Callable[[bytes], object]
TOKENS = (
    b"\0",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b"`",
    b",",
    b"\t",
    b"\\x",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"#",
    b"-",
    b"&a ",
    b"*a",
    b"!!",
    b": ",
    b"%",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    "٣".encode(),
    "\u202e".encode(),
    b"9" * 30,
    b"1e999",
    b"NaN",
    b"null",
    b" -- ",
    b";",
    b"$",
    b"${x}",
    b"{participant}",
    b"..",
    b"/",
    b"@",
    b"://",
    b"CASE ",
    b"NOT ",
    b" = ",
)


@st.composite
def spoilt(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """A seed after a few changes, or a heap of tokens."""
    data = draw(st.sampled_from([*seeds, b""]))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 64)))
        put = draw(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8), st.just(data[at:end])))
        times = draw(st.sampled_from([1, 1, 1, 2, 70]))
        data = data[:at] + put * times + data[end:]
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 5)) == 0 else data


ODD = (
    "null", "true", "-1", "1.5", "1e999", "-1e999", "1e308", "NaN", "1" + "0" * 400, '""', '"x"',
    '"\\ud800"', "[]", "[[]]", '["a"]', "{}", '{"a": 1}',
)  # fmt: skip
"""JSON values that a field of another type, or the arithmetic on it, may not expect."""


def odd_documents(whole: bytes) -> Iterator[bytes]:
    """A JSON document again and again, each time with one value of it replaced or missing."""
    mark = "value to replace"
    document = json.loads(whole)
    for path in _places(document):
        changed = copy.deepcopy({"": document})
        holder: Any = changed
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = mark
        text = json.dumps(changed[""])
        yield from (text.replace(f'"{mark}"', value).encode() for value in ODD)
        del holder[path[-1]]
        if changed:
            yield json.dumps(changed[""]).encode()


def _places(value: Any, path: tuple[Any, ...] = ("",)) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to every value in a document, and to the whole."""
    yield path
    inside = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inside:
        yield from _places(one, (*path, key))


def read_file(data: bytes) -> None:
    """Read it as a recorded file; every record is accounted for, once."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "input"
        file.write_bytes(data)
        for chunk in read_recorded_file(CONNECTIONS, file, chunk_records=3):
            places = [*chunk.positions.tolist(), *(q.position for q in chunk.quarantined)]
            assert len(places) == len(set(places)), places


def as_text(read: Callable[[str], object]) -> Target:
    """A target of text: bytes that are none are lone surrogates, as in a command line."""
    return lambda data: read(data.decode(errors="surrogateescape"))


def read_url(text: str) -> None:
    """As the environment's catalog."""
    url = Settings.from_environment({"MEDUSA_CATALOG_URL": text}).catalog_url
    if url is not None:
        catalog_url(url.replace("{participant}", "alpha"))


COLUMNS = {"a": Column("a", "bigint"), "s": Column("s", "string"), "t": Column("t", "timestamp")}
CSV = HEADER + GOOD * 3 + b'1700000000000001,"a ""b""\nc",2,2.5\n'
YAML = (b"stream: connections_a\nsource: {kind: generate, seed: 1}\n",
        b"participant: alpha\nruns:\n  - network: netmon3\n    sources: [a, b]\n")  # fmt: skip
EXPRESSIONS = (
    b"a + 1 > 2 AND s LIKE 'x%'", b"CASE WHEN a IS NULL THEN 0 ELSE a END", b"`a` % 10 = 3",
    b"coalesce(substring_index(s, '.', 3), 'x') || '/24'", b"CAST(s AS decimal(10, 2))",
    b"a IN (1, 2, 3)", b"unix_seconds(t) / 60", b"NOT (a BETWEEN 1 AND 5)",
)  # fmt: skip

TARGETS: dict[str, tuple[Target, tuple[bytes, ...]]] = {
    "CSV": (read_file, (CSV, CSV.replace(b",", b"\t"), CSV.replace(b"\n", b"\r\n"))),
    "JSON lines": (read_file, (line() * 3, line(host={"a": [1]}) + line(port=None))),
    "Zeek logs": (read_file, (ZEEK_HEAD + ZEEK_FIELDS + ZEEK_ROW * 3, ZEEK_FIELDS + ZEEK_ROW)),
    "gzip": (read_file, (gzip.compress(CSV), gzip.compress(CSV) * 2)),
    "Parquet": (read_file, (parquet(),)),
    "YAML": (lambda data: parse_yaml(data, "file"), YAML),
    "expressions": (
        as_text(lambda text: compile_expression(text, COLUMNS, where="box b")),
        EXPRESSIONS,
    ),
    "durations": (as_text(parse_duration_us), (b"10s", b"250ms", b"15 m", b"7d")),
    "times": (
        as_text(lambda text: parse_time_us("--from", text)),
        (b"2024-04-19T08:00:00Z", b"2024-04-19", b"1713513600.5"),
    ),
    "names": (as_text(lambda text: check_name("stream", text)), (b"connections_a",)),
    "catalog URLs": (
        as_text(read_url),
        (b"postgresql://u:p@h:5432/d?sslmode=require", b"postgres://[::1]:5432/{participant}"),
    ),
}


def feed(target: Target, data: bytes) -> None:
    """Give it to the target; anything but an answer or an error of Medusa's comes out."""
    try:
        target(data)
    except MedusaError as error:
        says = str(error)
        assert says.isprintable(), "an error has a character that a terminal obeys"
        assert len(says) <= 2_100, "an error is too long to be read"
