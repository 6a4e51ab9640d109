"""JSON lines and Zeek logs."""

from __future__ import annotations

import json

from tests.hostile.cases.shapes import ESCAPES, MARKUP, FileCase
from tests.hostile.cases.whole_files import ROW, whole


def line(**fields: object) -> bytes:
    """A JSON line, like a good one but for the fields given."""
    return json.dumps({**ROW, **fields}).encode() + b"\n"


def one_line(name: str, record: bytes, field: str, reason: str) -> FileCase:
    """A bad JSON line between two good ones."""
    return FileCase(
        name=f"JSON: {name}",
        content=line() + record + line(),
        landed=2,
        quarantined=((2, field, reason),),
    )


JSON = (
    FileCase(
        name="JSON: an object for text is its JSON", content=line(host={"a": MARKUP}) * 2, landed=2
    ),
    FileCase(
        name="JSON: infinity, as in CSV", content=b'{"ts_us": 1, "size": -Infinity}\n', landed=1
    ),
    one_line("no JSON", b"{oops\n", "", "JSON"),
    one_line("a list", b"[1, 2]\n", "", "JSON|object"),
    one_line("a number alone", b"1\n", "", "JSON|object"),
    one_line("two objects", line()[:-1] + line(), "", "JSON|object"),
    one_line("a key twice", b'{"ts_us": 1, "ts_us": 2}\n', ".*", "twice|again|JSON"),
    one_line("nested a hundred thousand deep", b"[" * 100_000 + b"\n", "", "JSON|nest|deep|object"),
    one_line("objects a hundred thousand deep", b'{"a":' * 100_000 + b"\n", "", "JSON|nest|deep"),
    one_line("a list for a number", line(port=[1]), "port", "list|array|number"),
    one_line("a word for a number", line(port="many"), "port", "no whole number"),
    one_line("true for a number", line(port=True), "port", "number|bool|true"),
    one_line("a number beyond int", line(port=2**31), "port", "out of range"),
    one_line(
        "a time of ten thousand digits",
        b'{"ts_us": ' + b"9" * 10_000 + b"}\n",
        "ts_us",
        "range|number|time",
    ),
    one_line("NUL escaped", b'{"ts_us": 1700000000000000, "host": "a\\u0000"}\n', "host", "NUL"),
    one_line(
        "half a surrogate",
        b'{"ts_us": 1700000000000000, "host": "\\ud800"}\n',
        ".*",
        "UTF-8|surrogate|JSON|text",
    ),
    one_line(
        "bytes that are no text",
        b'{"ts_us": 1700000000000000, "host": "\xff"}\n',
        ".*",
        "UTF-8|JSON",
    ),
    one_line("a line of 2 MiB", b'{"a": "' + b"a" * (2 << 20) + b'"}\n', "", "1 MiB"),
    FileCase(
        name="JSON: unknown names",
        content=line() + line(**{MARKUP: 1, ESCAPES: 2, "__proto__": 3}),
        landed=2,
    ),
    FileCase(
        name="JSON: no names of ours", content=b'{"x": 1}\n{"y": 2}\n', refused="ts_us|column"
    ),
)

ZEEK_HEAD = (
    b"#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n"
)
ZEEK_FIELDS = b"#fields\tts_us\thost\tport\tsize\n#types\tcount\tstring\tport\tdouble\n"
ZEEK_ROW = b"1700000000000000\ta\t1\t1.5\n"

ZEEK = (
    FileCase(name="Zeek: good", content=ZEEK_HEAD + ZEEK_FIELDS + ZEEK_ROW, landed=1),
    whole("Zeek: no fields", ZEEK_HEAD + ZEEK_ROW, "fields"),
    FileCase(
        name="Zeek: a header that breaks off before any record", content=b"#separator \\x09\n"
    ),
    whole("Zeek: a separator of nothing", b"#separator \n" + ZEEK_FIELDS + ZEEK_ROW, "separator"),
    whole("Zeek: a separator of no hex", b"#separator \\xzz\n" + ZEEK_FIELDS + ZEEK_ROW, "ts_us"),
    whole(
        "Zeek: a line end as separator", b"#separator \\x0a\n" + ZEEK_FIELDS + ZEEK_ROW, "separator"
    ),
    whole(
        "Zeek: a field twice",
        ZEEK_HEAD + b"#fields\tts_us\tts_us\thost\tport\tsize\n1\t" + ZEEK_ROW,
        "2 columns .ts_us",
    ),
    FileCase(
        name="Zeek: a row too short",
        content=ZEEK_HEAD + ZEEK_FIELDS + b"1\ta\n" + ZEEK_ROW,
        landed=1,
        quarantined=((8, "", "2 fields"),),
    ),
    FileCase(
        name="Zeek: a broken escape",
        content=ZEEK_HEAD + ZEEK_FIELDS + b"1700000000000000\t\\xff\t1\t1\n" + ZEEK_ROW,
        landed=1,
        quarantined=((8, "host", "UTF-8"),),
    ),
    FileCase(
        name="Zeek: NUL by an escape",
        content=ZEEK_HEAD + ZEEK_FIELDS + b"1700000000000000\ta\\x00\t1\t1\n" + ZEEK_ROW,
        landed=1,
        quarantined=((8, "host", "NUL"),),
    ),
    FileCase(
        name="Zeek: no time",
        content=ZEEK_HEAD + ZEEK_FIELDS + b"-\ta\t1\t1\n" + ZEEK_ROW,
        landed=1,
        quarantined=((8, "ts_us", "no time"),),
    ),
)
