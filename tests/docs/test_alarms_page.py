"""The page on alarms has what can be red or raised: by name, as the code has it."""

from __future__ import annotations

import re

import pytest

from medusa_core import errors
from pipelines.base.settings import REPOSITORY
from pipelines.homes.page_access import VARIABLE
from pipelines.spark.failures import SparkEnded
from tests.docs.pages import page

CHECK_OF_HOME = re.compile(r'check = f"([\w ]+) \{name\}"|fail\(f"([\w ]+) \{name\}"')
CHECK_OF_MACHINE = re.compile(r'^ +(?:\*\*.*\{)?"([a-z ]+)": _\w+', re.MULTILINE)


def source(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


def first_cells() -> set[str]:
    """What stands at the left of the rows of the page's tables."""
    return {cell.strip(" `") for cell in re.findall(r"^\|([^|]+)\|", page("alarms"), re.MULTILINE)}


def test_every_class_of_error_is_there_with_its_exit_code() -> None:
    classes = [
        kind
        for kind in (*vars(errors).values(), SparkEnded)
        if isinstance(kind, type) and issubclass(kind, errors.MedusaError)
    ]
    assert len(classes) > 7
    for kind in classes:
        if kind is not errors.MedusaError:
            assert f"| `{kind.__name__}` | {kind.exit_code} |" in page("alarms")


def test_every_dag_is_there() -> None:
    dags = {
        name
        for path in (REPOSITORY / "dags").glob("*.py")
        for name in re.findall(r'dag_id="(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert len(dags) > 6
    assert dags <= first_cells()


def test_every_check_of_the_doctor_is_there() -> None:
    of_homes = {
        f"{one or other} NAME"
        for one, other in CHECK_OF_HOME.findall(source("pipelines/operations/home_checks.py"))
    }
    of_machine = set(CHECK_OF_MACHINE.findall(source("pipelines/operations/machine_checks.py")))
    of_machine |= {"metrics port", "homes", "test data"}
    assert len(of_homes) == 8
    assert len(of_machine) == 10
    assert of_homes | of_machine <= first_cells()


def test_every_check_of_the_page_is_there() -> None:
    text = source("pipelines/operations/page_checks.py")
    named = set(re.findall(r'(?:ok|warn|fail)\("([\w -]+)"', text)) | {VARIABLE}
    named |= {f"{one} NAME" for one in re.findall(r'check = f"([\w ]+) \{home\}"', text)}
    assert len(named) == 6
    assert named <= first_cells()


@pytest.mark.parametrize(
    ("sentence", "said_in"),
    [
        ("is given up, ", "pipelines/platform/jobs/supervision_report.py"),
        ("have changed since they were planned", "pipelines/operations/deploying.py"),
        ("no process took it up within", "medusa_core/supervising.py"),
        ("which no supervisor started", "medusa_core/supervising.py"),
        ("was not heard of for", "medusa_core/supervising.py"),
        ("was made with", "pipelines/participant/assigned_plans.py"),
        ("its home was restored from a backup", "medusa_core/exchange.py"),
        ("nothing runs here now", "pipelines/cli/status_text.py"),
        (" is blocked: ", "pipelines/cli/status_text.py"),
        ("its database does not answer", "pipelines/cli/status_text.py"),
        ("its supervisor was lost", "pipelines/cli/status_text.py"),
        ("the catalog's disk is full", "pipelines/catalog/postgres/database_errors.py"),
        ("the catalog has no connection left", "pipelines/catalog/postgres/database_errors.py"),
        ("the catalog does not accept this login", "pipelines/catalog/postgres/database_errors.py"),
        ("install the ", "pipelines/catalog/server/migrations.py"),
        ("was edited after this home had applied it", "pipelines/catalog/server/migrations.py"),
        ("has no key to sign with", "pipelines/homes/signing_keys.py"),
        ("does not serve", "pipelines/storage/object_store.py"),
        ("has no password", "pipelines/homes/home_logins.py"),
        ("may be read by others (mode ", "pipelines/base/secret_files.py"),
        ("is not by the key of", "pipelines/market/sync/verification.py"),
        ("than their digests tell: nothing was compacted", "pipelines/storage/compaction.py"),
        (
            "stood still, or the clock was set",
            "pipelines/platform/airflow_components/component_supervision.py",
        ),
    ],
)  # fmt: skip
def test_sentences_by_which_an_operator_looks_are_said_so(sentence: str, said_in: str) -> None:
    assert sentence.strip() in page("alarms")
    assert sentence in source(said_in)
