"""Runs tests against mutants, in a private copy of the repository: `-m tests.mutation.worker FILE`.

The tests are collected once. For each mutant a child is forked, in which the mutated functions take
the place of those that are loaded (what is outside of functions is loaded anew, by a run of its
own; SQL is read from the copy), and the tests that reach the mutant are run until one fails.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import psutil
import pytest

from tests.mutation import reach
from tests.mutation.mutants import Edit, Mutant
from tests.mutation.mutated_homes import MutatedHomes

CHILD_S_MIN, SLOWER, IDLE, LOOK_S = 20.0, 8.0, 20.0, 0.01
"""A mutant has this time, and so many times what its tests took: what never ends is noticed.

Where no server works for it, CPU counts, and so many times that for one that waits for nothing.
"""

FRESH_TESTS_MAX = 150
NOT_RUN = 3
"""The exit code of a child that failed outside of tests: a fault of this program."""

TEST_S = 0.5
"""What a test with a server may take, where nobody has measured it."""

MARKETS_MAX, WHOLE_MAX, REPLICAS_MAX = 30, 8, 6
"""So many schedules of the simulator look at what no test has noticed."""

EXAMPLES_TRACED = 5
TRACE_S_MAX = 3_600.0
STRUCTURE = ("sql/test_files.py", "sql/test_roles.py")
"""Which rights and settings functions have is looked at for all of them together."""

CASES = 2
"""So many cases of a test are as near as the test is, the next ones a step further, and so on."""

FURTHER = 3
"""So many steps further than what a test names is what the rest of its file names."""
MODULE = "module"


@dataclass
class Job:
    """What the command asks for, and how it is told."""

    room: str
    paths: list[str]
    mutants: list[Mutant]
    reach_file: Path
    told: Path
    test_s_max: float
    tests_s_max: float
    simulates: bool
    seconds_max: float


class Run:
    """A pytest plugin that takes over the loop of a session."""

    def __init__(self, job: Job, root: Path) -> None:
        self._job, self._root = job, root
        self._failed: str | None = None
        self._functions: dict[CodeType, list[FunctionType]] = {}
        self._homes: MutatedHomes | None = None
        self._cached: dict[str, Any] = {}
        self._order_in_sql: Callable[[Mutant], list[str]] | None = None
        self._tracing_s, self._is_tracing = 0.0, False

    def pytest_collection(self) -> None:
        from hypothesis import HealthCheck, settings

        settings.register_profile(
            "mutation",
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._failed is None:
            self._failed = f"{report.when} of {report.nodeid}: {_last_line(report)}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if fits(item, self._job.room)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self._job.simulates:
            import pipelines.simulation.faults.schedule_runs  # noqa: F401 - before children are forked
        _characters_are_known()
        self._functions = _loaded_functions(self._root / self._job.room)
        items = {item.nodeid: item for item in session.items}
        with _homes(session.config, self._root, self._job.room) as homes:
            self._homes = homes
            began_s = time.monotonic()
            for mutant in self._job.mutants:
                if time.monotonic() - self._tracing_s > began_s + self._job.seconds_max:
                    break
                self._record(mutant, *self._noticed(mutant, items))
        return True

    # ------------------------------------------------------------ which tests reach what

    def _noticed(self, mutant: Mutant, items: dict[str, pytest.Item]) -> tuple[str, str]:
        """The verdict of the first tests that notice it, or of all.

        To trace the tests of all files takes a minute, which few mutants are worth.
        """
        verdict = "unreached", "no test reaches it"
        for those in self._stages(mutant, items):
            known = self._reached(those)
            names = [name for name in self._order(known)(mutant) if name in those]
            found = self._verdict(mutant, names, those, known)
            if found[0] not in ("survived", "unreached"):
                return found
            if verdict[0] == "unreached":
                verdict = found
        return verdict

    def _stages(
        self, mutant: Mutant, items: dict[str, pytest.Item]
    ) -> Iterable[dict[str, pytest.Item]]:
        """The tests of files whose text names the mutant's module, then the others by folder.

        All at once where no tests are traced, or the simulator looks at what they leave.
        """
        if self._job.room == "sql" or self._job.simulates:
            return [items]
        module = mutant.path.removesuffix(".py").replace("/", ".")
        named = re.compile(rf"\b{re.escape(module)}\b")
        stages: dict[str, dict[str, pytest.Item]] = {"": {}}
        for name, item in items.items():
            stage = "" if named.search(_text(item.path)) else item.path.parent.name
            stages.setdefault(stage, {})[name] = item
        return filter(None, stages.values())

    def _order(self, known: dict[str, Any]) -> Callable[[Mutant], list[str]]:
        """Those that reach a mutant, in order; of SQL one order serves all mutants."""
        if self._order_in_sql is None:
            order = _order_of(self._job, known, self._root)
            if self._job.room != "sql":
                return order
            self._order_in_sql = order
        return self._order_in_sql

    def _reached(self, items: dict[str, pytest.Item]) -> dict[str, Any]:
        """What each test reaches; files of tests that are new or have changed are run for it."""
        if self._job.room == "sql":
            self._cached = self._cached or _said(items)
            return self._cached
        path, began_s = self._job.reach_file, time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self._cached and path.exists():
            self._cached = json.loads(path.read_text())
        files: dict[str, list[pytest.Item]] = {}
        for item in items.values():
            files.setdefault(str(item.path.relative_to(self._root)), []).append(item)
        for name, those in files.items():
            digest = _hash_of(self._root / name)
            if self._cached.get(name, {}).get("hash") != digest:
                traced = path.with_suffix(".new")
                traced.unlink(missing_ok=True)
                verdict, how = self._in_child(partial(self._trace, those, traced), TRACE_S_MAX)
                if verdict != "survived":
                    raise RuntimeError(f"what the tests of {name} reach is not known: {how}")
                self._cached[name] = {"hash": digest, "tests": json.loads(traced.read_text())}
                path.write_text(json.dumps(self._cached))
        self._tracing_s += time.monotonic() - began_s
        return {
            test: found for name in files for test, found in self._cached[name]["tests"].items()
        }

    def _trace(self, items: list[pytest.Item], path: Path) -> bool:
        """What the tests of one file reach; none that fails is run later.

        A call that takes too long fails. Fixtures have no limit: the first test that uses one pays
        for it.
        """
        signal.signal(signal.SIGPROF, _too_long)
        self._is_tracing = True
        found = {}
        for item, next_ in zip(items, [*items[1:], None], strict=True):
            _with_few_examples(item)
            self._failed = None
            began = time.process_time()
            with reach.traced_functions(self._root / self._job.room) as touched:
                self._one(item, next_)
            if self._failed is None:
                seconds = round(time.process_time() - began, 3)
                found[item.nodeid] = {"s": seconds, "reaches": sorted(touched)}
        path.write_text(json.dumps(found))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """End a test that takes too long to trace here, where pytest takes it for one that fails.

        Ended between its phases it would not be torn down, and each test after it would fail.
        """
        if self._is_tracing:
            signal.setitimer(signal.ITIMER_PROF, self._job.test_s_max)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _one(self, item: pytest.Item, next_: pytest.Item | None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_)

    # ------------------------------------------------------------ one mutant

    def _verdict(
        self,
        mutant: Mutant,
        names: list[str],
        items: dict[str, pytest.Item],
        known: dict[str, Any],
    ) -> tuple[str, str]:
        if not names and _is_outside(mutant):
            return "unreached", "no test reaches it"
        chosen, seconds = [], 0.0
        for name in names:
            seconds += known[name]["s"]
            if chosen and seconds > self._job.tests_s_max:
                break
            chosen.append(name)
        limit_s = CHILD_S_MIN + SLOWER * sum(known[name]["s"] for name in chosen)
        path = self._root / mutant.path
        source = path.read_text(encoding="utf-8")
        try:
            path.unlink()
            path.write_text(mutant.applied(source), encoding="utf-8")
            if _is_outside(mutant):
                return self._fresh(chosen[:FRESH_TESTS_MAX], limit_s + CHILD_S_MIN)

            def act() -> bool:
                if mutant.room != "sql":
                    self._patch(mutant, source)
                those = [items[name] for name in chosen]
                for item, next_ in pairwise([*those, None]):
                    assert item is not None
                    self._one(item, next_)
                    if self._failed is not None:
                        return False
                self._failed = _violation() if self._job.simulates else None
                return self._failed is None

            with nullcontext() if self._homes is None else self._homes.with_file(path, source):
                verdict, how = self._in_child(act, limit_s)
            return ("unreached", how) if verdict == "survived" and not names else (verdict, how)
        finally:
            path.write_text(source, encoding="utf-8")

    def _patch(self, mutant: Mutant, source: str) -> None:
        """Put the mutated code in the place of the function's that is loaded."""
        file = str(self._root / mutant.path)
        old = _code_of(compile(source, file, "exec"), mutant.where)
        new = _code_of(compile(mutant.applied(source), file, "exec"), mutant.where)
        loaded = [self._functions.get(code, []) for code in old]
        if len(old) != len(new) or not any(loaded):
            raise LookupError(f"{mutant.where} is not loaded")
        for functions, code in zip(loaded, new, strict=True):
            for function in functions:
                function.__code__ = code

    def _fresh(self, names: list[str], limit_s: float) -> tuple[str, str]:
        """A run that loads the mutated module."""
        command = [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            "-m", markers(self._root), *names,
        ]  # fmt: skip
        try:
            ran = subprocess.run(
                command, cwd=self._root, capture_output=True, text=True, timeout=limit_s,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "endless", f"no end within {limit_s:.0f} s"
        return ("survived", f"{len(names)} tests") if ran.returncode == 0 else ("killed", "fresh")

    def _in_child(self, act: Callable[[], bool], limit_s: float) -> tuple[str, str]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            code = 1
            try:
                code = 0 if act() else 1
                os.write(writer, (self._failed or "").encode()[:4_000])
            except BaseException as error:  # noqa: BLE001 - a child ends here, whatever happens
                code = NOT_RUN
                os.write(writer, repr(error).encode()[:4_000])
            finally:
                os._exit(code)
        os.close(writer)
        status = self._end_of(child, limit_s)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # the child, if it did not end, and what it left
        if status is None:
            os.waitpid(child, 0)
        output = os.read(reader, 4_096).decode(errors="replace")
        os.close(reader)
        if status is None:
            return "endless", f"no end within {limit_s:.0f} s"
        if status == 0:
            return "survived", ""
        if os.waitstatus_to_exitcode(status) == NOT_RUN:
            return "not run", output
        if output.startswith("setup of ") and "psycopg2.errors" in output:
            return "unbuilt", output
        return "killed", output

    def _end_of(self, child: int, limit_s: float) -> int | None:
        """How a child ended; None if it did not: by its own CPU, unless a server works for it."""
        process, began = psutil.Process(child), time.monotonic()
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status
            times = process.cpu_times()
            spent_s = times.user + times.system
            waited_s = time.monotonic() - began
            if spent_s > limit_s or waited_s > limit_s * (1 if self._job.room == "sql" else IDLE):
                return None
            time.sleep(LOOK_S)

    def _record(self, mutant: Mutant, verdict: str, how: str) -> None:
        with self._job.told.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"id": mutant.id, "verdict": verdict, "how": how}) + "\n")


