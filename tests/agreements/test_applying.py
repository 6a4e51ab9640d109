"""Files of the contracts folder as edits of the homes: what is proposed, and what is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medusa_core.market.documents import revision_of
from medusa_core.market.terms import Terms
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import drop_home
from pipelines.cli.main import main
from pipelines.contracts.comparison_rows import Mark
from pipelines.contracts.public_keys import public_key_text
from pipelines.homes.home import known_homes, role_url
from pipelines.homes.signing_keys import key_path
from pipelines.market.sync.contract_proposals import (
    APPLIED,
    AgreementStatus,
    decide_agreements,
    propose_agreements,
    read_agreement_status,
)
from pipelines.market.sync.contract_sync import settle
from pipelines.platform.drills.link_faults import LinkFaults, Lost, write_faults
from tests.agreements.building import ALPHA, BETA, RAISE_PRICE, Party, a_key, some_terms
from tests.conftest import folder_on_memory
from tests.contracts.writing import FILES, write_contracts

NEW, CHANGED, SAME, LEFT = Mark.NEW, Mark.CHANGED, Mark.SAME, Mark.LEFT


def applied(terms: Terms, *parties: Party) -> list[tuple[Mark, str]]:
    """Apply a file in these homes; how it stood in each."""
    homes = {party.name: party.agreements for party in parties}
    statuses = {name: read_agreement_status(home) for name, home in homes.items()}
    changes = decide_agreements([terms], statuses, ())
    assert [error for _, error in propose_agreements(changes, homes)].count(None) == sum(
        change.proposes is not None for change in changes
    )
    settle(party.contract_sync for party in parties)
    return [(change.change.mark, change.change.detail) for change in changes]


def marks(terms: Terms, *parties: Party) -> list[Mark]:
    return [mark for mark, _ in applied(terms, *parties)]


def dearer(terms: Terms) -> Terms:
    subject: Any = terms.subject
    price = replace(subject.price, high=subject.price.high + subject.price.step)
    return replace(terms, subject=replace(subject, price=price))


def test_a_file_applied_in_both_homes_is_an_agreement_and_once_more_is_nothing(
    alpha: Party, beta: Party
) -> None:
    assert marks(some_terms(), alpha, beta) == [NEW, NEW]
    assert alpha.agreements.agreed() == beta.agreements.agreed() == {"spare_load": some_terms()}
    sent = len(alpha.post.seen)
    assert applied(some_terms(), alpha, beta) == [
        (SAME, "agreed with beta, number 1"),
        (SAME, "agreed with alpha, number 1"),
    ]
    assert len(alpha.post.seen) == sent


def test_a_file_applied_in_one_home_waits_for_the_other(alpha: Party, beta: Party) -> None:
    assert marks(some_terms(), alpha) == [NEW]
    assert applied(some_terms(), alpha) == [(SAME, "proposed, beta has not agreed yet")]
    assert marks(some_terms(), beta) == [NEW]
    settle((alpha.contract_sync, beta.contract_sync))
    assert alpha.agreements.agreed() == beta.agreements.agreed() == {"spare_load": some_terms()}


@pytest.mark.long(quick=True)
def test_a_file_that_has_changed_is_an_edit(alpha: Party, beta: Party) -> None:
    applied(some_terms(), alpha, beta)
    expected = dearer(some_terms())
    assert applied(expected, alpha) == [(CHANGED, "number 2, proposed to beta")]
    settle((alpha.contract_sync, beta.contract_sync))
    assert alpha.shows(columns="state, number") == ("proposed", 2)
    assert marks(expected, alpha, beta) == [SAME, CHANGED]
    assert marks(expected, alpha, beta) == [SAME, SAME]
    (agreed,) = beta.agreements.agreed().values()
    assert agreed == replace(expected, number=2, supersedes=revision_of(some_terms()))


@pytest.mark.long(quick=True)
def test_what_was_edited_in_sql_since_is_shown_and_never_overwritten(
    alpha: Party, beta: Party
) -> None:
    applied(some_terms(), alpha, beta)
    alpha.sql(RAISE_PRICE, 1.4)
    output = ": edit it in SQL, or make its file say the same"
    edited = (LEFT, f"edited in SQL since{output}")
    assert applied(some_terms(), alpha, beta)[0] == edited
    beta.sql(RAISE_PRICE, 1.4)
    settle((alpha.contract_sync, beta.contract_sync))
    assert applied(some_terms(), alpha, beta) == [edited, edited]
    changed = (LEFT, f"edited in SQL and in its file{output}")
    assert applied(dearer(some_terms()), alpha, beta) == [changed, changed]
    assert alpha.shows(columns="number") == beta.shows(columns="number") == (2,)
    same = dearer(dearer(some_terms()))
    assert marks(same, alpha, beta) == [SAME, SAME], "the file says it too, now"


def test_what_was_withdrawn_by_hand_is_not_proposed_again(alpha: Party, beta: Party) -> None:
    applied(some_terms(), alpha)
    alpha.sql("DELETE FROM medusa_api.contract")
    assert marks(some_terms(), alpha) == [LEFT]


@pytest.mark.long(quick=True)
def test_a_contract_that_ends_is_left_alone(alpha: Party, beta: Party) -> None:
    applied(some_terms(), alpha, beta)
    alpha.sql("DELETE FROM medusa_api.contract")
    settle((alpha.contract_sync, beta.contract_sync))
    assert marks(dearer(some_terms()), alpha, beta) == [LEFT, LEFT]


def test_a_partner_with_an_unknown_key_is_named(alpha: Party) -> None:
    terms = some_terms(provider="stranger")
    assert applied(terms, alpha) == [
        (LEFT, "no key of stranger is known here: call medusa_api.learn_key, then apply")
    ]


def test_in_a_home_that_is_not_made_everything_is_new() -> None:
    nothing = {name: AgreementStatus() for name in (ALPHA, BETA)}
    changes = decide_agreements([some_terms()], nothing, (ALPHA, BETA))
    assert [(c.participant, c.change.mark) for c in changes] == [(ALPHA, NEW), (BETA, NEW)]
    assert all(change.proposes == some_terms() for change in changes)


# ------------------------------------------------------------ the command

CONTRACT = """\
contract: spare_load
kind: movement
payer: alpha
provider: beta
currency: EUR
valid: {from: 2026-01-01T00:00:00Z, until: 2096-01-01T00:00:00Z}
settlement: 1d
notice: 7d
price: {low: 1.00, high: 1.30, step: 0.10}
load_max: 1.5
moves: [second]
reference: [main/seen=0.5, main/counted=2]
availability: {recovery: precise, method: upstream_backup}
penalty: 5.00
hold_max: 1d
"""


@pytest.fixture
def directory(postgres_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty MEDUSA_DIR whose homes lie on the run's server."""
    folder = folder_on_memory("medusa-agreeing-")
    url = postgres_server.superuser_url()
    monkeypatch.setenv("MEDUSA_CATALOG_URL", url)
    monkeypatch.setenv("MEDUSA_DIR", str(folder / "medusa"))
    yield folder / "medusa"
    for database in known_homes(folder / "medusa").values():
        drop_home(url, database)
    shutil.rmtree(folder)


