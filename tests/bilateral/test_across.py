"""Bilateral contracts against each other and their folder: overlaps, strangers, limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.contracts.participants import read_participants
from pipelines.market.contracts import bilateral
from pipelines.market.contracts.bilateral import examine_bilateral, read_bilateral
from tests.bilateral.writing import (
    CONTENT,
    MOVEMENT,
    SUGGESTED,
    TEXTS,
    examine,
    write_bilateral,
)

AFTER = MOVEMENT.replace("until: 2027", "until: 2028").replace("from: 2026", "from: 2027")


def named(text: str, name: str) -> str:
    """A contract under another name."""
    return text.replace(text.partition("\n")[0], f"contract: {name}")


def told(folder: Path, *texts: str) -> list[str]:
    """What is wrong with contracts whose names are a, b, c …"""
    contracts = {name: named(text, name) for name, text in zip("abc", texts, strict=False)}
    return [finding.sentence for finding in examine(folder, contracts).findings]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (MOVEMENT, MOVEMENT),
        (MOVEMENT, MOVEMENT.replace("from: 2026", "from: 2020")),
        (MOVEMENT, MOVEMENT.replace("until: 2027-01-01T00", "until: 2026-01-01T01")),
        (AFTER.replace("from: 2027-01-01T00:00:00Z", "from: 2026-12-31T23:59:59.999Z"), MOVEMENT),
        (MOVEMENT, MOVEMENT.replace("moves: [first, second]", "moves: [second]")),
        (MOVEMENT, MOVEMENT.replace("moves: [first, second]", "moves: any")),
        (MOVEMENT, MOVEMENT.replace("moves: [first, second]", "moves: [mine.first]")),
        (CONTENT, CONTENT.replace("per: record", "per: period")),
        (SUGGESTED, SUGGESTED),
    ],
)
def test_two_contracts_about_the_same_are_never_valid_at_once(
    tmp_path: Path, first: str, second: str
) -> None:
    (sentence,) = told(tmp_path, first, second)
    assert "line 6: valid begins before" in sentence or "line 5: valid begins" in sentence
    assert "let one begin when the other has ended" in sentence
    assert "a.yaml, line" in sentence
    assert "b.yaml, line" in sentence


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (MOVEMENT, AFTER),
        (AFTER, MOVEMENT),
        (MOVEMENT, MOVEMENT.replace("beta", "?").replace("alpha", "beta").replace("?", "alpha")),
        (MOVEMENT, MOVEMENT.replace("provider: alpha", "provider: gamma")),
        (CONTENT, CONTENT.replace("stream: large", "stream: ticks")),
        (
            MOVEMENT.replace("moves: [first, second]", "moves: [first]"),
            MOVEMENT.replace("moves: [first, second]", "moves: [second]"),
        ),
        (MOVEMENT, CONTENT),
        (SUGGESTED, CONTENT.replace("large", "result")),
    ],
)
def test_contracts_may_follow_each_other_or_be_about_something_else(
    tmp_path: Path, first: str, second: str
) -> None:
    assert told(tmp_path, first, second) == []


def test_a_contract_that_is_inside_a_longer_one_before_it_is_found(tmp_path: Path) -> None:
    long = MOVEMENT.replace("until: 2027", "until: 2030")
    late = AFTER.replace("from: 2027", "from: 2029").replace("until: 2028", "until: 2031")
    sentences = told(tmp_path, long, AFTER, late)
    assert len(sentences) == 2
    assert all("ends at 2030-01-01T00:00:00Z" in sentence for sentence in sentences)


def test_of_a_party_whose_networks_are_elsewhere_any_fragment_and_stream_is_taken(
    tmp_path: Path,
) -> None:
    moved = MOVEMENT.replace("payer: beta", "payer: gamma").replace("[first, second]", "[theirs]")
    sold = CONTENT.replace("provider: alpha", "provider: gamma").replace("large", "theirs")
    contracts = {"spare": moved, "theirs_for_beta": sold}
    examined = examine(tmp_path, contracts)
    assert examined.findings == ()
    assert [c.terms.contract for c in examined.contracts] == ["spare", "theirs_for_beta"]


def test_a_network_that_cannot_be_run_is_told_and_its_runners_names_are_left_alone(
    tmp_path: Path,
) -> None:
    directory = write_bilateral(tmp_path, {"spare": MOVEMENT})
    (directory / "mine.py").write_text("network = 3\n")
    findings = examine_bilateral(directory, read_participants(directory)).findings
    assert [(Path(f.file).name, f.line) for f in findings] == [("alpha.yaml", 3)]
    assert "cannot be run" in findings[0].sentence


def test_reading_refuses_with_the_first_finding_and_says_how_many_more_there_are(
    tmp_path: Path,
) -> None:
    wrong = (
        MOVEMENT.replace("EUR", "euro").replace("1.30", "x").replace("kind: movement", "kind: x")
    )
    directory = write_bilateral(
        tmp_path, {"spare": MOVEMENT.replace("EUR", "€").replace("1.0", "x")}
    )
    with pytest.raises(Refused, match=r"line 5: currency .* \(and 1 more: `medusa contract check`"):
        read_bilateral(directory, read_participants(directory))
    directory = write_bilateral(tmp_path, {"spare": wrong})
    with pytest.raises(Refused, match=r"spare.yaml, line 2: kind is 'x'.* or suggested$"):
        read_bilateral(directory, read_participants(directory))


def test_a_folder_without_bilateral_contracts_has_none(tmp_path: Path) -> None:
    directory = write_bilateral(tmp_path, {})
    assert read_bilateral(directory, read_participants(directory)) == ()


def test_what_a_file_says_is_found_again_by_its_field(tmp_path: Path) -> None:
    (contract,) = examine(tmp_path, {"spare": MOVEMENT}).contracts
    assert contract.at.line == 1
    assert {name: at.line for name, at in contract.places.items() if "." in name} == {
        "valid.from": 6, "valid.until": 6, "price.low": 10, "price.high": 11, "price.step": 12,
        "availability.recovery": 18, "availability.method": 19, "availability.replicas": 20,
        "availability.bound": 21,
    }  # fmt: skip
    assert contract.places["moves[1]"].content == "second"


# ------------------------------------------------------------ files and limits


def test_files_that_are_not_contracts_are_reported_or_left_alone(tmp_path: Path) -> None:
    directory = write_bilateral(tmp_path, TEXTS)
    folder = directory / "bilateral"
    (folder / "notes.txt").write_text("nothing")
    (folder / ".hidden.yaml").write_text("nothing")
    (folder / "other.yml").write_text(MOVEMENT)
    (folder / "folder.yaml").mkdir()
    (folder / "gone.yaml").symlink_to(directory / "nowhere.yaml")
    (folder / "away.yaml").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "empty.yaml").write_text("")
    (folder / "latin.yaml").write_bytes("contract: é".encode("latin-1"))
    examined = examine_bilateral(directory, read_participants(directory))
    assert [contract.terms.contract for contract in examined.contracts] == sorted(TEXTS)
    told = {Path(f.file).name: f.sentence for f in examined.findings}
    expected = {
        "other.yml": "name it other.yaml",
        "folder.yaml": "is not a file",
        "gone.yaml": "is not a file",
        "away.yaml": "leads out of",
        "pipe.yaml": "is not a file",
        "empty.yaml": "is empty",
        "latin.yaml": "is not UTF-8",
    }
    assert told.keys() == expected.keys()
    for name, says in expected.items():
        assert says in told[name]


def test_more_files_than_anybody_needs_are_refused_before_one_is_read(tmp_path: Path) -> None:
    directory = write_bilateral(tmp_path, {})
    (directory / "bilateral").mkdir()
    for number in range(bilateral.FILES_MAX + 1):
        os.mkfifo(directory / "bilateral" / f"c{number}.yaml")
    with pytest.raises(Refused, match=r"holds more than 2,000 files: keep the contracts"):
        examine_bilateral(directory, None)


def test_longer_files_than_anybody_needs_are_refused_before_one_is_read(tmp_path: Path) -> None:
    directory = write_bilateral(tmp_path, {})
    (directory / "bilateral").mkdir()
    for number in range(5):
        with (directory / "bilateral" / f"c{number}.yaml").open("wb") as sparse:
            sparse.truncate(1024**2)
    with pytest.raises(Refused, match=r"are longer than 4 MiB together"):
        examine_bilateral(directory, None)


def test_a_file_full_of_mistakes_reports_the_first_ones(tmp_path: Path) -> None:
    unknown = "".join(f"field_{number}: 1\n" for number in range(3_000))
    twice = MOVEMENT.replace("[first, second]", f"[{'9, ' * 15_000}9]")
    examined = examine(tmp_path, {"spare": MOVEMENT + unknown, "twice": twice})
    counts = [sum(f.file.endswith(name) for f in examined.findings) for name in ("spare.yaml",)]
    assert counts == [bilateral.FINDINGS_MAX]
    assert len(examined.findings) <= 2 * bilateral.FINDINGS_MAX + 1
