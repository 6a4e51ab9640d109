"""Where an answer of another program enters, its errors are classified by rule.

Found by syntax: every call that reads a document, a file of rows, or starts or asks another program
is inside a block that translates errors, or inside a `try` whose handlers cover every kind of error
that the call raises for an unknown answer. At a link that is Unavailable, at an input Refused.
A `try` that reads the values of a document too covers `WRONG_FORM`: a list of what was thought of
lacks the error of the next wrong value.
`READ_BY_CALLERS` lists the functions whose callers have that block.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pytest

from tests.layout.rooms import ROOT, nodes_of

JSON = frozenset({"ValueError", "RecursionError"})
VALUES = frozenset({"what wrong values raise"})
ROWS = frozenset({"ArrowException", "OSError", "ValueError"})
DATABASE = frozenset({"psycopg2.Error"})
PROGRAM = frozenset({"OSError"})
PROGRAM_IN_TIME = PROGRAM | {"subprocess.TimeoutExpired"}

RAISES: Mapping[str, frozenset[str]] = {
    "json.load": JSON,
    "json.loads": JSON,
    "pyarrow.csv.read_csv": ROWS,
    "pyarrow.parquet.ParquetFile": ROWS,
    "pyarrow.parquet.read_metadata": ROWS,
    "pyarrow.parquet.read_schema": ROWS,
    "pyarrow.parquet.read_table": ROWS,
    "psycopg2.connect": DATABASE,
    "subprocess.Popen": PROGRAM,
    "subprocess.check_output": PROGRAM,
    "subprocess.run": PROGRAM,
    "urllib.request.urlopen": PROGRAM,
    "yaml.load": JSON,
    "yaml.safe_load": JSON,
}
"""A call, and what it raises for an answer that nobody expected."""

COVERS: Mapping[str, frozenset[str]] = {
    "Exception": JSON | VALUES | ROWS | DATABASE | PROGRAM_IN_TIME,
    "BaseException": JSON | VALUES | ROWS | DATABASE | PROGRAM_IN_TIME,
    "WRONG_FORM": JSON | VALUES,
    "subprocess.SubprocessError": frozenset({"subprocess.TimeoutExpired"}),
    "EnvironmentError": PROGRAM,
}
"""What a handler catches besides what it names."""

TRANSLATE: Mapping[str, frozenset[str]] = {
    "errors_of_catalog": DATABASE | {"RecursionError"},
    "foreign_form": JSON | VALUES,
    "jvm_errors": frozenset({"py4j"}),
    "rows_of": ROWS | JSON | VALUES,
    "self.errors": DATABASE,
    "starting": PROGRAM_IN_TIME,
}
"""Context managers that raise Medusa's errors instead."""

OWN = "reads what this program has just written, or a file that comes with it"
READ_BY_CALLERS: Mapping[str, str] = {
    "medusa_core/market/message_fields.py:message_fields": "`read_message` makes each Refused",
    "pipelines/catalog/memory/mailbox.py:read_inbox": OWN,
    "pipelines/catalog/postgres/choices.py:choice_document": OWN,
    "pipelines/catalog/postgres/home_database.py:_connect": "its callers do",
    "pipelines/spark/kernel_task.py:tagged_rows": OWN,
    "pipelines/catalog/postgres/statements.py:_snapshot": "its callers do",
    "pipelines/operations/home_checks.py:_listens": "its caller does, in `_connected`",
    "pipelines/contracts/data_contract_text.py:_standard": OWN,
    "pipelines/exchange/notification_listener.py:listening": "`NotificationListener` tries again",
    "pipelines/homes/network_files.py:network_of_plan": OWN,
    "pipelines/platform/airflow_components/airflow_database.py:_connect": "its two callers do",
    "pipelines/platform/drills/packet_cut.py:main": OWN,
    "pipelines/platform/drills/resume_later.py:main": OWN,
    "pipelines/quality/stored_rows.py:_shared": "`_landed` reads rows in `rows_of`",
    "pipelines/simulation/rounds/market_laws.py:delivered": OWN,
    "pipelines/sources/live/paced.py:_land": OWN,
    "pipelines/sources/live/source_state.py:to_json": OWN,
    "pipelines/sources/recorded/csv_fields.py:_read": "`reader._readable`, for all formats",
    "pipelines/spark/classes.py:_check_possible": "`make_archive` makes it Unavailable",
    "pipelines/spark/results.py:read_manifest": OWN,
    "pipelines/storage/parquet_bounds.py:open_footer": "`parquet_rows` and `exchange/contents`",
    "pipelines/storage/parquet_bounds.py:open_pages": "`parquet_rows` and `exchange/contents`",
    "pipelines/storage/shared_files.py:_keep": "`landing` reads rows in `rows_of`",
}
"""Module and function: why the call needs no block there."""