def _said(items: dict[str, pytest.Item]) -> dict[str, Any]:
    """What each test says by its own text and its fixtures, and by the rest of its file."""
    files = {path: reach.calls_of([path]) for path in {item.path for item in items.values()}}
    found = {}
    for name, item in items.items():
        of_file = files[item.path]
        own = of_file.get(f"{getattr(item, 'originalname', item.name)}()", set())
        own = own | {f"{fixture}()" for fixture in getattr(item, "fixturenames", ())}
        found[name] = {"s": TEST_S, "reaches": own, "beside": set().union(*of_file.values())}
    return found


def _uses(root: Path) -> Mapping[str, frozenset[str]]:
    """What each object of SQL, query, method of a catalog and helper of tests leads to."""
    sql = [path for path in (root / "sql").rglob("*.sql") if "migrations" not in path.parts]
    queries = {path.stem: path.read_text() for path in sql if path.parent.name == "queries"}
    uses = reach.calls_of((root / "pipelines" / "catalog").rglob("*.py"), queries)
    for name, said in reach.calls_of(
        path for path in (root / "tests").rglob("*.py") if not path.name.startswith("test_")
    ).items():
        uses.setdefault(name, set()).update(said)
    for name, text in queries.items():
        uses[name] = reach.named_in(text)
    return {**uses, **reach.references(path.read_text() for path in sql)}


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _hash_of(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()[:16]


def _violation() -> str | None:
    """What a few schedules of the simulator break first; None if nothing."""
    from pipelines.simulation.faults.schedule_runs import run_schedules
    from pipelines.simulation.faults.schedule_shapes import MARKETS, REPLICAS, WHOLE

    for shape, count in ((MARKETS, MARKETS_MAX), (WHOLE, WHOLE_MAX), (REPLICAS, REPLICAS_MAX)):
        figures = run_schedules(count, 1, shape=shape, violations_max=1)
        if figures.violations:
            seed, law = figures.violations[0]
            return f"schedule {seed}: {law}"
    return None


def _characters_are_known() -> None:
    """Hypothesis lists all characters when a text is first drawn: no test is to pay for it."""
    from hypothesis import find
    from hypothesis import strategies as st

    find(st.text(), lambda _: True)


def _too_long(*_: object) -> None:
    raise TimeoutError("too long for a test that runs against each mutant")


def _with_few_examples(item: pytest.Item) -> None:
    """What a property reaches shows in a few examples."""
    from hypothesis import settings

    test = getattr(item, "obj", None)
    given = getattr(test, "_hypothesis_internal_use_settings", None)
    if given is not None:
        test = getattr(test, "__func__", test)
        test._hypothesis_internal_use_settings = settings(given, max_examples=EXAMPLES_TRACED)


def _last_line(report: pytest.TestReport) -> str:
    text = str(report.longrepr)
    lines = [line for line in text.splitlines() if line.startswith("E ")] or text.splitlines()
    return (lines[0] if lines else "")[:300]


def fits(item: pytest.Item, room: str) -> bool:
    """The core is tested without a server, SQL with one; nothing here waits for a Spark.

    Of long tests those run that are quick: they show again what another test shows.
    """
    long = item.get_closest_marker("long")
    if long is not None and not long.kwargs.get("quick"):
        return False
    needs = set(getattr(item, "fixturenames", ()))
    has_server = "postgres_server" in needs or "[postgres" in item.name
    return "spark" not in needs and has_server == (room == "sql")


@contextmanager
def _homes(config: pytest.Config, root: Path, room: str) -> Iterator[MutatedHomes | None]:
    """One server for all children, and homes in it."""
    if room != "sql":
        yield None
        return
    from pipelines.catalog.server.embedded_server import EmbeddedServer
    from tests.conftest import LENT_SERVER, folder_on_memory

    server = EmbeddedServer(folder_on_memory("medusa-mutants-"))
    try:
        with server:
            config.stash[LENT_SERVER] = server
            yield MutatedHomes(server, root / "sql")
    finally:
        server.discard()


def _loaded_functions(package: Path) -> dict[CodeType, list[FunctionType]]:
    """The functions of a package by their code; afterwards a child looks at no other object."""
    gc.unfreeze()
    found: dict[CodeType, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(str(package)):
            found.setdefault(one.__code__, []).append(one)
    gc.freeze()
    gc.disable()
    return found


def _code_of(module: CodeType, where: str) -> list[CodeType]:
    """The code of a function or method; several where a name is given twice, as by a property."""
    found = [module]
    for name in where.split("."):
        found = [
            constant
            for code in found
            for constant in code.co_consts
            if isinstance(constant, CodeType) and constant.co_name == name
        ]
        if found and all(_is_function(code) for code in found):
            break
    return found


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & 0x2)  # CO_NEWLOCALS: a class body has none


def _order_of(job: Job, known: dict[str, Any], root: Path) -> Callable[[Mutant], list[str]]:
    """The tests that reach a mutant, those first that are near and quick."""
    if job.room != "sql":

        def by_trace(mutant: Mutant) -> list[str]:
            place = f"{mutant.path}::{mutant.where}"
            reaching = [
                name
                for name, test in known.items()
                if any(r == place or place.startswith(f"{r}.") for r in test["reaches"])
                or (_is_outside(mutant) and any(
                    r.startswith(f"{mutant.path}::") for r in test["reaches"]))
            ]  # fmt: skip
            if _is_outside(mutant):  # those first that reach little else
                return sorted(reaching, key=lambda name: len(known[name]["reaches"]))
            return sorted(reaching, key=lambda name: known[name]["s"])

        return by_trace
    users = reach.turned(_uses(root))
    later = _later_cases(known)

    def by_text(mutant: Mutant) -> list[str]:
        far = reach.distances((mutant.where, mutant.where.rsplit(".", 1)[0]), users)
        further = {name: steps + FURTHER for name, steps in far.items()}
        first = STRUCTURE if mutant.kind in ("setting", "right") else ()
        reaching = []
        for name, test in known.items():
            steps = [far[said] for said in test["reaches"] if said in far]
            steps += [further[said] for said in test["beside"] if said in far]
            if any(file in name for file in first):
                steps.append(0)
            if steps:
                is_far = not _is_named_by(name, mutant.where)
                reaching.append((is_far, min(steps) + later[name], len(test["reaches"]), name))
        return [name for *_, name in sorted(reaching)] or sorted(known)

    return by_text


def _is_named_by(test: str, where: str) -> bool:
    """Whether the file of a test has a name like an object's: test_followed_revisions.py is that of
    medusa.follow_revision."""
    words = Path(test.partition("::")[0]).stem.split("_")
    return all(any(w.startswith(part) for w in words) for part in where.split(".")[1].split("_"))


def _later_cases(names: Iterable[str]) -> dict[str, int]:
    """How much further the cases of a test are from a mutant than its first ones."""
    cases: Counter[str] = Counter()
    found = {}
    for name in names:
        found[name] = cases[name.partition("[")[0]] // CASES
        cases[name.partition("[")[0]] += 1
    return found


def _is_outside(mutant: Mutant) -> bool:
    """Whether it is in no function, so that its module must be loaded anew."""
    name = mutant.where.split(".")[-1].strip("_")
    return mutant.room != "sql" and (mutant.where == MODULE or name[:1].isupper())


def markers(root: Path) -> str:
    """Which tests the project leaves out by default, but the long ones (`fits` chooses those)."""
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    added = options["addopts"]
    return str(added[added.index("-m") + 1]).replace("not long and ", "", 1)


def main(arguments: Sequence[str]) -> int:
    """Run the job that a file describes."""
    root = Path.cwd()
    given = json.loads(Path(arguments[0]).read_text())
    mutants = [
        Mutant(**{**one, "edits": tuple(Edit(**edit) for edit in one["edits"])})
        for one in given.pop("mutants")
    ]
    job = Job(
        room=given["room"],
        paths=given["paths"],
        mutants=mutants,
        reach_file=Path(given["reach_file"]),
        told=Path(given["told"]),
        test_s_max=given["test_s_max"],
        tests_s_max=given["tests_s_max"],
        simulates=given["simulates"],
        seconds_max=given["seconds_max"],
    )
    options = [
        "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist",
        "-o", "addopts=--import-mode=importlib", "-m", markers(root),
    ]  # fmt: skip
    return int(pytest.main([*options, *job.paths], plugins=[Run(job, root)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
