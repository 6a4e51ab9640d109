"""The same rows of text in each of the formats, as somebody else's programs would write them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, str | None]

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def csv_text(names: Sequence[str], rows: Sequence[Row]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([row[name] or "" for name in names] for row in rows)
    return out.getvalue().encode()


def json_text(names: Sequence[str], rows: Sequence[Row], *, leaves_out: bool = False) -> bytes:
    """Numbers as numbers, all else as strings; NULL is `null`, or is left out."""
    lines = []
    for row in rows:
        fields = [
            f"{json.dumps(name)}: {_json_value(row[name])}"
            for name in names
            if row[name] is not None or not leaves_out
        ]
        lines.append("{" + ", ".join(fields) + "}\n")
    return "".join(lines).encode()


def _json_value(text: str | None) -> str:
    if text is None:
        return "null"
    return text if NUMBER.fullmatch(text) else json.dumps(text)


def zeek_header(
    names: Sequence[str],
    types: Sequence[str] | None = None,
    *,
    separator: str = "\t",
    path: str = "conn",
) -> str:
    escaped = "".join(f"\\x{byte:02x}" for byte in separator.encode())
    lines = [f"#separator {escaped}"]
    told = [("set_separator", [","]), ("empty_field", ["(empty)"]), ("unset_field", ["-"]),
            ("path", [path]), ("open", ["2024-04-19-00-00-00"]), ("fields", names),
            ("types", types or ["string"] * len(names))]  # fmt: skip
    lines += [separator.join([f"#{name}", *words]) for name, words in told]
    return "\n".join(lines) + "\n"


def zeek_value(text: str | None, separator: str = "\t") -> str:
    if text is None:
        return "-"
    if not text:
        return "(empty)"
    if text in ("-", "(empty)"):
        return f"\\x{ord(text[0]):02x}{text[1:]}"
    hidden = {"\\", "#", *separator}
    return "".join(
        "".join(f"\\x{byte:02x}" for byte in c.encode())
        if ord(c) < 32 or c == "\x7f" or c in hidden
        else c
        for c in text
    )


def zeek_text(
    names: Sequence[str],
    rows: Sequence[Row],
    types: Sequence[str] | None = None,
    *,
    separator: str = "\t",
) -> bytes:
    lines = [
        separator.join(zeek_value(row[name], separator) for name in names) + "\n" for row in rows
    ]
    head = zeek_header(names, types, separator=separator)
    return (head + "".join(lines) + f"#close{separator}2024-04-19-01-00-00\n").encode()


def write_parquet_of_text(path: Path, names: Sequence[str], rows: Sequence[Row]) -> None:
    table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in names})
    pq.write_table(table, path)


def write_all(folder: Path, names: Sequence[str], rows: Sequence[Row]) -> list[Path]:
    """Files of every format; their names say nothing of what is in them."""
    texts = [
        csv_text(names, rows),
        json_text(names, rows),
        json_text(names, rows, leaves_out=True),
        zeek_text(names, rows),
        zeek_text(names, rows, separator=" || "),
        gzip.compress(zeek_text(names, rows)),
    ]
    files = [folder / f"rows.{number}" for number in range(len(texts) + 1)]
    for file, text in zip(files, texts, strict=False):
        file.write_bytes(text)
    write_parquet_of_text(files[-1], names, rows)
    return files
