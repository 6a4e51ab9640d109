"""CSV: records, fields, times, numbers, encodings."""

from __future__ import annotations

from medusa_core.network import Source
from tests.hostile.cases.shapes import ESCAPES, MARKUP, SHELL, SQL, FileCase

HEADER = b"ts_us,host,port,size\n"
GOOD = b"1700000000000000,a,1,1.5\n"
MIB = 1 << 20


def one_bad(name: str, record: bytes, field: str, reason: str) -> FileCase:
    """A bad record between two good ones."""
    return FileCase(
        name=name,
        content=HEADER + GOOD + record + b"\n" + GOOD,
        landed=2,
        quarantined=((3, field, reason),),
    )


def one_good(name: str, record: bytes) -> FileCase:
    """A record that looks dangerous and is none: it lands as it is."""
    return FileCase(name=name, content=HEADER + GOOD + record + b"\n" + GOOD, landed=3)


def field_of(value: str) -> bytes:
    """A host that holds the value, quoted."""
    return b'1700000000000000,"' + value.replace('"', '""').encode() + b'",1,1.5'


def times(type_: str, unit: str | None = None) -> Source:
    """A source whose time is of a type: a date is one of a declared zone."""
    zone = "UTC" if type_ == "date" else None
    return Source(
        name="connections", columns={"at": type_}, time="at", time_unit=unit, time_zone=zone
    )


def one_time(name: str, text: str, reason: str, type_: str, unit: str | None = None) -> FileCase:
    """A bad time behind a good one."""
    good = {"timestamp": "2024-01-01T00:00:00Z", "date": "2024-01-01", "string": "1700000000"}
    head = f"at\n{good.get(type_, '1700000000')}\n"
    return FileCase(
        name=name,
        content=(head + text + "\n").encode(),
        landed=1,
        quarantined=((3, "at", reason),),
        source=times(type_, unit),
    )


RECORDS = (
    one_bad("a word and no record", b"oops", "", "1 field"),
    one_bad("a field too many", b"1700000000000000,a,1,1.5,x", "", "5 fields"),
    one_bad("ten thousand fields", b"," * 9_999, "", "10000 fields"),
    one_bad("an open quote", b'1700000000000000,"a,1,1.5', "", "quotes are broken"),
    one_bad("text behind a quote", b'1700000000000000,"a"b,1,1.5', "", "quotes are broken"),
    one_bad("a lone carriage return", b"1700000000000000,a,1\r,1.5", "", "carriage return"),
    one_bad("a record of 2 MiB", b"1700000000000000," + b"a" * 2 * MIB + b",1,1", "", "1 MiB"),
    one_bad(
        "a quoted one of 2 MiB", b'1700000000000000,"' + b"a" * 2 * MIB + b'",1,1', "", "1 MiB"
    ),
    one_bad("NUL in text", b"1700000000000000,a\0b,1,1.5", "host", "NUL"),
    one_bad("NUL in a number", b"1700000000000000,a,\x001,1.5", "port", "no whole number"),
    one_bad("NUL alone", b"\0", "", "1 field"),
    one_bad("bytes that are no text", b"1700000000000000,\xff\xfe,1,1.5", "host", "UTF-8"),
    one_bad("a surrogate in UTF-8", b"1700000000000000,\xed\xa0\x80,1,1.5", "host", "UTF-8"),
    one_bad("an overlong slash", b"1700000000000000,\xc0\xaf,1,1.5", "host", "UTF-8"),
    one_bad("UTF-8 that breaks off", b"1700000000000000,\xe2\x82,1,1.5", "host", "UTF-8"),
    one_bad("beyond Unicode", b"1700000000000000,\xf4\x90\x80\x80,1,1.5", "host", "UTF-8"),
    one_bad("a column called as another row", b"ts_us,host,port,size", "ts_us", "no whole number"),
    one_good("terminal escapes", field_of(ESCAPES)),
    one_good("markup", field_of(MARKUP)),
    one_good("SQL", field_of(SQL)),
    one_good("a shell command", field_of(SHELL)),
    one_good("a spreadsheet formula", field_of("=cmd|' /C calc'!A0")),
    one_good("a path that climbs", field_of("../../../../etc/passwd")),
    one_good("a format string", field_of("%s%n{0.__class__}${jndi:ldap://x}")),
    one_good("a byte order mark inside", field_of("\ufeffa")),
    one_good("a noncharacter", field_of("\uffff\U0010ffff")),
    one_good("a thousand combining marks", field_of("a" + "\u0301" * 1_000)),
    one_good("line ends inside quotes", field_of("a\nb\r\nc\rd")),
    one_good("a field of 1,000,000 bytes", field_of("a" * 1_000_000)),
    one_good("empty fields", b"1700000000000000,,,"),
)

