"""Runs tests against mutants, in a private copy of the repository: `-m tests.mutation.worker FILE`.

The tests are collected once. For each mutant a child is forked, in which the mutated functions take
the place of those that are loaded (what is outside of functions is loaded anew, by a run of its
own; SQL is read from the copy), and the tests that reach the mutant are run until one fails.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutation import reach
from tests.mutation.mutants import Edit, Mutant

CHILD_S_MIN, SLOWER = 20.0, 8.0
"""A mutant has this time, and so many times what its tests took: what never ends is noticed."""

FRESH_TESTS_MAX = 60
EXAMPLES_TRACED = 5
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
    deadline: float
    extra: dict[str, Any] = field(default_factory=dict)


class Run:
    """A pytest plugin that takes over the loop of a session."""

    def __init__(self, job: Job, root: Path) -> None:
        self._job, self._root = job, root
        self._failed: str | None = None

    def pytest_collection(self) -> None:
        from hypothesis import settings

        settings.register_profile("mutation", deadline=None, derandomize=True, database=None)
        settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._failed is None:
            self._failed = f"{report.when} of {report.nodeid}: {_last_line(report)}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if _fits(item, self._job.room)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()
        items = {item.nodeid: item for item in session.items}
        with _server(session.config, self._job.room):
            known = self._reached(items)
            order = _order_of(self._job, known, self._root)
            for mutant in self._job.mutants:
                if time.monotonic() > self._job.deadline:
                    break
                names = [name for name in order(mutant) if name in items]
                self._tell(mutant, *self._verdict(mutant, names, items, known))
        return True

    # ------------------------------------------------------------ which tests reach what

    def _reached(self, items: dict[str, pytest.Item]) -> dict[str, Any]:
        path = self._job.reach_file
        if not path.exists():
            self._in_child(lambda: self._trace(items, path), 3_600)
        known: dict[str, Any] = json.loads(path.read_text())
        return known

    def _trace(self, items: dict[str, pytest.Item], path: Path) -> bool:
        found = {}
        clock = time.monotonic if self._job.room == "sql" else time.process_time
        timer = signal.ITIMER_REAL if self._job.room == "sql" else signal.ITIMER_PROF
        signal.signal(signal.SIGALRM, _too_long)
        signal.signal(signal.SIGPROF, _too_long)
        those = list(items.items())
        for at, (name, item) in enumerate(those):
            _with_few_examples(item)
            began = clock()
            signal.setitimer(timer, self._job.test_s_max)
            with ExitStack() as stack:
                if self._job.room == "sql":
                    touched = stack.enter_context(reach.traced_statements())
                else:
                    touched = stack.enter_context(
                        reach.traced_functions(self._root / self._job.room)
                    )
                self._failed = None
                self._one(item, those[at + 1][1] if at + 1 < len(those) else None)
            signal.setitimer(timer, 0)
            if self._job.room == "sql":
                touched = touched | reach.named_in(item.path.read_text())
            seconds = clock() - began
            if self._failed is None:
                found[name] = {"s": round(seconds, 3), "reaches": sorted(touched)}
        aside = path.with_suffix(".new")
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(found))
        aside.replace(path)
        return True

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
        if not names:
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
                    _patch(self._root, mutant, source)
                those = [items[name] for name in chosen]
                for item, next_ in zip(those, [*those[1:], None], strict=True):
                    self._one(item, next_)
                    if self._failed is not None:
                        return False
                return True

            return self._in_child(act, limit_s)
        finally:
            path.write_text(source, encoding="utf-8")

    def _fresh(self, names: list[str], limit_s: float) -> tuple[str, str]:
        """A run that loads the mutated module."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *names]
        try:
            ran = subprocess.run(
                command, cwd=self._root, capture_output=True, text=True, timeout=limit_s,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "killed", f"no end within {limit_s:.0f} s"
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
                os.write(writer, f"collection of it: {error!r}".encode()[:4_000])
            finally:
                os._exit(code)
        os.close(writer)
        ended = time.monotonic() + limit_s
        status = None
        while status is None and time.monotonic() < ended:
            done, status_ = os.waitpid(child, os.WNOHANG)
            status = status_ if done else None
            if status is None:
                time.sleep(0.01)
        if status is None:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        else:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what it left behind
        said = os.read(reader, 4_096).decode(errors="replace")
        os.close(reader)
        if status is None:
            return "killed", f"no end within {limit_s:.0f} s"
        if status == 0:
            return "survived", ""
        if said.startswith("setup of ") and "psycopg2.errors" in said:
            return "unbuilt", said
        return "killed", said

    def _tell(self, mutant: Mutant, verdict: str, how: str) -> None:
        if self._job.room == "sql":
            _drop_databases()
        with self._job.told.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"id": mutant.id, "verdict": verdict, "how": how}) + "\n")


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


