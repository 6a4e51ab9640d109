"""`python -m bench metering`: the cost of metering steps.

Two drivers of one home take turns, window by window: one is metered as `medusa run` is, the other
is not. The meter's own part is timed as well, call by call: medians of whole steps differ by more
than that from run to run. A scan for new and ended processes is timed separately.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.product import ONE_WINDOW, PARTICIPANT, Site
from bench.sliding import scratch
from bench.workload import Workload, start_us
from medusa_core.loads import ActivityKind, FragmentSpan
from pipelines.base.cpu_meter import CpuMeter
from pipelines.base.process_tree import RESCAN_S, ProcessTree
from pipelines.base.settings import Settings
from pipelines.homes.home import make_home
from pipelines.language.check import check_network

PART_MAX = 0.01
"""What is promised: of a step, measuring it takes this part at most."""


class TimedMeter(CpuMeter):
    """The meter, and how long the loop was kept by it."""

    own_s = 0.0

    def did(self, *works: FragmentSpan, kind: ActivityKind = ActivityKind.UNATTRIBUTED) -> None:
        """See `Meter`."""
        began_s = time.perf_counter()
        super().did(*works, kind=kind)
        self.own_s += time.perf_counter() - began_s

    def look(self) -> None:
        """See `Meter`."""
        began_s = time.perf_counter()
        super().look()
        self.own_s += time.perf_counter() - began_s


def measure(folder: Path, workload: Workload) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of each counted step without and with a meter, and of the meter's own."""
    from pipelines.spark.session import close_session, open_session
    from pipelines.spark.step import StepEngine

    plain, metered, own = [], [], []
    with ExitStack() as stack:
        session = open_session(folder / "spark")
        stack.callback(close_session, session)
        settings = Settings(catalog_url=None, directory=folder / "home", test_data=folder)
        home = stack.enter_context(make_home(settings, PARTICIPANT, keep=False))
        checked = check_network(workload.network)
        engine = StepEngine(session, home.storage, checked)
        site = stack.enter_context(Site(home.catalog, home.storage, checked, lambda: engine))
        site.land(workload, range(workload.windows), start_us(0))
        site.close_windows()
        meter = TimedMeter(home.catalog.record_load, driver="bench")
        stack.callback(meter.close)
        drivers = [
            site.driver(site.fragments, ONE_WINDOW),
            site.driver(site.fragments, ONE_WINDOW, meter),
        ]
        for window in range(workload.warm_up + workload.steps):
            if window % 2:
                meter.did()  # what the other driver spent is not this one's
            meter.own_s, began_s = 0.0, time.perf_counter()
            (_,) = drivers[window % 2].tick()
            if window % 2:
                meter.look()
            spent_ms = (time.perf_counter() - began_s) * 1_000
            if window >= workload.warm_up:
                (metered if window % 2 else plain).append(spent_ms)
                if window % 2:
                    own.append(meter.own_s * 1_000)
        scans = []
        tree = ProcessTree()
        for _ in range(20):
            began_s = time.perf_counter()
            tree.rescan()
            scans.append((time.perf_counter() - began_s) * 1_000)
        print(
            f"  a scan for processes {median(scans):.2f} ms, {RESCAN_S:g} s apart at least: "
            f"{median(scans) / RESCAN_S / 10:.2f} % of the time"
        )
    return plain, metered, own


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 0 also where the promise is missed, as for the other comparisons."""
    parser = argparse.ArgumentParser(prog="bench metering", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000, help="records per window")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=100)
    options = parser.parse_args(arguments)
    workload = Workload(
        query="three", records=options.records, steps=options.steps, warm_up=options.warm_up
    )
    print(f"{options.records:,} records per window, {options.steps // 2} steps of each, p50 ms")
    with scratch() as folder:
        plain, metered, own = measure(folder, workload)
    part = sum(own) / sum(metered)
    print(f"  without a meter {median(plain):8.2f}")
    print(f"  with a meter    {median(metered):8.2f}   ratio {median(metered) / median(plain):.3f}")
    met = "met" if part <= PART_MAX else "MISSED"
    print(
        f"  its own calls   {median(own):8.3f}   {part:.2%} of the step, scans included, "
        f"promised <= {PART_MAX:.0%}: {met}"
    )
    return 0
