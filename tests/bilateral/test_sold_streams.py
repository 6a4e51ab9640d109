"""A seller deploys what its content contracts promise; a reader is told where else to buy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pipelines.contracts.federation import Federation, read_federation
from pipelines.market.contracts.bilateral import BilateralContract, read_bilateral
from pipelines.market.contracts.sold_streams import advice, check_promises
from tests.bilateral.writing import CONTENT, GAMMA, SUGGESTED
from tests.contracts.writing import ALPHA, FILES, READER, READS, REPLICATED, write_contracts

PROMISE = "{recovery: rollback, method: upstream_backup}"
YEAR_2026_MS, YEAR_2027_MS = 1_780_000_000_000, 1_810_000_000_000


def folder(
    tmp_path: Path, files: Mapping[str, str]
) -> tuple[Federation, tuple[BilateralContract, ...]]:
    directory = write_contracts(tmp_path / "c", files)
    federation = read_federation(directory, tmp_path / "medusa")
    return federation, read_bilateral(directory, federation.participants)


def wrong(
    tmp_path: Path, promise: str, files: Mapping[str, str] = FILES, seller: str = "alpha"
) -> list[str]:
    """What is found wrong where this participant sells `large` with this promise."""
    buyer = "alpha" if seller == "beta" else "beta"
    text = CONTENT.replace(PROMISE, promise).replace("payer: beta", f"payer: {buyer}")
    text = text.replace("provider: alpha", f"provider: {seller}")
    federation, contracts = folder(tmp_path, {**files, "bilateral/large_for_beta.yaml": text})
    return [finding.sentence for finding in check_promises(contracts, federation)]


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("", "answers within no bound"),
        ("bound: 30s\n", "answers within a bound of 30,000 ms"),
        ("bound: 20s\n", None),
    ],
)
def test_a_seller_declares_the_bound_that_it_promises(
    tmp_path: Path, declared: str, found: str | None
) -> None:
    stream = {"streams/large.yaml": f"stream: large\n{declared}"}
    told = wrong(tmp_path, PROMISE.replace("}", ", bound: 20s}"), {**FILES, **stream})
    assert len(told) == (found is not None)
    for sentence in told:
        assert "large_for_beta.yaml, line 11: availability.bound is 20,000 ms" in sentence
        assert found is not None
        assert found in sentence


def test_active_standby_of_a_sold_stream_has_a_second_participant(tmp_path: Path) -> None:
    promise = "{recovery: precise, method: active_standby, replicas: 2}"
    (sentence,) = wrong(tmp_path, promise)
    assert "method is active_standby of stream large: 1 participant of this folder" in sentence
    assert wrong(tmp_path / "replicated", promise, REPLICATED, "beta") == []


def test_as_many_participants_compute_a_sold_stream_as_are_promised(tmp_path: Path) -> None:
    promise = "{recovery: precise, method: active_standby, replicas: 3}"
    (sentence,) = wrong(tmp_path, promise, REPLICATED, "beta")
    assert "replicas is 3 of stream large: 2 participants of this folder compute it" in sentence


def test_what_a_partner_elsewhere_promises_is_not_judged_here(tmp_path: Path) -> None:
    text = CONTENT.replace("provider: alpha", "provider: gamma").replace(PROMISE, PROMISE.replace(
        "}", ", bound: 1s}"))  # fmt: skip
    files = {**FILES, "participants/gamma.yaml": GAMMA, "bilateral/large_for_beta.yaml": text}
    federation, contracts = folder(tmp_path, files)
    assert list(check_promises(contracts, federation)) == []


def test_a_reader_is_told_where_its_seller_advises_to_buy_as_long_as_it_reads_the_stream(
    tmp_path: Path,
) -> None:
    text = SUGGESTED.replace("payer: alpha", "payer: beta").replace(
        "provider: beta", "provider: alpha"
    )
    files = {
        **FILES,
        "reader.py": READER,
        "participants/alpha.yaml": ALPHA.replace("[first]", "[first, second]"),
        "participants/beta.yaml": READS.format(name="beta"),
        "participants/gamma.yaml": GAMMA,
        "bilateral/elsewhere.yaml": text.replace("stream: result", "stream: large"),
    }
    federation, contracts = folder(tmp_path, files)
    terms = [one.terms for one in contracts]
    (sentence,) = advice(terms, federation, YEAR_2026_MS)
    assert sentence == (
        "alpha advises beta to read gamma/large instead of alpha/large in network reader "
        "(contract elsewhere)"
    )
    assert list(advice(terms, federation, YEAR_2027_MS)) == []
    other = [one for one in terms if one.contract != "elsewhere"]
    assert list(advice(other, federation, YEAR_2026_MS)) == []
