"""`python -m bench page --soak MINUTES`: the operator's page stays open over homes that run.

The shipped federation runs. Three pages request their changes as browsers do: that of the
federation, of a stream, and of what to do. The memory, threads and handles of the site are read
every half minute. At the end the participants stop, and the page of each stream is compared with
the catalogs. Exit code 1 if memory has grown after the warm-up, if an answer failed, or if the page
is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil

from bench.dpc.waiting import until
from bench.federation import Federation, shipped_federation
from bench.page import EVERY_S, cpu_s, served
from medusa_core.names import Participant
from medusa_core.segments import Stability
from pipelines.homes.home import open_home

SAMPLE_S = 30.0
MIB = 2**20
GROWTH_MIB_MAX = 8.0
WARM_UP = 0.3
BEGUN_S_MAX = 300
FRESH_S = 60.0


@dataclass
class Watched:
    """What was seen of the site while pages were open."""

    samples: list[tuple[float, float, int, int]] = field(default_factory=list)
    """Seconds, MiB, threads, handles."""

    answers: int = 0
    unchanged: int = 0
    slowest_ms: float = 0.0
    cpu: float = 0.0

    def growth_mib(self) -> float:
        """Memory in the last third of the time after the warm-up, less that in its first third."""
        memory = [one[1] for one in self.samples]
        counted = memory[int(len(memory) * WARM_UP) :]
        third = max(len(counted) // 3, 1)
        return median(counted[-third:]) - median(counted[:third])


def soak(folder: Path, minutes: float) -> tuple[int, dict[str, Any]]:
    """Run, watch, compare; the exit code and all figures."""
    with shipped_federation(folder) as federation:
        for participant in federation.participants:
            federation.start(participant)
        home, stream = _computed(federation)
        pages = ("federation", f"streams?home={home}&stream={stream}", "to-do")
        with served(folder) as (url, site), httpx.Client(base_url=url, timeout=60) as client:
            watched = _watch(federation, client, site, pages, minutes * 60)
            federation.stop()
            time.sleep(FRESH_S)  # longer than a reading is kept
            wrong = _wrong(federation, client)
    growth_mib = watched.growth_mib()
    memory = [one[1] for one in watched.samples]
    print(f"{minutes:g} minutes, {len(pages)} pages open: {watched.answers:,} answers, "
          f"{watched.unchanged:,} of them unchanged, the slowest in {watched.slowest_ms:.0f} ms; "
          f"{watched.cpu:.2f} % of a core")  # fmt: skip
    _, _, threads, handles = watched.samples[-1]
    print(f"memory of the site {min(memory):.1f} to {max(memory):.1f} MiB, {growth_mib:+.1f} MiB "
          f"after the warm-up; threads {threads}, handles {handles}")  # fmt: skip
    print(*(wrong or ["each stream is shown as its catalog has it"]), sep="\n")
    figures = {**asdict(watched), "growth_mib": growth_mib, "wrong": wrong, "minutes": minutes}
    return int(bool(wrong) or growth_mib > GROWTH_MIB_MAX), figures


@dataclass(frozen=True)
class Final:
    """How far a line that a home wrote itself is final, by its catalog."""

    home: str
    stream: str
    is_derived: bool
    through_us: int
    length_us: int


def _final(federation: Federation) -> list[Final]:
    """The lines of all homes that have a final bucket."""
    found = []
    for name in federation.participants:
        with open_home(federation.settings, Participant(name)) as home:
            for line in home.catalog.lines():
                if line.producer.participant != name or line.stable_through_us is None:
                    continue
                segments = home.catalog.segments(line.stream.name, producer=line.producer)
                final = [s.range for s in segments if s.stability is not Stability.TENTATIVE]
                length_us = sum(one.to_us - one.from_us for one in final)
                found.append(Final(name, str(line.stream.name), line.stream.kind == "derived",
                                   line.stable_through_us, length_us))  # fmt: skip
    return found


def _computed(federation: Federation) -> tuple[str, str]:
    """A stream that one of the participants computes, once it has a final bucket."""
    found: list[Final] = []

    def is_computed() -> bool:
        found.extend(one for one in _final(federation) if one.is_derived)
        return bool(found)

    until(is_computed, "a stream was computed", federation, BEGUN_S_MAX)
    return found[0].home, found[0].stream


def _watch(
    federation: Federation, client: httpx.Client, site: psutil.Process, pages: Sequence[str],
    duration_s: float,
) -> Watched:  # fmt: skip
    """Request each page every `EVERY_S`, with the ETag of its last answer."""
    watched, etags = Watched(), dict.fromkeys(pages, "")
    began_s, cpu_before_s = time.monotonic(), cpu_s(site)
    sampled_s, number = 0.0, 0
    while (now_s := time.monotonic() - began_s) < duration_s:
        if now_s >= sampled_s:
            federation.check_all_run()
            memory = site.memory_info().rss / MIB
            watched.samples.append((now_s, memory, site.num_threads(), site.num_fds()))
            sampled_s += SAMPLE_S
        page = pages[number % len(pages)]
        path = f"{page}{'&' if '?' in page else '?'}part=1"
        asked_s = time.perf_counter()
        answer = client.get(path, headers={"If-None-Match": etags[page]} if etags[page] else {})
        assert answer.status_code in (200, 304), answer.text
        watched.slowest_ms = max(watched.slowest_ms, (time.perf_counter() - asked_s) * 1_000)
        watched.answers += 1
        watched.unchanged += answer.status_code == 304
        etags[page] = answer.headers["etag"]
        number += 1
        time.sleep(max(began_s + number * EVERY_S / len(pages) - time.monotonic(), 0))
    watched.cpu = (cpu_s(site) - cpu_before_s) / duration_s * 100
    return watched


def _wrong(federation: Federation, client: httpx.Client) -> list[str]:
    """What the page says of a stream that is not so, a sentence each."""
    shown = client.get("federation.json").json()
    wrong = [f"the page could not read {one}" for one in shown["problems"]]
    said = {
        (one["stream"], one["participant"]): one["stable_through_us"] for one in shown["streams"]
    }
    for one in _final(federation):
        through_us = said.get((one.stream, one.home))
        if through_us != one.through_us:
            wrong.append(f"{one.stream} is final through {one.through_us}, not {through_us}")
        counted_us = _counted_us(client, one)
        if counted_us != one.length_us:
            wrong.append(f"{one.stream} is final for {one.length_us} us, not {counted_us}")
    return wrong


def _counted_us(client: httpx.Client, one: Final) -> int:
    """The final buckets that a timeline over everything counts, as a length of event time."""
    path = f"streams.json?home={one.home}&stream={one.stream}&line={one.home}/0&span=all"
    document = client.get(path).json()
    totals = document["timeline"]["totals"]
    buckets = sum(totals[kind] for kind in ("stable", "corrected", "revised", "gap"))
    return int(buckets * document["width_us"])
