"""`medusa apply` over real homes: what it prints, what stands afterwards, and its exit codes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import create_engine, text

from medusa_core.commits import Cause, Commit, LeaseKey, OutputSegment
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.names import FIRST_EPOCH, Participant, StreamName
from medusa_core.segments import Producer, Stability
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.postgres.partners import Partners
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import drop_home
from pipelines.cli.main import main
from pipelines.contracts.home_snapshot import read_home_snapshot
from pipelines.contracts.reach import PURPOSE
from pipelines.homes.home import RECORD, known_homes, open_home, open_homes
from pipelines.homes.network_files import kept_file, network_of_plan
from tests.conftest import folder_on_memory
from tests.contracts.shipped import SITES
from tests.contracts.writing import (
    ALPHA,
    FILES,
    NETWORK,
    TICKS,
    WITH_FUNCTION,
    write_contracts,
)
from tests.home_pool import home_pool

MINUTE_US = 60_000_000
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
WINDOWS = '''"""Sums of ticks."""
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="mine",
    sources=(Source(name="ticks", columns={"ts_us": "bigint", "n": "int"}, time="ts_us"),),
    boxes=(Aggregate(name="sums", input="ticks", size="20s", advance="10s",
                     columns={"most": "max(n)"}),),
    outputs=(Output(name="result", input="sums"),),
)
'''
WINDOWED = {
    "mine.py": WINDOWS,
    "participants/alpha.yaml": ALPHA.replace("[first]", "[main]"),
    "streams/ticks.yaml": TICKS,
}
CHANGED = {**FILES, "mine.py": NETWORK.replace("n > 1", "n > 2")}


@dataclass(frozen=True)
class Ran:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str

    @property
    def marks(self) -> list[str]:
        """The first column of the plan."""
        return [line[0] for line in self.out.splitlines() if line[:3] in ("+  ", "~  ", "=  ")]


Apply = Callable[..., Ran]


@pytest.fixture
def settings(
    postgres_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    """An empty MEDUSA_DIR whose homes lie on the run's server."""
    folder = folder_on_memory("medusa-apply-")
    url = postgres_server.superuser_url()
    monkeypatch.setenv("MEDUSA_CATALOG_URL", url)
    monkeypatch.setenv("MEDUSA_DIR", str(folder / "medusa"))
    yield Settings(catalog_url=url, directory=folder / "medusa", test_data=folder)
    for database in known_homes(folder / "medusa").values():
        drop_home(url, database)
    shutil.rmtree(folder)


@contextmanager
def homes_made(
    server: EmbeddedServer, settings: Settings, *participants: Participant
) -> Iterator[None]:
    """Homes of these, as an earlier `apply` has made them: lent, since making takes long."""
    with home_pool(server, settings.directory, *participants):
        yield
    others = {n: d for n, d in known_homes(settings.directory).items() if n not in participants}
    (settings.directory / RECORD).write_text(json.dumps({"participants": others}))


@pytest.fixture
def made(postgres_server: EmbeddedServer, settings: Settings) -> Iterator[None]:
    """The homes of both participants, for tests that are not about making them."""
    with homes_made(postgres_server, settings, Participant("alpha"), Participant("beta")):
        yield