NUMBERS = (
    one_bad("hexadecimal", b"1700000000000000,a,0x1F,1.5", "port", "no whole number"),
    one_bad("octal", b"1700000000000000,a,0o17,1.5", "port", "no whole number"),
    one_bad("underscores", b"1700000000000000,a,1_000,1.5", "port", "no whole number"),
    one_bad("a thousands comma", b'1700000000000000,a,"1,000",1.5', "port", "no whole number"),
    one_bad("Arabic digits", "1700000000000000,a,١٢٣,1.5".encode(), "port", "no whole number"),
    one_bad("fullwidth digits", "1700000000000000,a,１２,1.5".encode(), "port", "no whole number"),
    one_bad("a superscript", "1700000000000000,a,²,1.5".encode(), "port", "no whole number"),
    one_bad("a decimal point", b"1700000000000000,a,12.5,1.5", "port", "no whole number"),
    one_bad("an exponent", b"1700000000000000,a,1e3,1.5", "port", "no whole number"),
    one_bad("two signs", b"1700000000000000,a,--1,1.5", "port", "no whole number"),
    one_bad("a sign alone", b"1700000000000000,a,-,1.5", "port", "no whole number"),
    one_bad("just beyond int", b"1700000000000000,a,2147483648,1.5", "port", "out of range of int"),
    one_bad("just below int", b"1700000000000000,a,-2147483649,1.5", "port", "out of range of int"),
    one_bad(
        "ten thousand digits",
        b"1700000000000000,a," + b"9" * 10_000 + b",1.5",
        "port",
        "out of range of int|no whole number",
    ),
    one_bad(
        "digits and a letter",
        b"1700000000000000,a," + b"9" * 5_000 + b"x,1.5",
        "port",
        "no whole number",
    ),
    one_bad("a double beyond its range", b"1700000000000000,a,1,1e999", "size", "out of range"),
    one_bad(
        "a huge exponent",
        b"1700000000000000,a,1,1e99999999999999999999",
        "size",
        "out of range|no number",
    ),
    one_bad("two points", b"1700000000000000,a,1,1.5.5", "size", "no number"),
    one_bad("a hexadecimal double", b"1700000000000000,a,1,0x1p3", "size", "no number"),
    one_bad("a word as a double", b"1700000000000000,a,1,infinite", "size", "no number"),
    one_bad("a double in Arabic digits", "1700000000000000,a,1,١.٥".encode(), "size", "no number"),
    one_good("infinity", b"1700000000000000,a,1,-Infinity"),
    one_good("a denormal", b"1700000000000000,a,1,4.9e-324"),
    one_good("less than a denormal", b"1700000000000000,a,1,1e-999"),
    one_good("minus zero", b"1700000000000000,a,-0,-0.0"),
)

TIMES = (
    one_bad("no time", b",a,1,1.5", "ts_us", "has no time"),
    one_bad("a word for a time", b"soon,a,1,1.5", "ts_us", "no whole number"),
    one_bad("a time beyond bigint", b"9" * 19 + b",a,1,1.5", "ts_us", "out of range of bigint"),
    one_bad("after the year 9999", b"253402300800000000,a,1,1.5", "ts_us", "years 1 to 9999"),
    one_bad("before the year 1", b"-62135596800000001,a,1,1.5", "ts_us", "years 1 to 9999"),
    one_bad("the least bigint", b"-9223372036854775808,a,1,1.5", "ts_us", "years 1 to 9999"),
    one_good("the last microsecond", b"253402300799999999,a,1,1.5"),
    one_good("the first microsecond", b"-62135596800000000,a,1,1.5"),
    one_time("the 30th of February", "2024-02-30T00:00:00Z", "time|date|timestamp", "timestamp"),
    one_time("month 13", "2024-13-01T00:00:00Z", "time|date|timestamp", "timestamp"),
    one_time("hour 25", "2024-01-01T25:00:00Z", "time|timestamp", "timestamp"),
    one_time("a leap day of no leap year", "2023-02-29", "date", "date"),
    one_time("the year 10000", "10000-01-01T00:00:00Z", "time|timestamp", "timestamp"),
    one_time("the year 0", "0000-01-01T00:00:00Z", "time|timestamp|year", "timestamp"),
    one_time("an offset of 99 hours", "2024-01-01T00:00:00+99:00", "time|timestamp", "timestamp"),
    one_time("a zone by name", "2024-01-01T00:00:00 Mars/Base", "time|timestamp", "timestamp"),
    one_time("a time in Arabic digits", "٢٠٢٤-٠١-٠١", "date", "date"),
    one_time("NaN as a time", "NaN", "time|number|range", "double", "s"),
    one_time("infinity as a time", "inf", "time|number|range", "double", "s"),
    one_time("1e300 seconds", "1e300", "time|range|years", "double", "s"),
    one_time("bigint milliseconds that overflow", str(2**62), "years", "bigint", "ms"),
    one_time("seconds that overflow", str(2**62), "years", "bigint", "s"),
    one_time(
        "a decimal with many digits",
        "1." + "1" * 60,
        "range|scale|decimal|digits|number",
        "decimal(18,6)",
        "s",
    ),
    one_time("text that is no time", "tomorrow", "time", "string", "s"),
)
