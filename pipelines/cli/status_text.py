"""A home's status for a terminal: columns of fixed width, so that a repeated display is steady.

A value too long for its column loses its middle (names differ at either end); --json has it all.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medusa_core.grid import BEGINNING_US, FOREVER_US, floor_us
from medusa_core.suggest import counted
from pipelines.base.text_table import facts, printable
from pipelines.base.time_text import duration, iso, size_of

WIDTH = 100
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a fixed table; numbers stand to the right."""

    name: str
    width: int
    is_number: bool = False


LEASES = (Column("fragment", 29), Column("p", 2, True), Column("by", 9), Column("lane", 7),
          Column("epoch", 5, True), Column("held by", 16), Column("lease", 20))  # fmt: skip
WORKERS = (Column("partition", 29), Column("worker", 14), Column("busy", 4, True),
           Column("since", 12), Column("because", 32))  # fmt: skip
STREAMS = (Column("stream", 22), Column("by", 9), Column("stable through", 20),
           Column("tentative", 10), Column("behind by", 10), Column("version", 7, True),
           Column("rows", 10, True))  # fmt: skip
DROPS = (Column("dropped of", 22), Column("by", 9), Column("from", 20), Column("through", 20),
         Column("buckets", 8, True), Column("share", 6, True),
         Column("utility", 8, True))  # fmt: skip
LINKS = (Column("link", 12), Column("here", 6), Column("state", 20), Column("answers", 13, True),
         Column("news later by", 13, True), Column("received", 8, True), Column("sent", 7, True),
         Column("files", 6, True))  # fmt: skip
CORRECTIONS = (Column("stream", 36), Column("by", 9), Column("tentative through", 25),
               Column("corrected through", 24))  # fmt: skip
STATES = (Column("fragment", 29), Column("p", 2, True), Column("by", 9), Column("state", 13),
          Column("since", 12), Column("because", 25))  # fmt: skip
BOUNDS = (Column("bound of", 36), Column("bound", 8, True), Column("an answer takes", 15, True),
          Column("inputs are waited for", 21, True), Column("left", 8, True))  # fmt: skip
SOURCES = (Column("source", 22), Column("fed by", 9), Column("files wait", 10, True),
           Column("records wait", 12, True), Column("behind by", 10),
           Column("reported", 14))  # fmt: skip
SINKS = (Column("delivered to", 22), Column("by", 9), Column("through", 20),
         Column("behind by", 10), Column("rows", 10, True), Column("reported", 14))  # fmt: skip
LOADS = (Column("fragment", 29), Column("p", 2, True), Column("load", 7, True),
         Column("marginal cost", 16, True), Column("by cause", 38))  # fmt: skip
CONTRACTS = (Column("contract", 24), Column("with", 20), Column("level", 5, True),
             Column("price", 14, True), Column("last answer", 29))  # fmt: skip
REASONS = (Column("stream", 22), Column("in quarantine because", 64), Column("records", 10, True))


