"""Every stream that ships leaves as a document that follows the standard."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.contracts.data_contract import data_contract_of, streams_described
from pipelines.contracts.data_contract_text import data_contract_text, departures
from pipelines.contracts.federation import read_federation
from pipelines.language.load import SHIPPED, load_network
from tests.contracts.writing import REPLICATED, write_contracts
from tests.sweeps import long_but

SOURCE = "stream: {name}\nsource: {{kind: directory, path: incoming}}\n"
EVERY_TYPE = '''"""All types that a column may have, and a key."""
from medusa_core.network import Map, Network, Output, Source

network = Network(
    name="typed",
    sources=(
        Source(
            name="events",
            columns={
                "at": "timestamp", "yes": "boolean", "i": "int", "b": "bigint", "d": "double",
                "s": "string", "raw": "binary", "day": "date", "money": "decimal(12,2)",
                "whole": "decimal(20,0)",
            },
            time="at",
            key=("s", "i"),
        ),
    ),
    boxes=(Map(name="m", input="events", columns={"s": "s"}),),
    outputs=(Output(name="texts", input="m"),),
)
'''


def documents(folder: Path, files: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """The document of every stream of a contracts folder."""
    federation = read_federation(write_contracts(folder / "c", files), folder / "none")
    return {name: data_contract_of(one) for name, one in streams_described(federation).items()}


@pytest.mark.parametrize("network", long_but(1, SHIPPED, quick=True))
def test_every_stream_that_ships_follows_the_standard(tmp_path: Path, network: str) -> None:
    loaded = load_network(network)
    sources = [source.name for source in loaded.sources]
    runs = f"{{network: {network}, sources: [{', '.join(sources)}], fragments: [main]}}"
    found = documents(
        tmp_path,
        {
            "participants/solo.yaml": f"participant: solo\nruns:\n  - {runs}\n",
            **{f"streams/{name}.yaml": SOURCE.format(name=name) for name in sources},
        },
    )
    assert set(found) >= {*sources, *(output.name for output in loaded.outputs)}
    for name, document in found.items():
        text = data_contract_text(document)
        assert departures(yaml.safe_load(text)) == []
        assert document["schema"][0]["name"] == name
        assert document["version"] not in {d["version"] for n, d in found.items() if n != name}


def test_columns_have_the_standards_types_and_the_key_is_checked(tmp_path: Path) -> None:
    found = documents(
        tmp_path,
        {
            "typed.py": EVERY_TYPE,
            "participants/solo.yaml": "participant: solo\nruns:\n  - network: typed.py\n"
            "    sources: [events]\n    fragments: [main]\n",
            "streams/events.yaml": SOURCE.format(name="events"),
        },
    )
    (schema,) = found["events"]["schema"]
    types = {p["name"]: (p["logicalType"], p["physicalType"]) for p in schema["properties"]}
    assert types == {
        "stime": ("timestamp", "timestamp"), "at": ("timestamp", "timestamp"),
        "yes": ("boolean", "boolean"), "i": ("integer", "int"), "b": ("integer", "bigint"),
        "d": ("number", "double"), "s": ("string", "string"), "raw": ("string", "binary"),
        "day": ("date", "date"), "money": ("number", "decimal(12,2)"),
        "whole": ("integer", "decimal(20,0)"),
    }  # fmt: skip
    keys = {p["name"]: p["primaryKeyPosition"] for p in schema["properties"] if "primaryKey" in p}
    assert keys == {"s": 1, "i": 2}
    assert schema["quality"][0]["arguments"] == {"properties": ["s", "i"]}
    data_contract_text(found["events"])
    assert "arguments" not in found["texts"]["schema"][0]["quality"][0]


def test_what_is_promised_of_a_stream_is_in_its_document(tmp_path: Path) -> None:
    files = {
        **REPLICATED,
        "streams/large.yaml": "stream: large\nbound: 12500ms\nretention: 7d\nverify: 2\n",
    }
    found = documents(tmp_path, files)
    levels = {level["property"]: level["value"] for level in found["large"]["slaProperties"]}
    assert levels == {
        "frequency": 10, "latency": Decimal("12.5"), "lag": 0, "retention": 604_800, "verify": 2
    }  # fmt: skip
    assert "by beta and gamma" in found["large"]["description"]["purpose"]
    assert "value: 12.5\n" in data_contract_text(found["large"])
    other = documents(
        tmp_path / "b", {**files, "streams/large.yaml": "stream: large\nbound: 13s\n"}
    )
    assert other["large"]["version"] != found["large"]["version"]
    assert other["result"]["version"] == found["result"]["version"]


def test_a_document_that_does_not_follow_the_standard_is_never_written() -> None:
    assert departures({"kind": "DataContract"})
    with pytest.raises(AssertionError, match="is a required property"):
        data_contract_text({"kind": "DataContract", "apiVersion": "v3.1.0"})