def raised_by(call: str) -> frozenset[str]:
    """What a call raises; the connections of SQLAlchemy's engines are found by their name."""
    is_engine = call.endswith(("engine.connect", "engine.begin"))
    return DATABASE if is_engine else RAISES.get(call, frozenset())


@dataclass(frozen=True)
class Reading:
    """One call, where it is, and what none of the blocks around it covers."""

    module: str
    function: str
    line: int
    call: str
    open: frozenset[str]

    def __str__(self) -> str:
        return f"{self.module}:{self.function}, line {self.line}: {self.call}, {sorted(self.open)}"


def readings_in(module: str, nodes: Sequence[ast.AST]) -> Iterator[Reading]:
    """Every call of a module that reads what another program answers; its tree is the first node.

    Few modules have one: the blocks around the calls of the others are not looked at.
    """
    names = _names_of(nodes)
    parsed_alone: set[ast.AST] = set()

    def name_of(node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{name_of(node.value)}.{node.attr}"
        return name_of(node.value) if isinstance(node, ast.Starred) else ""

    def visit(node: ast.AST, function: str, covered: frozenset[str]) -> Iterator[Reading]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # Its body runs where it is called, not where it is defined.
            function, covered = node.name, frozenset()
        if isinstance(node, ast.Try):
            inside = covered.union(*(_caught(h, name_of) for h in node.handlers))
            parsed_alone.update(_last_value(node.body))
            for child in node.body:
                yield from visit(child, function, inside)
            for part in (*node.handlers, *node.orelse, *node.finalbody):
                yield from visit(part, function, covered)
            return
        if isinstance(node, ast.With):
            inside = covered
            for item in node.items:
                yield from visit(item, function, inside)
                inside |= _translated(item.context_expr, name_of)
            for child in node.body:
                yield from visit(child, function, inside)
            return
        if isinstance(node, ast.Call) and (raises := raised_by(call := name_of(node.func))):
            if call.startswith("subprocess.") and any(k.arg == "timeout" for k in node.keywords):
                raises = PROGRAM_IN_TIME
            if raises == JSON and covered and node not in parsed_alone:
                raises = JSON | VALUES
            yield Reading(module, function, node.lineno, call, raises - covered)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function, covered)

    if any(isinstance(node, ast.Call) and raised_by(name_of(node.func)) for node in nodes):
        yield from visit(nodes[0], "", frozenset())


def _names_of(nodes: Iterable[ast.AST]) -> Mapping[str, str]:
    """What a module calls what it imports -> its whole name."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for one in node.names:
                found[one.asname or one.name.split(".")[0]] = (
                    one.name if one.asname else one.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                is_kept = (node.module or "").split(".")[0] not in ("pipelines", "medusa_core")
                found[one.asname or one.name] = whole if is_kept else one.name
    return found


def _last_value(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The value that a block ends with: if that is the call, the block reads nothing of it."""
    last = body[-1]
    if isinstance(last, ast.With):
        yield from _last_value(last.body)
    if isinstance(last, ast.Assign | ast.AnnAssign | ast.Return) and last.value:
        yield last.value


def _caught(handler: ast.ExceptHandler, name_of: object) -> frozenset[str]:
    assert callable(name_of)
    if handler.type is None:
        return COVERS["BaseException"]
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    found: set[str] = set()
    for kind in kinds:
        name = name_of(kind)
        name = "ArrowException" if name.endswith(".ArrowException") else name
        found |= {name} | COVERS.get(name, frozenset())
    return frozenset(found)


def _translated(block: ast.expr, name_of: object) -> frozenset[str]:
    assert callable(name_of)
    if not isinstance(block, ast.Call):
        return frozenset()
    name = name_of(block.func)
    if name in ("contextlib.suppress", "suppress"):
        arguments = ast.Tuple(elts=block.args)
        return _caught(ast.ExceptHandler(type=arguments, body=[]), name_of)
    return TRANSLATE.get(name, frozenset())


def readings() -> Iterator[Reading]:
    """Of the whole product."""
    for file, nodes in product_files():
        yield from readings_in(file, nodes)


@cache
def product_files() -> Sequence[tuple[str, Sequence[ast.AST]]]:
    """Path and syntax of every module of the product."""
    return [
        (str(file.relative_to(ROOT)), nodes_of(file))
        for folder in ("medusa_core", "pipelines", "dags")
        for file in sorted((ROOT / folder).rglob("*.py"))
    ]


def test_what_another_program_answers_is_classified_where_it_enters() -> None:
    listed = {f"{r.module}:{r.function}": r for r in readings() if r.open}
    missing = [str(found) for name, found in listed.items() if name not in READ_BY_CALLERS]
    assert not missing, "\n".join(missing)
    assert sorted(READ_BY_CALLERS.keys() - listed.keys()) == [], "listed, and not needed"


