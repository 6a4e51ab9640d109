"""Whatever stands in a contract's fields: terms come of it, or sentences, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from medusa_core.market.documents import document_of, terms_of
from pipelines.contracts.yaml_values import Value, parse_yaml, plain
from pipelines.market.contracts.bilateral_findings import Finding
from pipelines.market.contracts.bilateral_schema import check_shape
from pipelines.market.contracts.bilateral_terms import NotRead, terms_of_file
from tests.bilateral.writing import TEXTS

BASES: list[dict[str, Any]] = [
    plain(parse_yaml(text.encode(), "f.yaml")) for text in TEXTS.values()  # type: ignore[misc]
]  # fmt: skip
NAMES = sorted({name for base in BASES for name in base})

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(0, 10**13).map(lambda number: round(number, 4))
    | st.text(st.characters(codec="utf-8"), max_size=8).filter(str.isprintable)
    | st.sampled_from(["any", "none", "1d", "0s", "1.30", "2026-13-01T00:00:00Z", "alpha", "EUR"])
    | st.sampled_from(["1970-01-01T00:00Z", "content", "precise", "amnesia", "period", "core"])
)
values = st.recursive(
    scalars, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(
        st.sampled_from(["low", "high", "step", "from", "until", "recovery", "method", "replicas"]),
        inside, max_size=4,
    ), max_leaves=6,
)  # fmt: skip


def read(document: Value) -> tuple[bytes | None, list[Finding]]:
    """The document that comes of a file, or what is wrong with it."""
    findings = list(check_shape(document))
    if findings:
        return None, findings
    try:
        return document_of(terms_of_file(document)), []
    except NotRead as not_read:
        return None, not_read.findings


@given(
    base=st.sampled_from(BASES),
    changed=st.dictionaries(st.sampled_from(NAMES), values, max_size=3),
    lacking=st.sets(st.sampled_from(NAMES), max_size=1),
)
def test_terms_or_sentences_come_of_every_file(
    base: dict[str, Any], changed: dict[str, Any], lacking: set[str]
) -> None:
    fields = {name: base[name] for name in base if name not in lacking} | changed
    text = json.dumps(fields, ensure_ascii=False)
    document, findings = read(parse_yaml(text.encode(), "f.yaml"))
    event("read" if document is not None else "refused")
    assert (document is None) == bool(findings)
    if document is not None:
        assert document_of(terms_of(document)) == document
    for finding in findings:
        assert finding.sentence.startswith("f.yaml, line 1")
        assert ": " in finding.sentence
