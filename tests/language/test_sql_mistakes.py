"""Mistakes in SQL: each is refused with the place, and with what to write instead.

`sql_mistakes.txt` has them all: a statement behind a source named ticks, and under it the column of
the second line and the sentence; `-` for one that is about the file as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.network import Network
from pipelines.language import shipped
from pipelines.language.load import load_network
from pipelines.language.sql.sql_file import SIZE_MAX, network_of_sql_text
from pipelines.language.sql.sql_text import SqlText
from tests.sweeps import examples

TICKS = (
    "CREATE SOURCE ticks (ts_us BIGINT, symbol STRING, price DOUBLE, size INT) "
    "WITH (time = 'ts_us');\n"
)
SHIPPED_SQL = sorted(Path(shipped.__file__).parent.glob("*.sql"))


def mistakes() -> Iterator[tuple[str, str, str]]:
    """Statement, column and sentence of each."""
    lines = Path(__file__).with_name("sql_mistakes.txt").read_text().splitlines()
    for statement, answer in zip(lines[::2], lines[1::2], strict=True):
        column, _, sentence = answer.strip().partition(": ")
        yield statement, column, sentence


@pytest.mark.parametrize(("statement", "column", "sentence"), list(mistakes()))
def test_a_mistake_is_refused_with_its_place(statement: str, column: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        network_of_sql_text(TICKS + statement, "f.sql", "f")
    place = "f.sql" if column == "-" else f"f.sql, line 2, column {column}"
    assert str(refused.value) == f"{place}: {sentence}"


def test_the_table_has_a_hundred_mistakes() -> None:
    assert len({statement for statement, _, _ in mistakes()}) >= 100


def test_lines_and_columns_are_counted_behind_comments() -> None:
    text = TICKS + "/* two\nlines */ CREATE STREAM x AS -- one\n  SELECT symbool FROM ticks"
    with pytest.raises(Refused, match=r"^f[.]sql, line 4, column 10: map x of network f"):
        network_of_sql_text(text, "f.sql", "f")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "has no statement: write CREATE SOURCE and CREATE STREAM"),
        (b"-- nothing\n;;", "has no statement"),
        (b"\xff\xfe", r"is not UTF-8 \(byte 0\): save it as UTF-8"),
        (b" " * (SIZE_MAX + 1), "has more than 1 MiB: divide it over several networks"),
        (b"CREATE STREAM x AS SELECT " + b"(" * 50_000, "nested too deeply"),
        (TICKS.encode() + b"CREATE STREAM x AS " + b"(" * 5_000 + b"SELECT symbol FROM ticks"
         + b")" * 5_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_network_is_refused(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    file = tmp_path / "f.sql"
    file.write_bytes(content)
    with pytest.raises(Refused, match=sentence):
        load_network(str(file))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"there is no file .*: check the path"):
        load_network(str(tmp_path / "f.sql"))
    (tmp_path / "g.sql").mkdir()
    with pytest.raises(Refused, match="is a folder"):
        load_network(str(tmp_path / "g.sql"))


@pytest.mark.sweep
@settings(max_examples=examples(50, 2_000), deadline=None)
@given(data=st.data())
def test_a_spoilt_file_is_a_network_or_is_refused(data: st.DataObject) -> None:
    """Tokens taken away, doubled or exchanged: the answer is never another error."""
    written = data.draw(st.sampled_from(SHIPPED_SQL)).read_text()
    tokens = [token.text for token in SqlText.of("f.sql", written).tokens]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(tokens) - 1))
        match data.draw(st.sampled_from(("remove", "double", "exchange", "insert"))):
            case "remove":
                del tokens[at]
            case "double":
                tokens.insert(at, tokens[at])
            case "exchange":
                other = data.draw(st.integers(0, len(tokens) - 1))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case _:
                tokens.insert(at, data.draw(st.sampled_from((*WORDS, *tokens[:20]))))
    with suppress(Refused):
        assert isinstance(network_of_sql_text(" ".join(tokens), "f.sql", "f"), Network)


WORDS = ("(", ")", ",", ";", ".", "*", "AS", "WITH", "JOIN", "'a", "`", "/*", "--", "1e", "NULL",
         "OVER", "FILTER", "CASE", "END", "\\", "?", "::", "=>", "[", "]", "é", "\x00")  # fmt: skip
