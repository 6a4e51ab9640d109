"""Which process runs which file of tests: two of them begin with those that use a Spark session.

A session costs its start and the compilation of what Spark runs in its first minutes: the fewer
processes have one, the less. The others begin at the other end, with tests that wait for processes
of their own, and all meet in between.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SPARK_PROCESSES = 2
LONGEST = ("mutation", "spark", "federation", "airflow", "hosting", "quality", "simulation")
"""Folders whose files take longest: begun last, they would keep one process while others rest."""


def sort_by_session(items: list[pytest.Item]) -> None:
    """Files that use the Spark session come first; what takes longest is at both ends."""
    of_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}

    def place(item: pytest.Item) -> tuple[bool, bool]:
        uses_spark = item.path in of_spark
        is_long = item.path.parent.name in LONGEST
        return not uses_spark, is_long != uses_spark

    items.sort(key=place)


class SparkScheduling(LoadFileScheduling):
    """A file goes to one process as a whole: to two of them from the front, to others from the end.

    Which files these are is known to the processes alone, which sort them.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node not in self.nodes[:SPARK_PROCESSES]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