def status_text(document: Mapping[str, Any]) -> str:
    """The facts of `home_status` as text, at most 100 characters a line (but for paths)."""
    from pipelines.homes.headroom_file import headroom_sentence
    from pipelines.watching.link_facts import broken_link

    parts = [_wrapped(sentence, 0) for link in document["links"] if (sentence := broken_link(link))]
    parts[:0] = [_missing(document, partner) for partner in document["missing_partners"]]
    parts.append(facts(_known(document)))
    parts += [_alarm(alarm) for alarm in document["alarms"]]
    if document["leases"]:
        parts.append(fixed(LEASES, [_lease(lease) for lease in document["leases"]]))
    if workers := list(_workers(document["workers"])):
        parts.append(fixed(WORKERS, workers))
    if document["streams"]:
        parts.append(fixed(STREAMS, [_stream(stream) for stream in document["streams"]]))
    if document["links"]:
        parts.append(fixed(LINKS, [_link(link) for link in document["links"]]))
    parts += [_wrapped(line, 0) for line in disputed_lines(document["streams"])]
    streams = [s for s in document["streams"] if _is_shown(s)]
    if streams:
        parts.append(fixed(CORRECTIONS, [_correction(stream) for stream in streams]))
    if document["drops"]:
        parts.append(fixed(DROPS, [drop_row(fact) for fact in document["drops"]]))
    changed = [state for state in document["fragments"] if state["since"]]
    if changed:
        parts.append(fixed(STATES, [_state(state) for state in changed]))
    if document["bounds"]:
        parts.append(fixed(BOUNDS, [_bound(fact) for fact in document["bounds"]]))
    parts += [_wrapped(headroom_sentence(f), 0) for f in document["bounds"] if not f["is_kept"]]
    parts += load_parts(document["load"])
    parts += market_parts(document["market"])
    if document["sources"]:
        parts.append(fixed(SOURCES, [_source(source) for source in document["sources"]]))
        parts += [_unclaimed(source) for source in document["sources"] if source["unclaimed"]]
    if document["sinks"]:
        parts.append(fixed(SINKS, [_sink(sink) for sink in document["sinks"]]))
        parts += [_problem(sink) for sink in document["sinks"] if sink["problem"]]
    if document["quarantine"]["by_reason"]:
        reasons = document["quarantine"]["by_reason"]
        shown = [(q["stream"], q["reason"], f"{q['records']:,}") for q in reasons]
        parts.append(fixed(REASONS, shown))
    if document["last_step"]:
        parts.append(_last_step(document["last_step"]))
    if document["next"]:
        parts.append("it would do next:\n" + "\n".join(_wrapped(ln, 2) for ln in document["next"]))
    return "\n\n".join(parts)


