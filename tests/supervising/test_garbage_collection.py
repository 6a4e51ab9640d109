"""What collections of a process that runs for long visit, and what they free."""

from __future__ import annotations

import subprocess
import sys

BEGINNING = """
import gc, weakref
from pipelines.base.garbage_collection import collect_less_often, exempt_loaded_objects

class Cyclic:
    def __init__(self):
        self.me = self
"""


def assert_runs(script: str) -> None:
    """In a process of its own: what is exempt there stays in no other."""
    subprocess.run([sys.executable, "-c", BEGINNING + script], check=True)


def test_a_full_collection_skips_loaded_objects_and_frees_later_garbage() -> None:
    assert_runs("""
loaded = len(gc.get_objects())
exempt_loaded_objects()
later = weakref.ref(Cyclic())
assert later() is not None
assert len(gc.get_objects()) < loaded / 10
gc.collect()
assert later() is None
""")


def test_exempt_objects_that_have_become_garbage_are_freed_by_the_next_call() -> None:
    assert_runs("""
one = Cyclic()
exempt_loaded_objects()
seen = weakref.ref(one)
del one
gc.collect()
assert seen() is not None
exempt_loaded_objects()
assert seen() is None
""")


def test_a_command_begins_no_collection_after_a_few_thousand_new_objects() -> None:
    assert_runs("""
def collections_while_objects_are_made():
    before = gc.get_stats()[0]["collections"]
    made = [[] for _ in range(5_000)]
    return gc.get_stats()[0]["collections"] - before

assert collections_while_objects_are_made() > 0
collect_less_often()
gc.collect()
assert collections_while_objects_are_made() == 0
""")
