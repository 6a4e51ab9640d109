"""What commands say of records on which a Map failed that feeds two outputs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medusa_core.knowledge import Limits
from medusa_core.network import Map, Network, Output, Source
from tests.cli.kept import Kept, kept_replay
from tests.conftest import folder_on_memory

Run = Callable[..., Any]
S = 1_000_000
BY_ZERO = "column ratio of box share: division by zero"
OVERFLOW = "column more of box share: overflow"

network = Network(
    name="shares",
    sources=(
        Source(name="readings", columns={"at_us": "bigint", "n": "int", "of": "int"},
               time="at_us"),
    ),
    boxes=(
        Map(name="share", input="readings",
            columns={"n": "n", "ratio": "n div of", "more": "n + 1"}),
        Map(name="ratio", input="share", columns={"ratio": "ratio"}),
        Map(name="plain", input="share", columns={"n": "n"}),
    ),
    outputs=(Output(name="ratios", input="ratio"), Output(name="plains", input="plain")),
)  # fmt: skip


@pytest.fixture(scope="module")
def shares(spark: Any) -> Iterator[Kept]:
    folder = folder_on_memory("medusa-kept-")
    file = folder / "readings.csv"
    lines = ["at_us,n,of", f"{S},6,3", f"{2 * S},7,0", f"{3 * S},2147483647,1", f"{4 * S},8,0"]
    file.write_text("\n".join(lines) + "\n")
    with kept_replay(folder, network, [file], spark, Limits()) as kept:
        yield kept
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("stream", ["ratios", "plains"])
def test_each_output_shows_what_it_lacks_with_the_cause_and_all_outputs(
    medusa: Run, shares: Kept, stream: str
) -> None:
    rows = json.loads(medusa(shares, "read", stream, "--json").out)["rows"]
    assert len(rows) == 1
    document = json.loads(medusa(shares, "read", stream, "--quarantine", "--json").out)
    assert document["count"] == 3
    assert [(r["position"], r["reason"]) for r in document["records"]] == [
        (2 * S, BY_ZERO), (3 * S, OVERFLOW), (4 * S, BY_ZERO),
    ]  # fmt: skip
    assert all(r["outputs"] == ["ratios", "plains"] for r in document["records"])
    printed = medusa(shares, "read", stream, "--quarantine").out
    assert "ratios, plains" in printed
    assert f"3 of 3 records of {stream} in quarantine" in printed


def test_a_record_that_two_outputs_lack_is_one_record(medusa: Run, shares: Kept) -> None:
    assert json.loads(medusa(shares, "read", "--quarantine", "--json").out)["count"] == 3
    quarantine = json.loads(medusa(shares, "status", "--json").out)["homes"][0]["quarantine"]
    assert quarantine["records"] == 3
    assert [(q["stream"], q["reason"], q["records"]) for q in quarantine["by_reason"]] == [
        ("plains", BY_ZERO, 2), ("ratios", BY_ZERO, 2),
        ("plains", OVERFLOW, 1), ("ratios", OVERFLOW, 1),
    ]  # fmt: skip
    assert not json.loads(
        medusa(shares, "read", "readings", "--quarantine", "--json").out
    )["records"]  # fmt: skip


@pytest.mark.parametrize("stream", ["ratios", "plains"])
@pytest.mark.parametrize("what", ["export", "retry"])
def test_no_output_that_is_named_takes_a_repaired_record(
    medusa: Run, shares: Kept, tmp_path: Path, what: str, stream: str
) -> None:
    file = tmp_path / "repaired.json"
    if what == "retry":
        entry = shares.home.catalog.quarantine_entries()[0]
        file.write_text(json.dumps({"quarantine": entry.number, "record": {}}) + "\n")
    ran = medusa(shares, "quarantine", what, stream, str(file))
    assert ran.code == 2
    assert "is computed, not landed" in ran.err