def _fits(item: pytest.Item, room: str) -> bool:
    """The core is tested without a server, SQL with one; nothing here waits for a Spark."""
    needs = set(getattr(item, "fixturenames", ()))
    has_server = "postgres_server" in needs or "[postgres" in item.name
    return "spark" not in needs and has_server == (room == "sql")


_SERVER: list[Any] = []


@contextmanager
def _server(config: pytest.Config, room: str) -> Iterator[None]:
    """One server for all children."""
    if room != "sql":
        yield
        return
    from pipelines.catalog.server.embedded_server import EmbeddedServer
    from tests.conftest import LENT_SERVER, folder_on_memory

    server = EmbeddedServer(folder_on_memory("medusa-mutants-"))
    try:
        with server:
            config.stash[LENT_SERVER] = server
            _SERVER.append(server)
            yield
    finally:
        server.discard()


def _drop_databases() -> None:
    import psycopg2

    url = _SERVER[0].superuser_url().replace("+psycopg2", "")
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE 'medusa%'")
            for (name,) in cursor.fetchall():
                cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
            cursor.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'medusa%'")
            for (name,) in cursor.fetchall():
                with suppress(psycopg2.Error):
                    cursor.execute(f'DROP ROLE "{name}"')
    finally:
        connection.close()


def _patch(root: Path, mutant: Mutant, source: str) -> None:
    """Put the mutated code in the place of the function's that is loaded."""
    file = str(root / mutant.path)
    old = _code_of(compile(source, file, "exec"), mutant.where)
    new = _code_of(compile(mutant.applied(source), file, "exec"), mutant.where)
    if len(old) != len(new) or not old:
        raise LookupError(f"{mutant.where} is not found in {mutant.path}")
    changed = dict(zip(old, new, strict=True))
    count = 0
    for function in [o for o in gc.get_objects() if type(o) is FunctionType]:
        if function.__code__.co_filename == file and function.__code__ in changed:
            function.__code__ = changed[function.__code__]
            count += 1
    if not count:
        raise LookupError(f"{mutant.where} is not loaded")


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
            return sorted(reaching, key=lambda name: known[name]["s"])

        return by_trace
    sql = [path.read_text() for path in (root / "sql").rglob("*.sql") if "migrations" not in
           path.parts]  # fmt: skip
    uses = reach.references(sql)
    near = {name: reach.distances(test["reaches"], uses) for name, test in known.items()}
    texts = {path.stem: path.read_text() for path in (root / "sql" / "queries").glob("*.sql")}

    def by_text(mutant: Mutant) -> list[str]:
        objects = [mutant.where, mutant.where.rsplit(".", 1)[0]]
        if mutant.where in texts:
            objects = sorted(reach.named_in(texts[mutant.where]))
            reaching = [n for n in near if all(near[n].get(o, 1) == 0 for o in objects)]
            return sorted(reaching, key=lambda name: known[name]["s"])
        reaching = [n for n in near if any(o in near[n] for o in objects)]
        return sorted(reaching or list(near), key=lambda name: (
            min((near[name][o] for o in objects if o in near[name]), default=99),
            known[name]["s"]))  # fmt: skip

    return by_text


def _is_outside(mutant: Mutant) -> bool:
    """Whether it is in no function, so that its module must be loaded anew."""
    name = mutant.where.split(".")[-1].strip("_")
    return mutant.room != "sql" and (mutant.where == MODULE or name[:1].isupper())


def markers(root: Path) -> str:
    """Which tests the project leaves out by default."""
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    added = options["addopts"]
    return str(added[added.index("-m") + 1])


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
        deadline=time.monotonic() + given["seconds_max"],
    )
    options = [
        "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist",
        "-o", "addopts=--import-mode=importlib", "-m", markers(root),
    ]  # fmt: skip
    return int(pytest.main([*options, *job.paths], plugins=[Run(job, root)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