KNOWN_BY: Mapping[str, tuple[str, ...]] = {
    "psycopg2.errors": (),
    "py4j.protocol": (
        "pipelines/sources/live/spark_source.py",
        "pipelines/spark/classes.py",
        "pipelines/spark/failures.py",
        "pipelines/spark/session.py",
    ),
    "sqlalchemy.exc.DBAPIError": ("pipelines/catalog/postgres/database_errors.py",),
    "sqlalchemy.exc.SQLAlchemyError": ("pipelines/datasource/home_access.py",),
    "urllib.request": ("pipelines/platform/airflow_components/health.py",),
    "yaml": (
        "pipelines/contracts/data_contract_text.py",
        "pipelines/contracts/yaml_values.py",
    ),
}
"""Another program, and the modules that know its errors: nobody else asks it or reads it."""


def nodes_in(source: str) -> Sequence[ast.AST]:
    return tuple(ast.walk(ast.parse(source)))


@pytest.mark.parametrize("program", KNOWN_BY)
def test_few_modules_know_the_errors_of_another_program(program: str) -> None:
    found = [
        file
        for file, names in imports().items()
        if any(name == program or name.startswith(f"{program}.") for name in names)
    ]
    assert found == sorted(KNOWN_BY[program])


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Module -> the whole names that it imports, wherever in it."""
    return {
        file: frozenset(name for node in nodes for name in _imported(node))
        for file, nodes in product_files()
    }


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        yield from (f"{node.module}.{one.name}" for one in node.names)


UNSAFE = {
    "a document": "import json\ndef f(t):\n    return json.loads(t)\n",
    "a document by another name": "from json import loads as l\ndef f(t):\n    return l(t)\n",
    "in the handler": (
        "import json\ndef f(t):\n    try:\n        g()\n    except ValueError:\n"
        "        return json.loads(t)\n"
    ),
    "a function within a block": (
        "import json\ntry:\n    def f(t):\n        return json.loads(t)\n"
        "except Exception:\n    pass\n"
    ),
    "too little caught": (
        "import json\ndef f(t):\n    try:\n        return json.loads(t)\n"
        "    except ValueError:\n        return None\n"
    ),
    "values by a list": (
        "import json\ndef f(t):\n    try:\n        d = json.loads(t)\n        return d['a'][0]\n"
        "    except (ValueError, RecursionError, TypeError, KeyError):\n        return None\n"
    ),
    "values in a call": (
        "import json\ndef f(t):\n    try:\n        return g(json.loads(t))\n"
        "    except (ValueError, RecursionError, TypeError, KeyError):\n        return None\n"
    ),
    "rows": "import pyarrow.parquet as pq\ndef f(p):\n    return pq.read_table(p)\n",
    "a database": "import psycopg2\ndef f():\n    return psycopg2.connect()\n",
    "an engine": "def f(engine):\n    with engine.connect() as c:\n        pass\n",
    "a program": "import subprocess\ndef f():\n    subprocess.run(['ps'])\n",
    "a program in time": (
        "import subprocess\ndef f():\n    try:\n        subprocess.run(['ps'], timeout=1)\n"
        "    except OSError:\n        pass\n"
    ),
}
SAFE = {
    "a document": (
        "import json\ndef f(t):\n    try:\n        return json.loads(t)\n"
        "    except (OSError, *WRONG_FORM):\n        return None\n"
    ),
    "a document that is parsed alone": (
        "import json\ndef f(p):\n    try:\n        with p.open() as file:\n"
        "            found = json.load(file)\n"
        "    except (ValueError, RecursionError):\n        return None\n    return found\n"
    ),
    "values": (
        "import json\ndef f(t):\n    try:\n        return json.loads(t)['a'][0]\n"
        "    except WRONG_FORM:\n        return None\n"
    ),
    "rows": (
        "import pyarrow.parquet as pq\nfrom pipelines.storage.segment_files import rows_of\n"
        "def f(p):\n    with rows_of(p):\n        return pq.read_table(p)\n"
    ),
    "an engine": (
        "from pipelines.catalog.postgres.database_errors import errors_of_catalog\n"
        "def f(engine):\n    with errors_of_catalog(), engine.connect() as c:\n        pass\n"
    ),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_a_call_with_unclassified_errors_is_found(case: str) -> None:
    assert any(found.open for found in readings_in("module.py", nodes_in(UNSAFE[case])))


@pytest.mark.parametrize("case", SAFE)
def test_a_call_in_a_block_that_classifies_is_passed(case: str) -> None:
    (found,) = readings_in("module.py", nodes_in(SAFE[case]))
    assert not found.open
