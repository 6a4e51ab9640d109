"""The command: parse, measure, print the table."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.exchange.asking import reading
from bench.exchange.files import Copied, contents_of, copied_plainly, fetched
from bench.exchange.homes import ALPHA, producing, serving, two_homes
from bench.exchange.hostile import attacking
from bench.exchange.news import Delays, measure_news, warm_up
from bench.exchange.partners import admit, watching
from bench.machine import describe_machine
from bench.process_tree import cpu_seconds
from bench.processes import ContenderFailed
from bench.soak import own_folder
from medusa_core.errors import MedusaError
from pipelines.homes.exchange_addresses import read_address

PARTS = ("news", "idle", "files", "hostile", "partners")
PARTNERS = (0, 10, 100)
COST_RATIO_MAX = 1.2
P50_MS_MAX, P99_MS_MAX = 20.0, 100.0
IDLE_PERCENT_MAX = 0.2
RATE_RATIO_MIN = 0.7
SMALL_FILES_PER_S_MIN = 500.0
SLOWER_MAX = 2.0
HOSTILE = 200
LARGE_BYTES, SMALL_BYTES = 64 << 20, 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A figure and its bound; `sign` is <= or >=."""

    what: str
    measured: float
    sign: str
    bound: float

    @property
    def is_met(self) -> bool:
        """Whether the figure keeps it."""
        return self.measured <= self.bound if self.sign == "<=" else self.measured >= self.bound


