"""A process tree counts every process once: alive, ended, or with a number that was used before."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.base.process_tree import ProcessCpu, ProcessTree

ROOT = 6_000_000
"""Beyond any number that a system gives to a process."""

TICK_NS = 10_000_000


@dataclass
class Process:
    parent: int
    started: int
    name: str
    own: int = 0
    ended: int = 0


@dataclass
class System:
    """Processes with accounts; `end` lets the parent wait for its child, `leave` does not."""

    processes: dict[int, Process] = field(default_factory=dict)
    clock: int = 0
    ends_during_a_scan: int | None = None

    def start(self, pid: int, parent: int = 1, name: str = "a name") -> None:
        self.clock += 1
        self.processes[pid] = Process(parent, self.clock, name)

    def spend(self, pid: int, ticks: int) -> None:
        self.processes[pid].own += ticks

    def end(self, pid: int) -> None:
        for child in self.children(pid):
            self.end(child)
        gone = self.processes.pop(pid)
        if gone.parent in self.processes:
            self.processes[gone.parent].ended += gone.own + gone.ended

    def leave(self, pid: int) -> None:
        self.processes[pid].parent = 1

    def children(self, pid: int) -> list[int]:
        return [child for child, process in self.processes.items() if process.parent == pid]

    def tree(self, root: int) -> Iterator[ProcessCpu]:
        seen = self.process(root)
        if seen is not None:
            yield seen
            if self.ends_during_a_scan is not None:
                ended, self.ends_during_a_scan = self.ends_during_a_scan, None
                self.end(ended)
            for child in self.children(root):
                yield from self.tree(child)

    def process(self, pid: int) -> ProcessCpu | None:
        found = self.processes.get(pid)
        return found and ProcessCpu(
            pid=pid,
            parent=found.parent,
            started=found.started,
            name=found.name,
            own_ns=found.own * TICK_NS,
            ended_ns=found.ended * TICK_NS,
        )

    def own_ns(self, pid: int) -> int | None:
        found = self.processes.get(pid)
        return found and found.own * TICK_NS


@contextmanager
def a_system() -> Iterator[tuple[System, ProcessTree]]:
    """A system with one process that has spent something before it is looked at."""
    system = System()
    system.start(ROOT)
    system.spend(ROOT, 1_000)
    yield system, ProcessTree(ROOT, rescan_s=0, processes=system)


def ticks(tree: ProcessTree) -> float:
    return tree.spent_ns() / TICK_NS


def test_what_was_spent_before_the_first_look_is_not_counted() -> None:
    with a_system() as (system, tree):
        assert ticks(tree) == 0
        system.spend(ROOT, 5)
        assert ticks(tree) == 5


def test_a_child_is_counted_while_it_lives_and_not_again_when_it_has_ended() -> None:
    with a_system() as (system, tree):
        system.start(ROOT + 1, ROOT)
        system.spend(ROOT + 1, 7)
        assert ticks(tree) == 7
        system.spend(ROOT + 1, 3)
        system.end(ROOT + 1)
        assert ticks(tree) == 10
        assert ticks(tree) == 10


def test_a_child_that_ends_while_a_scan_is_between_it_and_its_parent_is_counted_once() -> None:
    with a_system() as (system, tree):
        system.start(ROOT + 1, ROOT)
        system.spend(ROOT + 1, 7)
        assert ticks(tree) == 7
        system.spend(ROOT + 1, 3)
        system.ends_during_a_scan = ROOT + 1
        assert ticks(tree) == 7
        assert ticks(tree) == 10
        assert ticks(tree) == 10


def test_a_child_whose_parent_does_not_wait_takes_nothing_from_what_others_spend_later() -> None:
    with a_system() as (system, tree):
        system.start(ROOT + 1, ROOT)
        system.spend(ROOT + 1, 7)
        assert ticks(tree) == 7
        del system.processes[ROOT + 1]
        assert ticks(tree) == 7
        assert ticks(tree) == 7
        system.start(ROOT + 2, ROOT)
        system.spend(ROOT + 2, 9)
        system.end(ROOT + 2)
        assert ticks(tree) == 16


def test_a_child_that_started_and_ended_between_scans_is_counted() -> None:
    with a_system() as (system, tree):
        system.start(ROOT + 1, ROOT)
        system.start(ROOT + 2, ROOT + 1)
        system.spend(ROOT + 2, 4)
        system.end(ROOT + 1)
        assert ticks(tree) == 4


def test_a_virtual_machine_that_took_anothers_place_is_counted_beside_it() -> None:
    with a_system() as (system, tree):
        system.start(ROOT + 1, ROOT, "java")
        system.start(ROOT + 2, ROOT + 1, "python3")
        system.spend(ROOT + 1, 50)
        system.spend(ROOT + 2, 20)
        assert ticks(tree) == 70
        system.end(ROOT + 1)
        system.start(ROOT + 3, ROOT, "java")
        system.spend(ROOT + 3, 8)
        assert ticks(tree) == 78


def test_an_id_that_is_given_again_is_another_process() -> None:
    with a_system() as (system, tree):
        system.start(ROOT + 1, ROOT)
        system.spend(ROOT + 1, 50)
        assert ticks(tree) == 50
        system.end(ROOT + 1)
        system.start(ROOT + 1, ROOT)
        system.spend(ROOT + 1, 60)
        assert ticks(tree) == 110
        system.end(ROOT + 1)
        system.start(ROOT + 1, 1)
        system.spend(ROOT + 1, 500)
        assert ticks(tree) == 110, "and somebody else's is none of ours"


def test_a_server_for_others_is_not_counted_nor_what_it_started_nor_when_it_has_ended() -> None:
    with a_system() as (system, tree):
        system.start(ROOT + 1, ROOT, "postgres")
        system.start(ROOT + 2, ROOT + 1, "postgres: io")
        system.spend(ROOT + 1, 50)
        system.spend(ROOT + 2, 70)
        assert ticks(tree) == 0
        system.end(ROOT + 1)
        assert ticks(tree) == 0


def test_a_child_that_leaves_the_tree_keeps_what_it_has_spent_so_far_in_the_count() -> None:
    with a_system() as (system, tree):
        system.start(ROOT + 1, ROOT)
        system.spend(ROOT + 1, 30)
        assert ticks(tree) == 30
        system.leave(ROOT + 1)
        system.spend(ROOT, 2)
        assert ticks(tree) == 32


@given(st.integers(0, 10**9))
@example(7601)  # an id that was given again is the parent of one that has ended
def test_whatever_comes_and_goes_everything_is_counted_once(seed: int) -> None:
    chance = random.Random(seed)
    with a_system() as (system, tree):
        spent = 0
        for _ in range(chance.randint(1, 25)):
            here = [pid for pid in system.processes if pid != ROOT]
            match chance.choice(("start", "spend", "spend", "end", "look")):
                case "start":
                    # Few ids, so that they are given again.
                    pid = ROOT + chance.randint(1, 4)
                    if pid not in system.processes:
                        system.start(pid, chance.choice([ROOT, *here]))
                case "spend":
                    spent += 1
                    system.spend(chance.choice([ROOT, *here]), 1)
                case "end" if here:
                    system.end(chance.choice(here))
                case _:
                    assert ticks(tree) == spent
        assert ticks(tree) == spent


CHILDREN = """
import subprocess, sys, time
def spin(s):
    end = time.process_time() + s
    while time.process_time() < end: pass
