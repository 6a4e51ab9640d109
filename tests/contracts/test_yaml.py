"""Strict YAML: what is read, and one sentence with file and line for all that is not."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from pipelines.contracts.yaml_values import SIZE_BYTES_MAX, parse_yaml, plain, read_yaml


def test_scalars_mean_what_json_means_by_them_and_all_else_is_text() -> None:
    text = """\
    a: 10s
    b: 12
    c: -3.5
    d: true
    e: null
    f:
    g: no
    h: 010
    i: 12:30:45
    j: 2026-01-01
    k: "12"
    l: .inf
    m: 1e3
    n: [x, 'y y', -1]
    o: 123456789012345678901234567890
    """
    assert plain(parse_yaml(text.encode(), "f.yaml")) == {
        "a": "10s", "b": 12, "c": -3.5, "d": True, "e": None, "f": None, "g": "no", "h": "010",
        "i": "12:30:45", "j": "2026-01-01", "k": "12", "l": ".inf", "m": "1e3",
        "n": ["x", "y y", -1], "o": "123456789012345678901234567890",
    }  # fmt: skip


def test_every_value_knows_its_line_and_its_field() -> None:
    value = parse_yaml(b"# first\na:\n  - b: 1\n  - b: 2\n", "f.yaml")
    assert isinstance(value.content, dict)
    items = value.content["a"].content
    assert isinstance(items, tuple)
    fields = items[1].content
    assert isinstance(fields, dict)
    assert fields["b"].place == "f.yaml, line 4: a[1].b"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "f.yaml is empty"),
        (b"# nothing\n", "f.yaml is empty"),
        (b"a: 1\nb: 2\na: 3\n", "line 3: a is written again, after line 1"),
        (b"a: {b: 1, b: 2}\n", "line 1: a.b is written again"),
        (b"a: &x 1\nb: 2\n", "line 1: a has an anchor"),
        (b"a: 1\nb: *x\n", "line 2: b is an alias"),
        (b"a: !!python/object/apply:os.system [ls]\n", "line 1: a has a tag"),
        (b"a: !!str 5\n", "line 1: a has a tag"),
        (b"a: 1\n---\nb: 2\n", "line 2: a second document"),
        (b"a: [1\n", "line 2: this is not YAML"),
        (b"a:\n\t- 1\n", "line 2: this is not YAML"),
        (b"a: b: c\n", "line 1: this is not YAML"),
        (b"a: %x\n", "line 1: this is not YAML"),
        (b"a: 1\nb: \xff\n", "line 2: this is not UTF-8"),
        (b"a: 1\nb: \x01\n", "line 2: character #x0001"),
        (b'a: "\\0"\n', "line 1: a holds the character #x0000"),
        (b'a: "\\ud800"\n', "line 1: a holds the character #xd800"),
        (b"[1, 2]: 3\n", "line 1: has a key that is no word"),
        (b"? \n: 3\n", "has a key that is no word"),
        (b"a: " + b"[" * 40 + b"]" * 40, "is nested more than 16 deep"),
        (b"a: " + b"[" * 30_000, "is nested more than 16 deep"),
        (b"a: " + b"x" * SIZE_BYTES_MAX, "f.yaml is longer than 64 KiB"),
    ],
)
def test_what_is_not_strict_yaml_is_refused_with_file_and_line(text: bytes, says: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_yaml(text, "f.yaml")
    output = str(refused.value)
    assert output.startswith("f.yaml")
    assert says in output
    assert "\n" not in output


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda t: t.encode("utf-8"))))
def test_any_bytes_are_a_value_or_refused(content: bytes) -> None:
    with suppress(Refused):
        plain(parse_yaml(content, "f.yaml"))


PIECES = ["a", "- ", ": ", "\n", "  ", "{", "}", "[", "]", ",", "&a ", "*a", "!t ", "|", ">", "'",
          '"', "#", "---\n", "...\n", "? ", "%", "\t", "<<", "null", "1"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_pieces_of_yaml_are_a_value_or_refused(text: str) -> None:
    with suppress(Refused):
        plain(parse_yaml(text.encode(), "f.yaml"))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.yaml"):
        with pytest.raises(Refused, match="is not a file"):
            read_yaml(path, "f.yaml")