class Measurement:
    """All parts over one kind of link, with TLS or without."""

    def __init__(self, options: argparse.Namespace, folder: Path, *, tls: bool) -> None:
        self._options = options
        self._folder = folder
        self._tls = tls
        self.name = "TLS" if tls else "plain"
        self.promises: list[Promise] = []
        self.document: dict[str, Any] = {"link": self.name}

    def run(self) -> None:
        """Start everything, measure the chosen parts."""
        options = self._options
        with ExitStack() as stack:
            self._settings, server = stack.enter_context(
                two_homes(self._folder / "homes", options.streams)
            )
            postmaster = (server.directory / "cluster" / "data" / "postmaster.pid").read_text()
            self._postmaster = int(postmaster.split()[0])
            self._alpha = stack.enter_context(producing(self._settings, options.streams))
            served = stack.enter_context(serving(self._settings, tls=self._tls))
            self._reader = stack.enter_context(reading(self._settings))
            self._server = served.pid
            if {"news", "idle", "hostile", "partners"} & set(options.only):
                self._reader.ask("import")
                warm_up(self._alpha, self._reader, options.streams)
            for part in PARTS:
                if part in options.only:
                    getattr(self, f"_{part}")()

    def _cpu_s(self) -> dict[str, float]:
        return {
            "server": cpu_seconds([self._server]),
            "Postgres": cpu_seconds([self._postmaster]),
            "reader": cpu_seconds([self._reader.pid]),
        }

    def _news(self) -> None:
        before = self._cpu_s()
        delays = self._delays(self._options.commits, seed=1)
        cpu_ms = {
            name: (now - before[name]) * 1_000 / len(delays.ms)
            for name, now in self._cpu_s().items()
        }
        self.document["news"] = {"ms": delays.ms, "cpu_ms_of_a_commit": cpu_ms}
        parts = ", ".join(f"{name} {ms:.1f}" for name, ms in cpu_ms.items())
        print(f"{self.name}: news of {len(delays.ms)} commits: {_text(delays)}")
        print(f"  CPU ms of a commit, with its import: {parts}")
        self._promise("news p50 ms", delays.part(50), "<=", P50_MS_MAX)
        self._promise("news p99 ms", delays.part(99), "<=", P99_MS_MAX)

    def _delays(self, commits: int, seed: int) -> Delays:
        delays = measure_news(
            self._alpha, self._reader, streams=self._options.streams, commits=commits,
            rate=self._options.rate, seed=seed,
        )  # fmt: skip
        self._reader.ask("settle")
        return delays

    def _idle(self) -> None:
        """With the link, and without it: what the reader's look at its own home costs."""
        percent: dict[str, dict[str, float]] = {}
        for mode in ("alone", "import"):
            self._reader.ask(mode)
            if mode == "import":
                # Until its long poll has answered, the reader requests all lines.
                self._reader.ask("settle")
            time.sleep(min(5.0, self._options.idle))
            before, began_s = self._cpu_s(), time.monotonic()
            time.sleep(self._options.idle)
            seconds = time.monotonic() - began_s
            percent[mode] = {
                name: (now - before[name]) * 100 / seconds for name, now in self._cpu_s().items()
            }
        self.document["idle_percent"] = percent
        for mode, found in percent.items():
            parts = ", ".join(f"{name} {one:.2f}" for name, one in found.items())
            print(f"{self.name}: idle, reader {mode}: % of a core: {parts}")
        # The whole server, and what the link adds to the reader and to Postgres.
        link = percent["import"]["server"] + sum(
            max(percent["import"][name] - percent["alone"][name], 0.0)
            for name in ("Postgres", "reader")
        )
        self._promise("idle link, % of a core", link, "<=", IDLE_PERCENT_MAX)

    def _files(self) -> None:
        self._reader.ask("stop")
        processes = [self._server, self._reader.pid, self._postmaster]
        large = self._alpha.stored(contents_of(self._options.large, self._options.large_bytes, 1))
        rates: list[tuple[Copied, Copied]] = []
        for turn in range(self._options.turns):
            plain = copied_plainly(self._alpha.home.storage, large, self._to(f"plain{turn}"))
            ours = fetched(self._reader, large, self._to(f"ours{turn}"), processes)
            rates.append((plain, ours))
        self._show_files("64 MB", rates)
        ratio = median(ours.mib_per_s / plain.mib_per_s for plain, ours in rates)
        self._promise("64 MB files, rate / plain copy", ratio, ">=", RATE_RATIO_MIN)
        small = self._alpha.stored(contents_of(self._options.small, SMALL_BYTES, 2))
        rates = []
        for turn in range(self._options.turns):
            plain = copied_plainly(self._alpha.home.storage, small, self._to(f"plains{turn}"))
            ours = fetched(self._reader, small, self._to(f"small{turn}"), processes)
            rates.append((plain, ours))
        self._show_files("20 KB", rates)
        per_s = median(ours.files / ours.seconds for _, ours in rates)
        self._promise("20 KB files a second", per_s, ">=", SMALL_FILES_PER_S_MIN)

    def _show_files(self, what: str, rates: Sequence[tuple[Copied, Copied]]) -> None:
        self.document[what] = [{"plain": asdict(p), "ours": asdict(o)} for p, o in rates]
        for name, copies in (
            ("plain copy", [plain for plain, _ in rates]),
            ("exchange", [ours for _, ours in rates]),
        ):
            middle = sorted(copies, key=lambda one: one.seconds)[len(copies) // 2]
            print(
                f"{self.name}: {what}: {name}: {middle.mib_per_s:.0f} MiB/s, "
                f"{middle.files / middle.seconds:.0f} files/s, "
                f"CPU {middle.cpu_s / middle.files * 1_000:.2f} ms a file"
            )

    def _hostile(self) -> None:
        self._reader.ask("import")
        self._reader.ask("settle")
        url = read_address(self._settings.directory, ALPHA).url
        ratios, all_ms = [], []
        commits = self._options.hostile_commits
        for turn in range(self._options.turns):
            alone = self._delays(commits, seed=10 + turn)
            with attacking(url, self._options.hostile):
                time.sleep(min(3.0, self._options.idle))
                beside = self._delays(commits, seed=20 + turn)
            ratios.append(beside.part(50) / alone.part(50))
            all_ms.append({"alone": alone.ms, "beside": beside.ms})
            print(f"{self.name}: alone: {_text(alone)}; hostile: {_text(beside)}")
        self.document["hostile"] = all_ms
        self._promise("news p50, hostile / alone", median(ratios), "<=", SLOWER_MAX)

    def _partners(self) -> None:
        """With more partners that wait for the same news: what each of them costs the server."""
        options = self._options
        names = admit(self._settings, max(PARTNERS), options.streams)
        self._reader.ask("import")
        self._reader.ask("settle")
        cost_ms: dict[int, float] = {}
        for count in PARTNERS:
            with watching(self._settings, names[:count]):
                before = self._cpu_s()["server"]
                delays = self._delays(options.hostile_commits, seed=30)
                cost_ms[count] = (self._cpu_s()["server"] - before) * 1_000 / len(delays.ms)
            each = (cost_ms[count] - cost_ms[0]) / count if count else 0.0
            self.document[f"{count} partners"] = {"ms": delays.ms, "cpu_ms": cost_ms[count]}
            print(
                f"{self.name}: {count} more partners: {_text(delays)}; CPU of the server "
                f"{cost_ms[count]:.1f} ms a commit, {each:.2f} ms for each partner"
            )
        few, many = PARTNERS[1:]
        of_few, of_many = ((cost_ms[count] - cost_ms[0]) / count for count in (few, many))
        if min(of_few, of_many) <= 0:
            raise ContenderFailed("the machine is too busy: further partners seem to cost nothing")
        ratio = of_many / of_few
        self._promise(f"CPU of a partner, {many} / {few}", ratio, "<=", COST_RATIO_MAX)

    def _to(self, name: str) -> Path:
        return self._folder / name

    def _promise(self, what: str, measured: float, sign: str, bound: float) -> None:
        self.promises.append(
            Promise(what=f"{self.name}: {what}", measured=measured, sign=sign, bound=bound)
        )


def _text(delays: Delays) -> str:
    parts = " ".join(f"p{part} {delays.part(part):.1f}" for part in (50, 90, 99))
    return f"{parts} ms"


def lines_of(promises: Sequence[Promise]) -> Iterator[str]:
    """The table."""
    yield f"{'promise':48} {'measured':>9}    bound"
    for one in promises:
        verdict = "met" if one.is_met else "MISSED"
        yield f"{one.what:48} {one.measured:9.2f}  {one.sign} {one.bound:g}  {verdict}"


def main(arguments: Sequence[str]) -> int:
    """Parse, run, judge."""
    parser = argparse.ArgumentParser(prog="bench exchange")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--links", nargs="+", choices=("plain", "TLS"), default=["plain", "TLS"])
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--commits", type=int, default=300, help="whose news are timed")
    parser.add_argument("--rate", type=float, default=10.0, help="commits a second, on average")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds without an event")
    parser.add_argument("--large", type=int, default=4, help="how many files of 64 MB")
    parser.add_argument("--large-bytes", type=int, default=LARGE_BYTES, help="their size")
    parser.add_argument("--small", type=int, default=500, help="how many files of 20 KB")
    parser.add_argument(
        "--turns", type=int, default=3, help="how many times each comparison is run"
    )
    parser.add_argument("--hostile", type=int, default=HOSTILE, help="hostile connections")
    parser.add_argument("--hostile-commits", type=int, default=100, help="commits of each turn")
    parser.add_argument("--folder", type=Path, help="where homes and copies are")
    parser.add_argument("--json", type=Path, help="where the samples go")
    options = parser.parse_args(arguments)
    measured: list[Measurement] = []
    try:
        for link in options.links:
            with own_folder(options.folder) as folder:
                measured.append(Measurement(options, folder, tls=link == "TLS"))
                measured[-1].run()
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 4
    promises = [promise for one in measured for promise in one.promises]
    if options.json is not None:
        document = {"machine": describe_machine(), "links": [one.document for one in measured]}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    for line in lines_of(promises):
        print(line)
    return 0 if all(promise.is_met for promise in promises) else 1
