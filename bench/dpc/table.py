"""The figures as tables in Markdown, with those of the originals' formulas for the same cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from bench.dpc import originals
from bench.dpc.keeping import FAILED
from bench.dpc.metrics import CellFigures, figures_of
from bench.dpc.replica_figures import switch_of
from bench.dpc.scenario import DEPTHS, POLICIES, POLL_S, X_S, Chain, Planned, ReplicaSet, chains
from bench.dpc.simulated import NOT_SIMULATED
from bench.dpc.targets import POLLS_MAX, TAKEN_S_MAX, Verdict, verdicts_of_cell

Cells = Mapping[str, Any]
_NAMES = ("cell", "policy", "Delay_new", "Proc_new (theirs)", "per hop", "N_tentative (theirs)",
          "buckets", "first correction", "reconciled", "load", "verdict")  # fmt: skip
_REPLICAS = ("cell", "lost", "Delay_new", "Proc_new (theirs)", "N_tentative (theirs)", "buckets",
             "switch", "taken", "read again", "silence", "first correction", "reconciled", "whole",
             "load", "verdict")  # fmt: skip
_GROWTH = ("policy", "depth", "Proc_new, worst", "theirs, formula", "Delay_new, worst", "D")
_EVERY = ("cell", "D", "Delay_new", "Proc_new per hop", "tentative buckets", "first correction",
          "reconciled", "whole")  # fmt: skip
_SIMULATED = ("id", "cells", "whole and equal", "Delay_new / D, worst", "Proc_new", "theirs")


def live_lines(
    cells: Cells, *, depths: Sequence[int] = DEPTHS, delay_ms: float = 0.0
) -> Iterator[str]:
    """A table for each depth, and the promises in words."""
    yield (
        f"X = {X_S:g} s, bucket 1 s, poll 0.5 s; seconds; in brackets what the originals' formulas "
        "say (papers of 2005 and 2008, D = X at each node)."
    )
    for depth in depths:
        of_depth = [replace(chain, delay_ms=delay_ms) for chain in chains() if chain.depth == depth]
        rows = [row for chain in of_depth for row in _rows(chain, cells)]
        if rows:
            yield ""
            yield f"**Depth {depth}{_of_links(delay_ms)}**"
            yield ""
            yield from markdown(_NAMES, rows)


def _of_links(delay_ms: float) -> str:
    return f", {delay_ms:g} ms each way on every link" if delay_ms else ""


def replica_lines(cells: Cells, *, delay_ms: float = 0.0) -> Iterator[str]:
    """D12: what losing one of two replicas, or both, costs who reads them."""
    yield f"**Replicas (D12): two, and one that reads them{_of_links(delay_ms)}**"
    yield ""
    replicas = ReplicaSet(delay_ms=delay_ms)
    rows = [_replica_row(name, kept) for name, kept in _kept_of(replicas, cells)]
    if not rows:
        option = f"--delay-ms {delay_ms:g} " if delay_ms else ""
        yield f'not run yet: `make dpc ARGS="{option}--only {replicas.name}"`'
        return
    yield from markdown(_REPLICAS, rows)
    yield ""
    yield (
        f"Switch: from the loss of the replica that was read to the first bucket of the other; "
        f"theirs is below {POLLS_MAX} polls, {POLLS_MAX * POLL_S:g} s. Taken: the same, but from "
        "the time at which that bucket would usually have been read, if that is later; at most "
        f"{TAKEN_S_MAX:g} s. Read again: from the heal, where both were lost. Silence: the longest "
        "time without a bucket that was read. Whole: from the heal or new start until the one that "
        "was lost has everything, too."
    )


def _replica_row(name: str, kept: Mapping[str, Any]) -> Sequence[str]:
    if FAILED in kept:
        return (name, *[""] * (len(_REPLICAS) - 2), f"FAILED: {kept[FAILED]}")
    figures, switch = figures_of(kept["figures"]), switch_of(kept["switch"])
    end, is_both = figures.end, switch.again_s is not None
    theirs, rows = _theirs(ReplicaSet().policy, 1, figures)
    return (
        name,
        ", ".join(switch.lost),
        f"{end.delay_new_s:.2f}",
        f"{end.proc_new_s:.2f}" + (f" ({theirs:.1f})" if is_both else ""),
        f"{end.tentative_rows}" + (f" ({rows:.0f})" if is_both else " (0)"),
        f"{end.tentative_buckets}",
        _seconds(switch.switch_s),
        _seconds(switch.taken_s),
        _seconds(switch.again_s),
        f"{switch.silence_s:.2f}",
        _seconds(end.first_correction_s),
        _seconds(end.reconciliation_s),
        f"{switch.whole_s:.1f}",
        _load(kept),
        _judged(kept),
    )


def _kept_of(one: Planned, cells: Cells) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The cells of a federation that were run, by their names, in their order."""
    for cell in one.cells:
        kept = cells.get(f"{one.name}/{cell.name}")
        if kept is not None:
            yield cell.name, kept


def _load(kept: Mapping[str, Any]) -> str:
    return f"{kept['machine']['load_after'][0]:.1f}"


def _judged(kept: Mapping[str, Any]) -> str:
    return "; ".join(v.told for v in verdicts_of_cell(kept) if not v.is_met) or "met"


