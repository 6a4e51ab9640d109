"""A bucket of a stream: what it was and is, changed rows, and what it was computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medusa_core.suggest import counted
from pipelines.base.time_text import duration, iso, size_of
from pipelines.pages.elements import NOTHING, comma_list, data_table, event_time, moment, note, same
from pipelines.pages.page_address import with_values
from pipelines.pages.page_kinds import Document
from pipelines.pages.stream_timeline import Address
from pipelines.report.drawing import Edge, Node, draw
from pipelines.report.markup import Markup, tag

DRAWN_MAX = 16
"""A lineage of more rows is a table alone."""
SHORT_HASH = 10


def bucket_section(document: Document, address: Address) -> list[Markup]:
    """No section where no bucket is chosen."""
    bucket = document["bucket"]
    if bucket is None:
        return []
    title = tag("h2", "Bucket ", event_time(bucket["from_us"]), " to ",
                event_time(bucket["to_us"]))  # fmt: skip
    steps = [
        tag("a", words, href=address(bucket=f"{at}us") + "#bucket")
        for words, at in (
            ("Bucket before", 2 * bucket["from_us"] - bucket["to_us"]),
            ("Bucket behind", bucket["to_us"]),
        )
    ]
    close = tag("a", "Close", href=address(bucket=None))
    nav = tag("nav", *steps, close, class_="spans", aria_label="Buckets")
    if not bucket["history"]:
        empty = note("empty", "This line has no row over this bucket: it has not been computed "
                              "yet, or has been trimmed.")  # fmt: skip
        return [title, nav, empty]
    return [title, nav, *_history(bucket), *_rows(bucket), *_lineage(document, bucket)]


def _history(bucket: Document) -> list[Markup]:
    rows = [
        [
            _word(one, bucket), f"{one['version']:,}", moment(one["committed_at_ms"]),
            _delay(one["delay_ms"]), comma_list(one["missing"]), _span(one),
            f"{one['rows']:,}", "now" if one["replaced_by"] is None else
            f"until version {one['replaced_by']:,}",
        ]
        for one in bucket["history"]
    ]  # fmt: skip
    columns = [("it was", "main"), ("version", "number"), ("written", ""), ("delay", "number"),
               ("without", ""), ("row over", ""), ("records of the row", "number"),
               ("in force", "")]  # fmt: skip
    return [data_table(columns, rows, "What the bucket was and is", id_="history-table")]


def _word(one: Mapping[str, Any], bucket: Document) -> Markup:
    words = one["stability"]
    was_tentative = any(
        o["stability"] == "tentative" and o["replaced_by"] == one["version"]
        for o in bucket["history"]
    )
    if words == "stable" and was_tentative:
        words = "corrected"
    return tag("span", tag("span", class_=f"key {words}"), words, class_="state-mark")


def _delay(delay_ms: int | None) -> object:
    return NOTHING if delay_ms is None else duration(delay_ms * 1_000)


def _span(one: Mapping[str, Any]) -> Markup:
    length = duration(one["to_us"] - one["from_us"])
    return tag("span", length, title=f"{iso(one['from_us'])} to {iso(one['to_us'])}")


def _rows(bucket: Document) -> list[Markup]:
    """The rows before and after the last correction, side by side."""
    changed = bucket["rows"]
    if changed is None:
        return []
    title = tag("h3", f"Rows before and after version {changed['version']:,}")
    if changed["problem"] is not None:
        return [title, note("warn", f"They cannot be read: {changed['problem']}")]
    if not changed["changes"]:
        return [title, note("empty", "No row differs: the bucket became final as it was.")]
    names = changed["columns"]
    body: list[Sequence[object]] = []
    for one in changed["changes"]:
        before, after = one["before"], one["after"]
        if before is not None:
            body.append(["− before", *(_cell(v, after, at) for at, v in enumerate(before))])
        if after is not None:
            body.append(["+ after", *(_cell(v, before, at) for at, v in enumerate(after))])
    columns = [("side", "main"), *((name, "") for name in names)]
    table = data_table(columns, body, "Rows that the correction changed", id_="changed-table")
    shown, in_all = len(changed["changes"]), changed["in_all"]
    cut = [] if shown == in_all else [note("cut", f"{shown:,} of {in_all:,} changes are shown.")]
    return [title, table, *cut]


def _cell(value: object, other: Sequence[object] | None, at: int) -> Markup:
    """A value; emphasised where the other side has another one."""
    if value is None:
        return tag("span", "NULL", class_="none")
    is_other = other is not None and other[at] != value
    words = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
    return tag("b" if is_other else "span", words)


# ---------------------------------------------------------------- lineage


def _lineage(document: Document, bucket: Document) -> list[Markup]:
    nodes = bucket["nodes"]
    if not nodes:
        return []
    parts = [tag("h3", "Lineage")]
    if len(nodes) <= DRAWN_MAX:
        words = "Lineage of the bucket, as a picture"
        parts.append(tag("div", _picture(document, bucket), class_="picture lineage",
                         tabindex="0", role="region", aria_label=words))  # fmt: skip
    else:
        parts.append(tag("p", "Too many rows for a picture: the table has them.", class_="soft"))
    by_id = {node["id"]: node for node in nodes}
    reads = {id_: [by_id[start] for start, end in bucket["edges"] if end == id_] for id_ in by_id}
    rows = [
        [_stream(node), f"{node['version']:,}", _word(node, {"history": []}),
         event_time(node["from_us"]), event_time(node["to_us"]), f"{node['rows']:,}",
         tag("span", tag("code", node["fragment"]), f" {node['cause']}", title=node["plan"]),
         comma_list(f"{one['stream']} v{one['version']}" for one in reads[node["id"]]),
         _files(node)]
        for node in nodes
    ]  # fmt: skip
    columns = [("row of", "main"), ("version", "number"), ("stability", ""), ("from", ""),
               ("to", ""), ("records", "number"), ("made by", ""), ("from rows of", ""),
               ("files", "wide-text")]  # fmt: skip
    parts.append(data_table(columns, rows, "Lineage of the bucket", id_="lineage-table"))
    if not bucket["is_whole"]:
        parts.append(note("cut", "It goes on: more rows were read than are shown."))
    span = f"--from {iso(bucket['from_us'])} --to {iso(bucket['to_us'])}"
    command = (
        f"medusa read {document['stream']} {span} --stability all --participant {document['home']}"
    )
    place = f"lineage WHERE output = '{document['stream']}'"
    return [*parts, same(place, command, "concepts")]


def _stream(node: Mapping[str, Any]) -> Markup:
    """A row's stream, linked to the bucket's page in the home that knows more of it."""
    words = tag("code", node["stream"])
    who = f" of {node['participant']}"
    if node["home"] is None:
        return tag("span", words, tag("small", who))
    place = with_values("streams", home=node["home"], stream=node["stream"],
                        bucket=f"{node['from_us']}us")  # fmt: skip
    return tag("span", tag("a", words, href=place + "#bucket"), tag("small", who))


def _files(node: Mapping[str, Any]) -> Markup:
    landed, files = node["landed"], node["files"]
    of, in_all = (landed, node["landed_in_all"]) if landed else (files, node["files_in_all"])
    if not of:
        return NOTHING
    kind = "landed " if landed else ""
    shown = [
        tag("div", kind, tag("code", one["path"]), tag("small", f" {size_of(one['size_bytes'])}, "
            f"SHA-256 {one['sha256'][:SHORT_HASH]}…"))
        for one in of
    ]  # fmt: skip
    more = in_all - len(of)
    return tag("div", *shown, tag("small", f"and {counted(more, 'more file')}") if more else "")


def _picture(document: Document, bucket: Document) -> Markup:
    """Inputs above what was computed from them, down to the bucket."""
    nodes = [
        Node(
            id=node["id"],
            heading=f"{node['stream']} v{node['version']}",
            lines=_lines(node),
            kind=f"row {node['stability']}" + ("" if node["landed"] else " computed"),
            hint=f"{node['fragment']}, {node['cause']}\nplan {node['plan']}",
        )
        for node in bucket["nodes"]
    ]
    edges = [Edge(start=start, end=end) for start, end in bucket["edges"]]
    return draw(list(reversed(nodes)), edges, title=f"Lineage of a bucket of {document['stream']}",
                description="What it was computed from, down to landed files")  # fmt: skip


def _lines(node: Mapping[str, Any]) -> tuple[str, ...]:
    whose = node["participant"] + (f" replica {node['replica']}" if node["replica"] > 0 else "")
    first = f"{counted(node['rows'], 'record')}, {node['stability']}, {whose}"
    lines = [first, f"{_short(node['from_us'])} to {_short(node['to_us'])}"]
    if node["landed_in_all"]:
        lines.append(f"{counted(node['landed_in_all'], 'landed file')}")
    return tuple(lines)


def _short(time_us: int) -> str:
    return iso(time_us).removeprefix("1970-01-01T").replace("T", " ")