def fixed(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns are as wide as declared, whatever is in them."""
    lines = [[c.name for c in columns], ["-" * c.width for c in columns], *rows]
    return "\n".join(
        "  ".join(_cell(text, c) for text, c in zip(line, columns, strict=True)).rstrip()
        for line in lines
    )


def _cell(text: str, column: Column) -> str:
    text = printable(text)
    if len(text) > column.width:
        tail = max((column.width - 1) // 3, 0)
        text = text[: column.width - 1 - tail] + "…" + text[len(text) - tail :]
    return text.rjust(column.width) if column.is_number else text.ljust(column.width)


def _wrapped(line: str, indent: int) -> str:
    blank = " " * indent
    return textwrap.fill(
        printable(line), WIDTH, initial_indent=blank, subsequent_indent=blank * 2,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _known(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    held = sum(lease["is_held"] for lease in document["leases"])
    causes = ", ".join(f"{n:,} {cause}" for cause, n in document["steps_by_cause"].items())
    return [
        ("home of", document["participant"]),
        ("folder", document["directory"]),
        ("catalog's clock", iso(floor_us(document["clock_ms"] * 1_000, SECOND_US))),
        ("participants known", ", ".join(document["participants"])),
        *((f"network {n['network']}", f"plan {n['plan']}") for n in document["networks"]),
        ("steps committed", f"{document['steps']:,}" + (f" ({causes})" if causes else "")),
        ("in quarantine", counted(document["quarantine"]["records"], "record")),
        ("storage", size_of(document["storage_bytes"])),
        ("leases", f"{held} held now" if held else "none held: nothing runs here now"),
    ]


def drop_row(fact: Mapping[str, Any]) -> Sequence[str]:
    """A row of the table of drops."""
    lost = fact["utility_lost"]
    return (
        fact["stream"],
        fact["producer"],
        fact["from"],
        fact["through"],
        f"{fact['buckets']:,}",
        f"{fact['share']:.0%}",
        "" if lost is None else f"-{lost:.2f}",
    )


def _lease(lease: Mapping[str, Any]) -> Sequence[str]:
    in_ms = lease["expires_in_ms"]
    ends = f"ends in {_span(in_ms)}" if lease["is_held"] else f"over {_span(-in_ms)}"
    return (
        lease["fragment"],
        str(lease["partition"]),
        lease["producer"],
        lease["lane"],
        str(lease["epoch"]),
        lease["holder"],
        ends,
    )


def _workers(workers: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    """A row for each partition, and one for a worker without any."""
    for worker in workers:
        busy = "gone" if worker["busy"] is None else f"{worker['busy']:.0%}"
        for one in worker["partitions"]:
            since = _span(one["placed_ms"]) if one["is_held"] else "not taken"
            yield one["fragment"], worker["worker"], busy, since, one["because"]
        if not worker["partitions"]:
            yield "", worker["worker"], busy, "", ""


def _stream(stream: Mapping[str, Any]) -> Sequence[str]:
    stable_us, tentative_us = stream["stable_through_us"], stream["tentative_through_us"]
    behind_ms = stream["behind_ms"]
    return (
        stream["stream"],
        stream["producer"],
        "not begun" if stable_us is None else _second(stable_us),
        "" if tentative_us is None else f"+{duration(tentative_us - stable_us)}",
        "ended" if stream["has_ended"] else "" if behind_ms is None else _span(behind_ms),
        str(stream["version"]),
        f"{stream['rows']:,}" if stream["rows"] < 10**8 else f"{stream['rows'] // 10**6:,} M",
    )


def _second(time_us: int) -> str:
    """A time to the second; the limits of event time, which are no seconds, in words."""
    is_limit = time_us in (BEGINNING_US, FOREVER_US)
    return iso(time_us if is_limit else floor_us(time_us, SECOND_US))


def disputed_lines(streams: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each stream that is disputed."""
    found = {s["stream"]: s["disputed_from"] for s in streams if s["disputed_from"]}
    return [
        f"{stream} is disputed from {from_} on, since producers of it, or of what it is computed "
        "from, disagree: see medusa explain diverged"
        for stream, from_ in found.items()
    ]


def _link(link: Mapping[str, Any]) -> Sequence[str]:
    is_client = link["side"] == "client"
    since_ms = link["since_ago_ms"] if is_client else link["answered_ago_ms"]
    state = (
        f"{link['state']} {_span(since_ms, units_max=1)}" if since_ms is not None else link["state"]
    )
    if not is_client:
        state = "" if since_ms is None else f"answered {_span(since_ms, units_max=1)} ago"
    return (
        link["partner"],
        "reads" if is_client else "serves",
        state,
        _pair(link["answer_ms"], link["answer_ms_max"]),
        _pair(link["delay_ms"], link["delay_ms_max"]),
        size_of(link["bytes_received"]),
        size_of(link["bytes_sent"]),
        f"{link['files']:,}",
    )


def _pair(median_ms: int | None, max_ms: int | None) -> str:
    """A median and a maximum."""
    return "" if median_ms is None or max_ms is None else f"{_short(median_ms)}/{_short(max_ms)}"


def _short(length_ms: int) -> str:
    seconds = length_ms / 1_000
    return f"{length_ms} ms" if length_ms < 1_000 else f"{seconds:.1f} s"


def _is_shown(stream: Mapping[str, Any]) -> bool:
    return bool(stream["tentative_through"] or stream["corrected_through"])


def _correction(stream: Mapping[str, Any]) -> Sequence[str]:
    return (
        stream["stream"],
        stream["producer"],
        stream["tentative_through"] or "nothing is tentative",
        stream["corrected_through"] or "nothing yet",
    )


def _state(state: Mapping[str, Any]) -> Sequence[str]:
    return (
        state["fragment"],
        str(state["partition"]),
        state["producer"],
        state["state"],
        f"{_span(state['since_ago_ms'])} ago",
        state["because"],
    )


def _bound(fact: Mapping[str, Any]) -> Sequence[str]:
    return (
        ", ".join(fact["streams"]),
        _span(fact["bound_ms"]),
        _span(fact["needed_ms"]),
        _span(fact["wait_ms"]),
        _span(fact["bound_ms"] - fact["needed_ms"]),
    )


def load_parts(load: Mapping[str, Any] | None) -> list[str]:
    """What the drivers of this home spend now, on which fragments, and what that costs."""
    if load is None:
        return []
    declared = load["declared"]
    parts = []
    if load["fragments"]:
        parts.append(fixed(LOADS, [_load(fragment, declared) for fragment in load["fragments"]]))
    kinds = ", ".join(f"{cores:.3f} {kind}" for kind, cores in load["kinds"].items())
    sentence = (
        f"load {load['carried']:.3f} CPU seconds per second"
        + (f" and {load['corrections']:.3f} of corrections" if load["corrections"] else "")
        + f", {load['unattributed_percent']:.1f} % unattributed, "
        + f"over the last {_span(load['window_ms'])}"
        + (f" ({kinds})" if kinds else "")
    )
    if declared is None:
        sentence += "; what it costs is not declared: see docs/load.md"
    else:
        sentence += (
            f"; threshold {declared['threshold']:g}"
            f"{', which it is above' if declared['is_above'] else ''}; the next unit costs "
            f"{declared['marginal_cost']:.4g} {declared['currency']} an hour"
        )
    return [*parts, _wrapped(sentence, 0)]


def _load(fragment: Mapping[str, Any], declared: Mapping[str, Any] | None) -> Sequence[str]:
    cost = fragment["marginal_cost"]
    return (
        fragment["fragment"],
        str(fragment["partition"]),
        f"{fragment['load']:.3f}",
        "" if cost is None or declared is None else f"{cost:.4g} {declared['currency']}",
        ", ".join(f"{cores:.3f} {cause}" for cause, cores in fragment["by_cause"].items()),
    )


def market_parts(market: Mapping[str, Any] | None) -> list[str]:
    """The round, what is offered and agreed, and how each contract stands."""
    if market is None:
        return []
    moves, offers = market["agreed_moves"], market["offers_open"]
    given = sum(move["is_given"] for move in moves)
    own = sum(offer["is_own"] for offer in offers)
    ago = market["opened_ago_ms"]
    sentence = (
        f"round {market['round']}" + ("" if ago is None else f", opened {_span(ago)} ago")
        + f"; offers open: {own} made, {len(offers) - own} to answer; "
        + f"agreed moves: {given} to give, {len(moves) - given} to take"
    )  # fmt: skip
    shown = [_market_contract(contract) for contract in market["contracts"]]
    moving = [_wrapped(_move(move), 0) for move in market["moves"]]
    return [_wrapped(sentence, 0), *moving, *([fixed(CONTRACTS, shown)] if shown else [])]


def _move(move: Mapping[str, Any]) -> str:
    where = f"to {move['partner']}" if move["is_given"] else f"from {move['partner']}"
    return (
        f"move {move['number']} of {move['fragment']} {where}: {move['state']} since "
        f"{_span(move['changed_ago_ms'])}: {move['because']}"
    )


def _market_contract(contract: Mapping[str, Any]) -> Sequence[str]:
    reason, silent_ms = contract["last_answer"], contract["silent_ms"]
    answer = "none yet"
    if reason is not None:
        answer = f"{reason}, {contract['accepted']} taken, {_span(contract['answered_ago_ms'])} ago"
    if silent_ms is not None:
        answer = f"silent for {_span(silent_ms)}"
    return (
        contract["contract"],
        f"{'pays' if contract['pays'] else 'is paid by'} {contract['partner']}",
        "" if contract["level"] is None else str(contract["level"]),
        "" if contract["price"] is None else f"{contract['price']} {contract['currency']}",
        answer,
    )


def _source(source: Mapping[str, Any]) -> Sequence[str]:
    reported_ms, behind_ms = source["told_ago_ms"], source["behind_ms"]
    counts = (source["waiting_files"], source["waiting_records"])
    shown = ["" if count is None else f"{count:,}" for count in counts]
    if reported_ms is None:
        return (source["stream"], source["kind"], *shown, "", "not yet")
    behind = _span(behind_ms) if source["has_waiting"] else "caught up"
    return (source["stream"], source["kind"], *shown, behind, f"{_span(reported_ms)} ago")


def _missing(document: Mapping[str, Any], fact: Mapping[str, Any]) -> str:
    from pipelines.homes.missing_partners import JOIN, missing_sentence

    sentence = missing_sentence(document["participant"], fact["partner"], fact["streams"])
    return _wrapped(f"PARTNER {fact['partner']} is missing: {sentence} ({JOIN})", 0)


def _unclaimed(source: Mapping[str, Any]) -> str:
    records = counted(source["unclaimed"], "record")
    return _wrapped(
        f"{records} came with the feed of {source['stream']} and had a value that none of its "
        "streams takes (since its driver was started)", 0,
    )  # fmt: skip


def _sink(sink: Mapping[str, Any]) -> Sequence[str]:
    through_us, reported_ms = sink["through_us"], sink["told_ago_ms"]
    behind_ms = sink["behind_ms"]
    caught_up = "ended" if sink["has_ended"] else "caught up"
    return (
        f"{sink['stream']}/{sink['sink']}",
        sink["kind"],
        "nothing yet" if through_us is None else _second(through_us),
        "" if behind_ms is None else _span(behind_ms) if behind_ms else caught_up,
        f"{sink['rows']:,}",
        "not yet" if reported_ms is None else f"{_span(reported_ms)} ago",
    )


def _alarm(alarm: Mapping[str, Any]) -> str:
    lasts = duration(alarm["lasts_ms"] * 1_000)
    return _wrapped(f"ALARM for {lasts}: {alarm['of']} is blocked: {alarm['because']}", 0)


def _problem(sink: Mapping[str, Any]) -> str:
    return _wrapped(f"{sink['stream']}/{sink['sink']} is blocked: {sink['problem']}", 0)


def _span(length_ms: int, *, units_max: int = 2) -> str:
    """A length of time that changes while one looks: no more digits than a glance can take."""
    seconds = length_ms / 1_000
    if seconds < 100:
        return f"{seconds:.1f} s"
    return duration(int(seconds) * SECOND_US, units_max=units_max)


def _last_step(step: Mapping[str, Any]) -> str:
    phases = ", ".join(f"{name} {ms:g} ms" for name, ms in step["phases_ms"].items())
    ago = _span(step["committed_ago_ms"])
    return "\n".join(
        [
            _wrapped(f"last step: {step['fragment']} ({step['cause']}), committed {ago} ago", 0),
            _wrapped(f"event time {step['from']} to {step['to']}", 2),
            _wrapped(
                f"{step['records_in']:,} records in, {step['records_out']:,} rows out; {phases}", 2
            ),
        ]
    )


def platform_text(document: Mapping[str, Any], now_s: float) -> str:
    """The facts of `platform_status` as lines."""
    phase = document["phase"]
    if phase == "lost":
        return (
            "airflow  its supervisor was lost: `medusa up` starts it again, `medusa down` ends it"
        )
    if phase in ("ended", "failed"):
        why = f" ({printable(document['sentence'])})" if document.get("sentence") else ""
        return f"airflow  not up{why}: `medusa up` starts it"
    where = f" at {document['url']}" if document.get("url") else ""
    doing = f" {document['doing']}" if document.get("doing") else ""
    lines = [f"airflow  {phase}{doing}{where}"]
    if document.get("database_answers") is False:
        lines.append("  its database does not answer")
    for one in document["components"]:
        since_s = int(now_s - (one["since_ms"] or 0) / 1_000)
        life = f", process {one['pid']}, for {since_s} s" if one["since_ms"] else ""
        again = f", started again {one['restarts']} times" if one["restarts"] else ""
        why = f" ({one['because']})" if one["condition"] != "runs" and one["because"] else ""
        lines.append(f"  {one['name']:<14} {one['condition']}{why}{life}{again}")
    return "\n".join([*lines, *(f"  {printable(note)}" for note in document.get("notes") or ())])
