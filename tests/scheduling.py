"""Which process runs which file of tests: two of them begin with those that use a Spark session.

Each session starts a JVM, which loads and compiles Spark's classes again, so that few processes
should have one. The others begin at the other end of the list, with tests that start processes of
their own.
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

    The scheduler does not know which files use Spark: each process sorts them alike.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node not in self.nodes[:SPARK_PROCESSES]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