def test_applying_makes_homes_keys_and_agreements(
    directory: Path,
    tmp_path: Path,
    postgres_server: EmbeddedServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = {**FILES, "bilateral/spare_load.yaml": CONTRACT}
    folder = write_contracts(tmp_path / "contracts", files)

    def run(*arguments: str) -> list[str]:
        assert main(["apply", "--contracts", str(folder), *arguments]) == 0
        printed = capsys.readouterr()
        assert all("gamma is not known here" in line for line in printed.err.splitlines())
        return [line for line in printed.out.splitlines() if "  contract  " in line]

    assert [line[0] for line in run("--explain")] == ["+", "+"]
    assert not directory.exists()
    # Somebody else's participant, known by its key alone, has no home here.
    shown = public_key_text(a_key("gamma").public_key)
    somebody_elses = {
        "participants/gamma.yaml": f"participant: gamma\npublic_key: {shown}\n",
        "bilateral/with_gamma.yaml": CONTRACT.replace("beta", "gamma").replace(
            "spare_load", "with_gamma"
        ),
    }
    write_contracts(folder, somebody_elses)
    assert [line[0] for line in run("--participant", "alpha")] == ["!", "+"], "beta has no key yet"
    assert [line[0] for line in run()] == ["+", "=", "+"]
    again = run()
    assert [line[0] for line in again] == ["=", "=", "="]
    assert set(known_homes(directory)) == {"alpha", "beta"}
    assert "agreed with beta, number 1" in again[0]
    for name in known_homes(directory):
        url = role_url(directory, postgres_server.address, name, "job")
        agreements = PostgresAgreements(url, name)
        assert list(agreements.agreed()) == ["spare_load"], "gamma has signed nothing"
        assert agreements.own_proposals()["spare_load"].because == APPLIED
        assert agreements.verify_audit() is None
        agreements.close()
        secret = key_path(directory, name).read_bytes()
        assert secret not in (directory / "home.json").read_bytes()


@pytest.mark.long(quick=True)
def test_over_a_link_that_is_cut_nothing_is_agreed(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**FILES, "bilateral/spare_load.yaml": CONTRACT}
    folder = write_contracts(tmp_path / "contracts", files)

    def run() -> tuple[str, str]:
        assert main(["apply", "--contracts", str(folder)]) == 0
        printed = capsys.readouterr()
        return printed.out, printed.err

    directory.mkdir()
    write_faults(directory, LinkFaults().with_lost(Lost(ALPHA, BETA), Lost(BETA, ALPHA)))
    assert "the link is cut by a drill" in run()[1]
    assert "agreed with beta" not in run()[0]
    write_faults(directory, LinkFaults())
    assert "cut by a drill" not in run()[1], "what was not sent is sent at once"
    assert "agreed with beta" in run()[0]