SPIN = "import sys, time\\nend = time.process_time() + float(sys.argv[1])\\n" \\
    "while time.process_time() < end: pass\\nprint(time.process_time(), flush=True)\\n" \\
    "sys.stdin.readline()"
children, told = [], 0.0
for line in sys.stdin:
    word, *more = line.split()
    if word == "spin":
        spin(float(more[0]))
    elif word == "child":
        child = subprocess.Popen([sys.executable, "-S", "-c", SPIN, more[0]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        told += float(child.stdout.readline())
        children.append(child)
    elif word == "wait":
        children.pop().communicate(b"\\n")
    print(time.process_time() + told, flush=True)
"""


@pytest.mark.long
def test_real_processes_are_counted_as_the_system_counts_them() -> None:
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", CHILDREN],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None

    def do(words: str) -> float:
        """What the processes say that they have spent so far: more than asked for, where the
        machine stood still meanwhile."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{words}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    try:
        before = do("spin 0")
        tree = ProcessTree(process.pid, rescan_s=0)
        asked, seen = 0.0, [0.0]
        for words in ("spin 0.2", "child 0.3", "child 0.2", "wait", "spin 0.1", "wait"):
            told = do(words) - before
            asked += float(words.partition(" ")[2] or 0)
            seen.append(tree.spent_ns() / 1e9)
            assert told >= asked
            # To end a child costs something, too; ticks are hundredths of a second.
            assert told - 0.1 <= seen[-1] <= told + 0.3, (words, told, seen)
        assert seen == sorted(seen)
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


def test_a_process_that_is_gone_spends_nothing() -> None:
    tree = ProcessTree(ROOT + 99, rescan_s=0)
    first = tree.spent_ns()
    assert tree.spent_ns() >= first


def test_a_look_between_two_scans_sees_what_known_processes_have_spent() -> None:
    tree = ProcessTree(rescan_s=3_600)
    before = tree.spent_ns()
    total = 0
    while tree.spent_ns() - before < 20_000_000:
        total += sum(range(1_000))
    assert total > 0
