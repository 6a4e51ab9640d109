"""Texts that people and programs give: each is refused in one sentence, in time, safe to show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.names import check_name
from pipelines.base.settings import Settings
from pipelines.base.time_text import parse_time_us
from pipelines.language.expressions import compile_expression
from tests.hostile.cases import texts
from tests.hostile.cases.shapes import TextCase
from tests.hostile.judging import a_sentence, fit_for_a_terminal, in_time

COLUMNS = {"a": Column("a", "bigint"), "s": Column("s", "string"), "d": Column("d", "double")}
Reader = Callable[[str], object]


def variable(name: str) -> Reader:
    """Reads the settings from an environment that holds only this."""
    return lambda text: Settings.from_environment({name: text})


READERS: tuple[tuple[str, Reader, tuple[TextCase, ...]], ...] = (
    ("duration", parse_duration_us, texts.DURATIONS),
    ("time", lambda text: parse_time_us("--from", text), texts.INSTANTS),
    ("name", lambda text: check_name("stream", text), texts.NAMES),
    ("catalog URL", variable("MEDUSA_CATALOG_URL"), texts.URLS),
    ("metrics port", variable("MEDUSA_METRICS_PORT"), texts.PORTS),
    ("folder", variable("MEDUSA_DIR"), texts.FOLDERS),
    (
        "expression",
        lambda text: compile_expression(text, COLUMNS, where="box b, column c"),
        texts.EXPRESSIONS,
    ),
)
CASES = [
    pytest.param(read, case, id=f"{kind}: {case.name}")
    for kind, read, cases in READERS
    for case in cases
]


@pytest.mark.parametrize(("read", "case"), CASES)
def test_a_hostile_text_is_refused_in_one_sentence(read: Reader, case: TextCase) -> None:
    with in_time(), pytest.raises(Refused) as refused:
        read(case.text)
    says = str(refused.value)
    a_sentence(says, case.refused)
    fit_for_a_terminal(says)
    assert "\n" not in says
    assert "secretword" not in says, "a password is repeated"