def _rows(chain: Chain, cells: Cells) -> Iterator[Sequence[str]]:
    for name, kept in _kept_of(chain, cells):
        if FAILED in kept:
            rest = [""] * (len(_NAMES) - 3)
            yield (name, chain.policy, *rest, f"FAILED: {kept[FAILED]}")
            continue
        figures = figures_of(kept["figures"])
        end, head = figures.end, figures.hops[0]
        is_single = name.startswith("F=")
        theirs, rows = _theirs(chain.policy, chain.depth, figures)
        yield (
            name,
            chain.policy,
            f"{end.delay_new_s:.2f}",
            f"{end.proc_new_s:.2f}" + (f" ({theirs:.1f})" if is_single else ""),
            " ".join(f"{hop.proc_new_s:.2f}" for hop in figures.hops),
            f"{end.tentative_rows}" + (f" ({rows:.0f})" if is_single else ""),
            f"{end.tentative_buckets}",
            _seconds(head.first_correction_s),
            _seconds(end.reconciliation_s),
            _load(kept),
            _judged(kept),
        )


def _theirs(policy: str, depth: int, figures: CellFigures) -> tuple[float, float]:
    """Proc_new (s) and N_tentative as their formulas have it for the same failure."""
    end, rest_s = figures.end, figures.end.proc_normal_s
    rows = originals.tentative_rows(
        policy, figures.failure_s, end.reconciliation_s or 0.0, figures.rate_left_per_s, X_S
    )
    if originals.is_masked(figures.failure_s, X_S):
        return figures.failure_s + rest_s, rows
    return originals.proc_new_s(policy, depth, X_S, rest_s), rows


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def missed_of(cells: Cells) -> list[tuple[str, Verdict]]:
    """Every promise that a live cell has missed."""
    return [
        (name, verdict)
        for name, kept in cells.items()
        if "figures" in kept
        for verdict in verdicts_of_cell(kept)
        if not verdict.is_met
    ]


def simulated_lines(cells: Cells) -> Iterator[str]:
    """One line for each experiment: how many cells held, the worst of them, what theirs was."""
    rows = []
    for original in originals.ORIGINALS:
        mine = {n: c for n, c in cells.items() if n.startswith(f"simulated/{original.id}/")}
        if not mine:
            continue
        good = {n: c for n, c in mine.items() if FAILED not in c}
        whole = sum(c["is_whole"] for c in good.values())
        worst = max((c["end"]["delay_new_s"] / c["bound_s"] for c in good.values()), default=0.0)
        proc = [c["end"]["proc_new_s"] for c in good.values()]
        span = f"{min(proc):.2f} to {max(proc):.2f}, median {median(proc):.2f}" if proc else "-"
        theirs = "" if original.proc_new_s is None else f"Proc_new {original.proc_new_s:g}; "
        rows.append(
            (original.id, f"{len(mine)}", f"{whole}", f"{worst:.2f}", span, theirs + original.told)
        )
    if rows:
        yield from markdown(_SIMULATED, rows)
        of = sorted({c["steps"] for n, c in cells.items() if n.startswith("simulated/") and
                     "steps" in c})  # fmt: skip
        yield ""
        yield f"Steps as long as {' and '.join(of) or 'given'} ones."
        yield "Not simulated: " + "; ".join(f"{k}: {v}" for k, v in NOT_SIMULATED.items()) + "."
    for name, cell in cells.items():
        if name.startswith("simulated/") and FAILED in cell:
            yield f"FAILED {name}: {cell[FAILED]}"
        elif name.startswith("simulated/") and cell["end"]["delay_new_s"] > cell["bound_s"]:
            by_s = cell["end"]["delay_new_s"] - cell["bound_s"]
            yield f"MISSED {name}: Delay_new is {by_s:.2f} s above D"


def growth_lines(cells: Cells) -> Iterator[str]:
    """D4: the greatest Proc_new of every depth and policy, beside what their formulas say."""
    rows = []
    for policy in POLICIES:
        for depth in range(1, 5):
            prefix = f"simulated/D4/n={depth} {policy} "
            mine = [c for n, c in cells.items() if n.startswith(prefix) and FAILED not in c]
            if not mine:
                continue
            worst = max(mine, key=lambda c: c["end"]["proc_new_s"])
            rest_s, bound_s = worst["end"]["proc_normal_s"], worst["bound_s"]
            theirs = originals.proc_new_s(policy, depth, bound_s, rest_s)
            delay = max(c["end"]["delay_new_s"] for c in mine)
            rows.append((policy, f"{depth}", f"{worst['end']['proc_new_s']:.2f}", f"{theirs:.2f}",
                         f"{delay:.2f}", f"{bound_s:g}"))  # fmt: skip
    if rows:
        yield from markdown(_GROWTH, rows)


def every_simulated_line(cells: Cells) -> Iterator[str]:
    """All simulated cells, for the file."""
    rows = []
    for name, cell in cells.items():
        if not name.startswith("simulated/") or FAILED in cell:
            continue
        end = cell["end"]
        rows.append((
            name.removeprefix("simulated/"), f"{cell['bound_s']:g}", f"{end['delay_new_s']:.2f}",
            " ".join(f"{proc_s:.2f}" for proc_s in cell["proc_new_s"]),
            f"{end['tentative_buckets']}", _seconds(cell["first_correction_s"]),
            _seconds(end["reconciliation_s"]), "yes" if cell["is_whole"] else "NO",
        ))  # fmt: skip
    if rows:
        yield from markdown(_EVERY, sorted(rows))


def markdown(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table whose cells cannot end it."""
    yield "| " + " | ".join(names) + " |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in row) + " |"
