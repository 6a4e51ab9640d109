"""`medusa round` and the market in `medusa status`, over the homes of a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from medusa_core.commits import Cause, Lane
from medusa_core.loads import LoadKey, LoadSample, Shares
from medusa_core.market.documents import document_of
from medusa_core.market.terms import Terms
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from pipelines.cli.main import main
from pipelines.homes.home_logins import read_password
from pipelines.homes.signing_keys import make_key
from tests.agreements.backups import in_time
from tests.agreements.building import ALPHA, BETA, Login, a_movement, some_terms
from tests.catalog.homes_under_test import watcher_of
from tests.exchange.served import served_home
from tests.home_pool import record_homes
from tests.rounds.building import COST, LASTS, PERIOD_MS, a_price, computed, parts

Homes = dict[Participant, HomeUrls]


@pytest.fixture
def homes(
    postgres_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Homes]:
    """A folder with alpha's and beta's homes, which know each other's keys; load 0.9 and 0.3."""
    admin_url = postgres_server.superuser_url()
    urls = {name: create_home(admin_url, name, f"medusa_rounds_{name}") for name in (ALPHA, BETA)}
    record_homes(tmp_path, urls)
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", admin_url.replace("/postgres", "/{participant}"))
    keys = {name: make_key(tmp_path, name).public_key.hex() for name in urls}
    for name, count in ((ALPHA, 9), (BETA, 3)):
        owner = Login(urls[name].owner)
        for party, key in keys.items():
            owner("SELECT medusa_api.learn_key(%s, %s)", party, key)
        owner(COST, 1.0, 0.9)
        owner.connection.close()
        _deploy(urls[name], count, tmp_path)
        with watcher_of(postgres_server.superuser_url(urls[name].database)) as watcher:
            in_time(watcher, LASTS)
    yield urls
    for its in urls.values():
        drop_home(admin_url, its.database)


def _deploy(urls: HomeUrls, count: int, folder: Path) -> None:
    catalog = PostgresCatalog(urls.job, urls.participant)
    network = f"sums_{urls.participant}"
    computed(catalog, network, tuple(parts(count)), folder)
    fragments = [f"{network}/{name}" for name in parts(count)]
    by_key = {LoadKey(of, 0, Cause.NORMAL): PERIOD_MS * 100 for of in fragments}
    catalog.record_load(
        LoadSample(driver="a test", number=1, lane=Lane.LIVE, length_ms=PERIOD_MS,
                   shares=Shares(by_key=by_key), ended_ago_ms=0)
    )  # fmt: skip
    catalog.close()


def _propose(urls: HomeUrls, terms: Terms) -> None:
    owner = Login(urls.job)
    owner("SELECT medusa_market.propose_document(%s, 86400000, 'a test')", document_of(terms))
    owner.connection.close()


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_rounds_by_hand_make_a_contract_active_and_load_agreed(
    homes: Homes, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = some_terms(subject=a_movement(price=a_price("10")))
    for urls in homes.values():
        _propose(urls, terms)
    settings = Settings.from_environment()
    with served_home(settings, ALPHA), served_home(settings, BETA):
        for name in (ALPHA, BETA, ALPHA, BETA, ALPHA, BETA):
            assert main(["round", "--participant", name]) == 0
    printed = capsys.readouterr().out
    assert "offer beta 2 fragments at level 0: handing it over costs less" in printed
    assert "accept 2 fragments of 2 from alpha" in printed
    assert main(["round", "--participant", ALPHA, "--explain"]) == 0
    assert "would be open" in capsys.readouterr().out
    assert main(["round", "--participant", ALPHA]) == 0
    capsys.readouterr()
    (home,) = document(capsys, "status", "--participant", ALPHA)["homes"]  # type: ignore[misc]
    market = home["market"]
    assert [move["fragment"] for move in market["agreed_moves"]] == ["f0", "f1"]
    assert market["contracts"][0]["last_answer"] == "taken"
    assert market["offers_open"] == []
    assert main(["status", "--participant", ALPHA]) == 0
    shown = capsys.readouterr().out
    assert "agreed moves: 2 to give, 0 to take" in shown
    assert "pays beta" in shown
    assert max(map(len, shown.splitlines())) <= 100 or "folder" in shown


def test_the_market_is_checked_over_the_homes_of_a_folder(
    homes: Homes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["market", "check"]) == 0
    assert "the allocation of load is acceptable" in capsys.readouterr().out
    owner = Login(homes[ALPHA].owner)
    owner(COST, 1.0, 0.5)
    owner.connection.close()
    assert main(["market", "check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["load"] for one in found["traders"]] == pytest.approx([0.9, 0.3])
    assert found["allocation"] == {"is_acceptable": False, "within": pytest.approx(0.6)}
    assert main(["market", "check"]) == 1
    assert "another one has room for 0.600" in capsys.readouterr().out


@pytest.mark.long(quick=True)
def test_to_explain_sends_nothing_and_says_why(
    homes: Homes, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "round", "--participant", ALPHA, "--explain")
    assert (found["round"], found["decisions"]) == (1, [])
    owner = Login(homes[ALPHA].owner)
    assert owner("SELECT count(*) FROM medusa_api.rounds") == [(0,)]
    owner.connection.close()


@pytest.mark.long(quick=True)
def test_a_participant_without_a_key_is_refused_with_a_remedy(
    homes: Homes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys" / ALPHA / "signing_key").unlink()
    assert main(["round", "--participant", ALPHA]) == 4
    assert "run medusa apply" in capsys.readouterr().err
    assert main(["round", "--participant", "nobody"]) == 2


@pytest.mark.long(quick=True)
def test_the_owners_login_is_printed_as_psql_takes_it(
    homes: Homes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["contract", "login", "--participant", ALPHA]) == 0
    url = capsys.readouterr().out.strip()
    assert url.startswith("postgresql://medusa_rounds_alpha_owner@")
    assert read_password(tmp_path, ALPHA, "owner") not in url, (
        "it would be in the list of processes"
    )
    owner = Login(url)
    assert owner("SELECT current_user") == [("medusa_rounds_alpha_owner",)]
    owner.connection.close()
    assert main(["contract", "login", "--participant", "gamma"]) == 2
