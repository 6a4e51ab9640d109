"""Whatever stands in a contract's fields: terms come of it, or sentences, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, event, given, settings

from medusa_core.market.documents import document_of, terms_of
from pipelines.market.contracts.bilateral import examine_bilateral
from tests.bilateral.drawn_files import files


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=files())
def test_terms_or_sentences_come_of_every_file(tmp_path: Path, file: dict[str, Any]) -> None:
    path = tmp_path / "bilateral" / f"{file.get('contract') or 'unnamed'!s:.20}.yaml"
    path = path.with_name(path.name.replace("/", "_").replace("\0", "_"))
    path.parent.mkdir(exist_ok=True)
    for other in path.parent.iterdir():
        other.unlink()
    path.write_text(json.dumps(file, ensure_ascii=False), encoding="utf-8")
    examined = examine_bilateral(tmp_path, None)
    event("read" if examined.contracts else "refused")
    assert len(examined.contracts) + bool(examined.findings) == 1
    for contract in examined.contracts:
        document = document_of(contract.terms)
        assert document_of(terms_of(document)) == document
    for finding in examined.findings:
        assert finding.sentence.startswith(f"{path}")
        assert ": " in finding.sentence
