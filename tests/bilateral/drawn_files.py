"""Drawn files of bilateral contracts: valid ones with values changed, added and removed."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pipelines.contracts.yaml_values import parse_yaml, plain
from tests.bilateral.writing import TEXTS

BASES: list[dict[str, Any]] = [
    plain(parse_yaml(text.encode(), "f.yaml")) for text in TEXTS.values()  # type: ignore[misc]
]  # fmt: skip
NAMES = sorted({name for base in BASES for name in base})
INSIDE = ["low", "high", "step", "from", "until", "recovery", "method", "replicas", "bound"]

_texts = st.sampled_from(
    ["any", "none", "1d", " 1d", "1 d", "0s", "5us", "400d", "1.30", "01", "1e3", "alpha", "EUR",
     "eur", "core", "1970-01-01T00:00Z", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59.999Z",
     "net.first", "content", "gap", "precise", "amnesia", "active_standby", "period", "normal"]
)  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2000)
    | st.integers(-(10**15), 10**15)
    | st.floats(0, 10**13).map(lambda number: round(number, 4))
    | st.text(st.characters(codec="utf-8"), max_size=8).filter(str.isprintable)
    | _texts
)
values = st.recursive(
    scalars,
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(INSIDE), inside, max_size=4)
    ),
    max_leaves=6,
)


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """A contract's file, as JSON has it: a valid one, with up to three fields changed."""
    file = dict(draw(st.sampled_from(BASES)))
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=1)):
        file.pop(name, None)
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)):
        inside = file.get(name)
        if isinstance(inside, dict) and draw(st.booleans()):
            part = draw(st.sampled_from(INSIDE))
            file[name] = inside | {part: draw(scalars)}
        else:
            file[name] = draw(values)
    return file