@pytest.fixture
def apply(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """Write contracts and apply them."""

    def run(*arguments: str, files: Mapping[str, str] = FILES) -> Ran:
        shutil.rmtree(tmp_path / "contracts", ignore_errors=True)
        folder = write_contracts(tmp_path / "contracts", files)
        code = main(["apply", "--contracts", str(folder), *arguments])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run


def home_url(settings: Settings, participant: str) -> str:
    with open_homes(settings, alone=False) as homes:
        url = homes.url(Participant(participant))
        assert url is not None
        return url


def logs(settings: Settings, participant: str) -> dict[str, list[tuple[int, int | None]]]:
    """Fragment -> (epoch, first bucket) of each line in a home."""
    name = Participant(participant)
    with open_homes(settings, alone=False) as homes:
        url = homes.url(name)
        assert url is not None
        log = read_home_snapshot(url, name).log
    return {f: [(line.epoch, line.from_us) for line in lines] for f, lines in log.items()}


def begin(settings: Settings, at_us: int) -> None:
    """Let the source begin at an event time."""
    with open_home(settings, Participant("alpha")) as home:
        (epoch,) = {e for e, _ in logs(settings, "alpha")["landing/ticks"][-1:]}
        key = LeaseKey(fragment="landing/ticks", producer=Producer(Participant("alpha")))
        lease = home.catalog.acquire_lease(key, epoch, "me", 60_000)  # type: ignore[arg-type]
        home.catalog.promise(
            lease, StreamName("ticks"), origin_us=at_us, boundary_us=at_us, end_us=None
        )
        home.catalog.release_lease(lease)


def test_explaining_prints_the_plan_and_makes_nothing(apply: Apply, settings: Settings) -> None:
    ran = apply("--explain")
    assert ran.code == 0
    assert set(ran.marks) == {"+"}
    assert "leave --explain out" in ran.out
    assert not settings.directory.exists()


def test_contracts_are_applied_to_the_homes_and_again_change_nothing(
    apply: Apply, settings: Settings
) -> None:
    first = apply()
    assert first.code == 0
    assert set(first.marks) == {"+"}
    assert "alpha: applied\nbeta: applied\n" in first.out
    again = apply()
    assert set(again.marks) == {"="}
    assert len(again.marks) == len(first.marks)
    assert ": applied" not in again.out
    with open_home(settings, Participant("alpha")) as home:
        assert {(s.stream.name, str(s.producer)) for s in home.catalog.streams()} == {
            ("ticks", "alpha/0"),
            ("large", "alpha/0"),
        }
        (document,) = home.catalog.sources().values()
        assert json.loads(document)["path"].endswith("/contracts/incoming")
    with open_home(settings, Participant("beta")) as home:
        assert {(s.stream.name, str(s.producer)) for s in home.catalog.streams()} == {
            ("large", "alpha/0"),
            ("result", "beta/0"),
        }
        assert not home.catalog.sources()
    assert logs(settings, "beta") == {
        "import/large": [(1, None)],
        "mine/first": [(1, None)],
        "mine/second": [(1, None)],
    }


def url_of(settings: Settings, participant: str, role: str = "job") -> str:
    """How a role logs in to a home."""
    with open_homes(settings, alone=False) as homes:
        url = homes.url(Participant(participant), role)
        assert url is not None
        return url


def access(settings: Settings, participant: str) -> tuple[object, Mapping[Participant, bytes]]:
    """What partners may read of a home, and the keys that it knows."""
    name, url = Participant(participant), url_of(settings, participant)
    with closing(PostgresAgreements(url, name)) as agreements:
        grants = read_home_snapshot(url, name).grants
        return {(grant.stream, grant.partner) for grant in grants}, agreements.keys()


def key_of(settings: Settings, name: str) -> bytes:
    """A participant's key as its file has it."""
    secret = (settings.directory / "keys" / name / "signing_key").read_text()
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
    return private.public_key().public_bytes_raw()


@pytest.mark.usefixtures("made")
def test_who_reads_a_stream_is_granted_it_and_both_know_each_others_keys(
    apply: Apply, settings: Settings
) -> None:
    apply()
    keys = {name: key_of(settings, name) for name in ("alpha", "beta")}
    assert access(settings, "alpha") == ({("large", "beta")}, keys)
    assert access(settings, "beta") == (set(), keys)


@pytest.mark.usefixtures("made")
def test_a_partner_that_was_removed_is_granted_nothing_by_the_next_apply(
    apply: Apply, settings: Settings
) -> None:
    apply()
    beta = Participant("beta")
    with closing(Partners(url_of(settings, "alpha", "owner"))) as partners:
        assert partners.remove(beta)
        ran = apply()
        assert re.search(r" large +nobody \(left out: beta, removed\)", ran.out)
        assert access(settings, "alpha")[0] == set()
        assert holders(settings, "alpha", "large") == set()
        partners.add(beta, key_of(settings, "beta"), None, None)
        apply()
    assert access(settings, "alpha")[0] == {("large", "beta")}
    assert holders(settings, "alpha", "large") == {"beta"}


def holders(settings: Settings, participant: str, stream: str) -> set[str]:
    """For whom a home keeps a stream."""
    with closing(PostgresCatalog(url_of(settings, participant), Participant(participant))) as home:
        return {hold.holder for hold in home.holds(StreamName(stream))}


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_homes_of_a_folder_know_each_others_keys_though_no_contract_names_both(
    apply: Apply, settings: Settings
) -> None:
    apart = {**WINDOWED, "participants/beta.yaml": "participant: beta\n"}
    assert apply(files=apart).code == 0
    keys = {name: key_of(settings, name) for name in ("alpha", "beta")}
    assert [access(settings, name) for name in keys] == [(set(), keys), (set(), keys)]


@pytest.mark.usefixtures("made")
def test_the_key_that_the_owner_declared_of_a_partner_elsewhere_stays(
    apply: Apply, settings: Settings
) -> None:
    alpha, partner_key = Participant("alpha"), bytes(range(32))
    apply("--participant", "alpha")
    with closing(PostgresAgreements(url_of(settings, alpha), alpha)) as agreements:
        agreements.learn_key(Participant("beta"), partner_key, "declared by the owner")
    again = apply("--participant", "alpha")
    assert (again.code, set(again.marks)) == (0, {"="})
    assert not (settings.directory / "keys" / "beta" / "signing_key").exists()
    keys = {"alpha": key_of(settings, "alpha"), "beta": partner_key}
    assert access(settings, "alpha") == ({("large", "beta")}, keys)


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_a_withdrawn_grant_is_given_again_while_the_contracts_need_it_and_others_are_named(
    apply: Apply, settings: Settings
) -> None:
    apply()
    owner = create_engine(
        catalog_url(url_of(settings, "alpha", "owner")), isolation_level="AUTOCOMMIT"
    )
    with owner.connect() as connection:
        connection.execute(text("SELECT medusa_api.withdraw_stream('large', 'beta')"))
        connection.execute(text("SELECT medusa_api.grant_stream('ticks', 'gamma')"))
    owner.dispose()
    again = apply()
    assert again.out.count("+  ") == 1
    assert "gamma may read ticks of alpha, which no contract here needs" in again.out
    granted, _ = access(settings, "alpha")
    assert granted == {("large", "beta"), ("ticks", "gamma")}


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_applying_one_participant_at_a_time_gives_the_same_result(
    apply: Apply, settings: Settings
) -> None:
    for name in ("beta", "alpha"):
        ran = apply("--participant", name, "--json")
        document = json.loads(ran.out)
        assert [home["participant"] for home in document["homes"]] == [name]
        assert document["is_applied"]
    assert set(apply().marks) == {"="}
    keys = {name: key_of(settings, name) for name in ("alpha", "beta")}
    assert access(settings, "alpha") == ({("large", "beta")}, keys)
    assert access(settings, "beta") == (set(), keys)


@pytest.mark.usefixtures("made")
def test_a_changed_network_is_a_new_plan_from_a_named_bucket(
    apply: Apply, settings: Settings
) -> None:
    apply()
    begin(settings, 2 * MINUTE_US)
    asked = apply(files=CHANGED)
    assert asked.code == 2
    assert "the first possible one is 1970-01-01T00:02:00Z" in asked.err
    early = apply("--from", "1970-01-01T00:01:00Z", files=CHANGED)
    assert early.code == 2
    assert "the first possible bucket is 1970-01-01T00:02:00Z" in early.err
    done = apply("--from", "1970-01-01T00:03:00Z", files=CHANGED)
    assert done.code == 0
    assert "~" in done.marks
    for name in ("alpha", "beta"):
        lines = logs(settings, name).values()
        assert all(line == [(1, None), (2, 3 * MINUTE_US)] for line in lines)
    again = apply("--from", "now", files=CHANGED)
    assert set(again.marks) == {"="}
    assert "--from had no effect" in again.out
    assert apply(files=FILES).code == 2, "the old network again is a change too"


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_a_change_cut_short_between_two_homes_is_gone_on_with(
    apply: Apply, settings: Settings
) -> None:
    apply()
    begin(settings, 2 * MINUTE_US)
    whole = ("--from", "1970-01-01T00:03:00Z")
    apply(*whole, "--participant", "alpha", files=CHANGED)
    assert len(logs(settings, "beta")["mine/first"]) == 1
    assert apply(files=CHANGED).code == 0
    assert logs(settings, "beta")["mine/first"] == logs(settings, "alpha")["mine/first"]


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_what_cannot_be_changed_in_place_leaves_every_home_as_it_was(
    apply: Apply, settings: Settings
) -> None:
    apply()
    wider = {name: text.replace("10s", "20s") for name, text in FILES.items()}
    ran = apply("--from", "now", files=wider)
    assert ran.code == 2
    assert "cannot be changed in place" in ran.err
    assert ran.out == ""
    assert set(apply().marks) == {"="}


def test_wrong_contracts_are_one_sentence_and_touch_nothing(
    apply: Apply, settings: Settings
) -> None:
    ran = apply(files={**FILES, "streams/ticks.yaml": TICKS + "color: red\n"})
    assert ran.code == 2
    assert "ticks.yaml, line 5: color is not known here" in ran.err
    assert len(ran.err.splitlines()) == 1
    unknown = apply("--participant", "alpa")
    assert unknown.code == 2
    assert "no contract of participant 'alpa': did you mean 'alpha'?" in unknown.err
    assert apply("--from", "tomorrow").code == 2
    assert not settings.directory.exists()


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_a_home_without_a_contract_is_left_alone_and_named(
    apply: Apply, settings: Settings
) -> None:
    apply(files={**FILES, "participants/gamma.yaml": "participant: gamma\n"})
    ran = apply()
    assert "left alone: 1 home without a contract (gamma)" in ran.out
    assert set(known_homes(settings.directory)) == {"alpha", "beta", "gamma"}


@pytest.mark.long
def test_a_storage_root_of_its_own_is_made_and_kept(apply: Apply, settings: Settings) -> None:
    own = {**FILES, "participants/alpha.yaml": ALPHA + "storage: rooms/one\n"}
    apply(files=own)
    with open_home(settings, Participant("alpha")) as home:
        assert home.storage == settings.directory / "rooms/one"
        assert home.storage.is_dir()
    assert set(apply(files=own).marks) == {"="}
    ran = apply()
    assert ran.code == 2
    assert "rooms/one: that cannot be changed in place" in ran.err


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_a_network_is_loaded_again_from_the_catalog_alone(
    apply: Apply, settings: Settings, tmp_path: Path
) -> None:
    together = ALPHA.replace("    fragments: [first]", "    fragments: [main]")
    files = {**FILES, "mine.py": WITH_FUNCTION, "participants/alpha.yaml": together,
             "participants/beta.yaml": "participant: beta\n"}  # fmt: skip
    assert apply(files=files).code == 0
    with open_home(settings, Participant("alpha")) as home:
        (plan,) = home.catalog.plans()
    document = json.loads(plan.document)
    (tmp_path / "contracts" / "mine.py").unlink()
    assert network_of_plan(document, settings.directory).box("twice").name == "twice"
    kept = kept_file(settings.directory, plan.id)
    kept.write_text(WITH_FUNCTION.replace("n * 2", "n * 3"))
    with pytest.raises(Refused, match="is not the network mine that was deployed"):
        network_of_plan(document, settings.directory)
    kept.unlink()
    with pytest.raises(Refused, match="is gone"):
        network_of_plan(document, settings.directory)
    assert set(apply(files=files).marks) == {"="}
    assert network_of_plan(document, settings.directory).name == "mine", "apply brings it back"


def test_the_shipped_contracts_are_accepted(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", "--explain", "--contracts", str(SITES)]) == 0
    assert "leave --explain out" in capsys.readouterr().out


@pytest.mark.long
def test_the_shipped_contracts_are_accepted_on_an_embedded_server(
    monkeypatch: pytest.MonkeyPatch, server_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    directory = server_folder.parent / "medusa"
    monkeypatch.setenv("MEDUSA_DIR", str(directory))
    contracts = str(SITES)
    try:
        assert main(["apply", "--contracts", contracts]) == 0
        assert "center: applied" in capsys.readouterr().out
        assert main(["apply", "--contracts", contracts, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert all(home["is_same"] for home in document["homes"])
        assert len(document["homes"]) == 4
    finally:
        EmbeddedServer(directory / "postgres").discard()


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_only_the_homes_are_made_where_partners_have_yet_to_join(
    apply: Apply, settings: Settings
) -> None:
    awaiting = {**FILES, "streams/ticks.yaml": TICKS + "readers: [elsewhere]\n"}
    assert "elsewhere, without a contract as participant" in apply(files=awaiting).err
    ran = apply("--homes", files=awaiting)
    assert (ran.code, ran.marks, ran.err) == (0, ["=", "="], "")
    assert logs(settings, "alpha") == {}
    with closing(PostgresAgreements(home_url(settings, "alpha"), Participant("alpha"))) as known:
        assert "alpha" in known.known_keys(), "its own, with which it joins"
    assert apply().code == 0
    assert logs(settings, "alpha").keys() >= {"landing/ticks", "mine/first"}
    assert set(apply("--homes").marks) == {"="}
    assert logs(settings, "alpha") != {}, "what was applied stays"


def test_two_at_once_are_a_conflict(apply: Apply, settings: Settings) -> None:
    with open_homes(settings, alone=True):
        ran = apply()
        assert ran.code == 3
        assert "another process works in" in ran.err
        assert apply("--explain").code == 0


@pytest.mark.usefixtures("made")
@pytest.mark.long
def test_retentions_come_into_every_home_that_holds_the_stream(
    apply: Apply, settings: Settings
) -> None:
    week = {**FILES, "streams/large.yaml": "stream: large\nretention: 7d\n"}
    kept = {**week, "streams/ticks.yaml": TICKS + "retention: 1h\n"}

    def declared() -> list[Mapping[StreamName, int]]:
        found = []
        for name in ("alpha", "beta"):
            with open_home(settings, Participant(name)) as home:
                found.append(home.catalog.retentions())
        return found

    first = apply(files=kept)
    assert re.search(r"\+ +alpha +retention +ticks +1 h", first.out)
    assert declared() == [{"large": WEEK_MS, "ticks": HOUR_MS}, {"large": WEEK_MS}]
    assert set(apply(files=kept).marks) == {"="}
    longer = apply(files={**week, "streams/ticks.yaml": TICKS + "retention: 2h\n"})
    assert re.search(r"~ +alpha +retention +ticks +1 h -> 2 h", longer.out)
    assert longer.marks.count("~") == 1
    without = apply()
    assert re.search(r"~ +beta +retention +large +7 d -> for good", without.out)
    assert declared() == [{}, {}]
    assert set(apply().marks) == {"="}


@pytest.mark.usefixtures("made")
@pytest.mark.long(quick=True)
def test_a_contract_says_whether_revisions_of_a_partner_are_followed(
    apply: Apply, settings: Settings
) -> None:
    def declared() -> list[tuple[StreamName, ...]]:
        found = []
        for name in ("alpha", "beta"):
            with open_home(settings, Participant(name)) as home:
                found.append(home.catalog.followings())
        return found

    follow = {**FILES, "streams/large.yaml": "stream: large\non_revision: follow\n"}
    first = apply(files=follow)
    assert re.search(r"\+ +beta +on_revision +large +follow", first.out)
    assert declared() == [("large",), ("large",)]
    assert set(apply(files=follow).marks) == {"="}
    stop = apply(files={**FILES, "streams/large.yaml": "stream: large\non_revision: stop\n"})
    assert re.search(r"~ +beta +on_revision +large +follow -> stop", stop.out)
    assert declared() == [(), ()]
    assert set(apply().marks) == {"="}
    wrong = apply(files={**FILES, "streams/large.yaml": "stream: large\non_revision: yes\n"})
    assert (wrong.code, "must be follow or stop" in wrong.err) == (2, True)


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_a_plan_that_reads_what_is_trimmed_is_refused(apply: Apply, settings: Settings) -> None:
    assert apply(files=WINDOWED).code == 0
    begin(settings, 0)
    with open_home(settings, Participant("alpha")) as home:
        (plan,) = home.catalog.plans()
        for fragment, stream in (("landing/ticks", "ticks"), ("mine/main", "result")):
            key = LeaseKey(fragment=fragment, producer=Producer(Participant("alpha")))
            lease = home.catalog.acquire_lease(key, FIRST_EPOCH, "me", 60_000)
            segment = OutputSegment(
                stream=StreamName(stream),
                range=Range(0, 10 * MINUTE_US),
                stability=Stability.STABLE,
                buckets={},
            )
            home.catalog.commit(
                Commit(lease=lease, plan=plan.id, cause=Cause.NORMAL, segments=(segment,))
            )
            home.catalog.release_lease(lease)
        status = next(s for s in home.catalog.streams() if s.stream.name == "ticks")
        trimmed = home.catalog.trim(
            status.stream.name,
            status.producer,
            8 * MINUTE_US,
            needed={"mine/main": 8 * MINUTE_US},
            segments_max=9,
        )
        assert trimmed.trimmed_us == 8 * MINUTE_US
    wider = {**WINDOWED, "mine.py": WINDOWS.replace("20s", "5m")}
    refused = apply("--from", "1970-01-01T00:10:00Z", files=wider)
    assert refused.code == 2
    assert (
        "fragment mine/main reads stream ticks from 1970-01-01T00:05:10Z on, and the home of alpha "
        "keeps it from 1970-01-01T00:08:00Z on: the earliest bucket that works is "
        "1970-01-01T00:12:50Z; say --from 1970-01-01T00:12:50Z"
    ) in refused.err
    assert len(logs(settings, "alpha")["mine/main"]) == 1
    assert apply("--from", "1970-01-01T00:12:40Z", files=wider).code == 2
    assert apply("--from", "1970-01-01T00:12:50Z", files=wider).code == 0
    with open_home(settings, Participant("alpha")) as home:
        (hold,) = [h for h in home.catalog.holds(StreamName("ticks")) if h.purpose == PURPOSE]
        assert (hold.from_us, hold.holder) == (8 * MINUTE_US, "mine")
        assert hold.limit_ms is not None, "it runs out by itself"
        asked = home.catalog.trim(
            status.stream.name,
            status.producer,
            9 * MINUTE_US,
            needed={"mine/main": 9 * MINUTE_US},
            segments_max=9,
        )
        assert asked.trimmed_us == 8 * MINUTE_US, "a trim that knew nothing of the plan stops there"


def test_a_partner_that_is_read_and_cannot_be_found_is_named_everywhere(
    postgres_server: EmbeddedServer,
    settings: Settings,
    apply: Apply,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two folders name each other: beta reads a stream of alpha, whose home is elsewhere."""
    missing = "beta reads large from alpha and does not know where its server is"
    with homes_made(postgres_server, settings, Participant("beta")):
        assert missing in apply("--participant", "beta").err
        assert main(["status"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert shown.startswith(f"PARTNER alpha is missing: {missing} (join the two with")
        assert main(["doctor", "--json"]) == 1
        checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
        check = checks["partner alpha of beta"]
        assert (check["state"], check["found"]) == ("fail", missing)
        assert "medusa partner invite" in check["to_do"]
