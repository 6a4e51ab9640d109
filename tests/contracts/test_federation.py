"""Contracts that disagree with themselves, with each other or with a network are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName
from pipelines.base.settings import REPOSITORY
from pipelines.contracts import storage_roots
from pipelines.contracts.federation import read_federation
from pipelines.contracts.storage_roots import StorageRoot, check_storage
from pipelines.language.shipped import netmon, netmon3
from pipelines.storage.object_settings import ObjectSettings, read_settings
from tests.contracts.writing import ALPHA, BETA, FILES, NETWORK, TICKS, write_contracts

A, B, T = "participants/alpha.yaml", "participants/beta.yaml", "streams/ticks.yaml"


def test_the_shipped_contracts_place_netmon3_on_four_participants(tmp_path: Path) -> None:
    federation = read_federation(REPOSITORY / "contracts" / "sites", tmp_path)
    (network,) = federation.networks
    assert network.owners == {
        "landing/connections_a": ("north",),
        "landing/connections_b": ("east",),
        "landing/connections_c": ("west",),
        "netmon3/main": ("center",),
    }
    assert list(network.landed_by(Participant("east"))) == ["connections_b"]
    assert network.width_us == 10_000_000
    assert set(network.owners_for(Participant("north"))) == {"landing/connections_a"}
    imports = {f"import/connections_{s}": ("center",) for s in "abc"}
    assert network.owners_for(Participant("center")) == {**network.owners, **imports}


def test_netmon3_is_netmon_behind_a_union() -> None:
    union, *others = netmon3.network.boxes
    assert union.name == netmon.connections.name
    assert tuple(others) == netmon.network.boxes
    assert netmon3.network.outputs == netmon.network.outputs


def test_a_users_network_is_read_and_its_paths_are_found_from_the_folder(tmp_path: Path) -> None:
    federation = read_federation(write_contracts(tmp_path / "c"), tmp_path)
    (network,) = federation.networks
    assert network.owners == {
        "landing/ticks": ("alpha",),
        "mine/first": ("alpha",),
        "mine/second": ("beta",),
    }
    assert set(network.owners_for(Participant("beta"))) == {
        "mine/second", "mine/first", "import/large"
    }  # fmt: skip
    source = federation.streams[StreamName("ticks")].source
    assert source is not None
    assert json.loads(source) == {"kind": "directory", "path": str(tmp_path / "c/incoming")}


def test_a_network_in_sql_is_placed_by_its_fragments_as_one_in_python(tmp_path: Path) -> None:
    in_sql = {name: content.replace("mine.py", "mine.sql") for name, content in FILES.items()}
    in_sql["mine.sql"] = """
        CREATE NETWORK mine;
        CREATE SOURCE ticks (ts_us BIGINT, n INT) WITH (time = 'ts_us');
        CREATE STREAM large WITH (fragment = 'first') AS SELECT * FROM ticks WHERE n > 1;
        CREATE STREAM result WITH (fragment = 'second') AS SELECT n * 2 AS m FROM large;
    """
    del in_sql["mine.py"]
    (found,) = read_federation(write_contracts(tmp_path / "sql", in_sql), tmp_path).networks
    (expected,) = read_federation(write_contracts(tmp_path / "python"), tmp_path).networks
    assert found.streams == expected.streams
    assert found.owners == expected.owners


def test_looking_at_contracts_leaves_nothing_behind(tmp_path: Path) -> None:
    read_federation(REPOSITORY / "contracts" / "sites", tmp_path / "not made yet")
    assert not list(tmp_path.iterdir())


CASES = {
    "unknown field": ({A: ALPHA + "port: 3\n"}, "alpha.yaml, line 7: port is not known here"),
    "field misspelt": (
        {A: ALPHA.replace("sources", "source")}, "line 5: runs[0].source is not known here: did you"
    ),
    "no participant": ({A: "storage: x\n"}, "alpha.yaml, line 1: the field participant is missing"),
    "no mapping": ({A: "- alpha\n"}, "alpha.yaml, line 1: this is no contract"),
    "name of another": (
        {A: ALPHA.replace("alpha", "gamma")}, "line 1: participant is gamma, but the file is alpha"
    ),
    "no name": (
        {"participants/Alpha.yaml": "participant: Alpha\n"}, "line 1: participant is no name"
    ),
    "stream no identifier": (
        {"streams/my-ticks.yaml": "stream: my-ticks\n"},
        "my-ticks.yaml, line 1: stream is no name: stream 'my-ticks' is not a name",
    ),
    "old suffix": ({"participants/gamma.yml": ALPHA}, "gamma.yml is not read: name it gamma.yaml"),
    "runs no list": ({A: "participant: alpha\nruns: 3\n"}, "line 2: runs is 3: write a list"),
    "runs nothing": (
        {A: "participant: alpha\nruns:\n - network: mine.py\n"}, "line 3: runs[0] runs nothing"
    ),
    "twice in one list": (
        {A: ALPHA.replace("[ticks]", "[ticks, ticks]")}, "runs[0].sources[1] names ticks again"
    ),
    "network twice": (
        {A: ALPHA + "  - network: mine.py\n    sources: [ticks]\n"},
        "line 7: runs[1].network names a network again",
    ),
    "no duration": (
        {A: ALPHA.replace("10s", "ten")}, "alpha.yaml, line 4: runs[0].bucket is no duration"
    ),
    "width 0": ({A: ALPHA.replace("10s", "0")}, "line 4: runs[0].bucket is no duration"),
    "a width that is true": ({A: ALPHA.replace("10s", "true")}, "runs[0].bucket is true: write a"),
    "two widths": (
        {B: BETA.replace("10s", "20s")}, "beta.yaml, line 3: runs[0] has buckets of 20 s"
    ),
    "widths against the network's own": (
        {B: BETA.replace("    bucket: 10s\n", ""), A: ALPHA.replace("10s", "20s")},
        "beta.yaml, line 3: runs[0] has buckets of 10 s",
    ),
    "no such network": (
        {A: ALPHA.replace("mine.py", "netmom")},
        "there is no network 'netmom': did you mean 'netmon'?"
    ),
    "no such file": (
        {A: ALPHA.replace("mine.py", "gone.py")}, "runs[0].network cannot be run: there is no file"
    ),
    "a file that raises": (
        {"mine.py": NETWORK + "raise ValueError('so')\n"}, "mine.py, line 13: ValueError: so"
    ),
    "a file with a wrong column": (
        {"mine.py": NETWORK.replace("n * 2", "nn * 2")}, "runs[0].network cannot be run: "
    ),
    "a path out of the folder": (
        {A: ALPHA.replace("mine.py", "../mine.py")}, "'../mine.py' leads out of"
    ),
    "a home folder": ({A: ALPHA.replace("mine.py", "~/mine.py")}, "write the absolute path"),
    "two files for one name": (
        {B: BETA.replace("mine.py", "other.py"), "other.py": NETWORK},
        "beta.yaml, line 3: runs[0].network gives a network named mine, which",
    ),
    "unknown source": (
        {A: ALPHA.replace("[ticks]", "[tick]")},
        "line 5: runs[0].sources[0] is tick, but network mine"
    ),
    "unknown fragment": (
        {B: BETA.replace("[second]", "[third]")}, "runs[0].fragments[0] is third, but network mine"
    ),
    "source landed twice": (
        {B: BETA + "    sources: [ticks]\n"}, "beta.yaml, line 6: runs[0].sources[0] is ticks"
    ),
    "source landed by nobody": (
        {A: ALPHA.replace("    sources: [ticks]\n", "")},
        "ticks of network mine is landed by nobody"
    ),
    "fragment twice by one": (
        {B: BETA.replace("[second]", "[second, second]")}, "line 5: runs[0].fragments[1] names"
    ),
    "fragment computed by nobody": (
        {A: ALPHA.replace("    fragments: [first]\n", "")},
        "first of network mine is computed by nobody"
    ),
    "one stream of two networks": (
        {"participants/gamma.yaml": ALPHA.replace("alpha", "gamma").replace("mine.py", "o.py"),
         "o.py": NETWORK.replace('"mine"', '"other"').replace('"second"', '"first"')},
        "stream ticks belongs to network mine and to other",
    ),
    "a source that nothing feeds": (
        {T: "stream: ticks\nretention: 7d\n"}, "nothing feeds source ticks"
    ),
    "a stream that nobody has": (
        {"streams/tocks.yaml": "stream: tocks\n"}, "tocks.yaml, line 1: stream is tocks, which no"
    ),
    "an output that is fed": (
        {"streams/large.yaml": TICKS.replace("ticks", "large")}, "line 2: source feeds large, which"
    ),
    "a later key": ({T: TICKS + "price: 5s\n"}, "ticks.yaml, line 5: price is not known here"),
    "a bound of a source": ({T: TICKS + "bound: 5s\n"}, "line 5: bound promises a bound of ticks"),
    "a bound of zero": ({T: TICKS + "bound: 0s\n"}, "line 5: bound is no duration"),
    "a bound below a millisecond": (
        {T: TICKS + "bound: 1us\n"}, "line 5: bound is no whole number of milliseconds"
    ),
    "a policy without a bound": (
        {T: TICKS + "during_failure: delay\n"}, "line 5: during_failure says how a bound is kept"
    ),
    "a policy that is none": (
        {T: TICKS + "bound: 5s\nduring_failure: hope\n"}, "line 6: during_failure is 'hope': write"
    ),
    "suspending without a limit": (
        {T: TICKS + "bound: 5s\nduring_failure: suspend\n"},
        "line 5: bound cannot be promised: the policy suspend needs failure_max",
    ),
    "suspending beyond the bound": (
        {T: TICKS + "bound: 5s\nduring_failure: suspend\nfailure_max: 60s\n"},
        "a failure of 60000 ms is longer than 0.9 of 5000 ms",
    ),
    "retention no duration": ({T: TICKS + "retention: 400d\n"}, "line 5: retention is no duration"),
    "source no mapping": ({T: "stream: ticks\nsource: x\n"}, "line 2: source must be a mapping"),
    "source of no kind": (
        {T: TICKS.replace("directory", "queue")}, "line 2: source feeds nothing: the source of"
    ),
    "source with an unknown field": (
        {T: TICKS + "  glob: x\n"}, "the source of ticks has a field 'glob' that is not known"
    ),
    "source path out of the folder": (
        {T: TICKS.replace("incoming", "../incoming")}, "'../incoming' leads out of"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "says"), CASES.values(), ids=CASES)
def test_wrong_contracts_are_refused_in_a_sentence_with_the_place(
    files: dict[str, str], says: str, tmp_path: Path
) -> None:
    folder = write_contracts(tmp_path / "c", {**FILES, **files})
    with pytest.raises(Refused) as refused:
        read_federation(folder, tmp_path)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_without_contracts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no folder"):
        read_federation(tmp_path / "gone", tmp_path)
    with pytest.raises(Refused, match="has no folder participants"):
        read_federation(tmp_path, tmp_path)
    (tmp_path / "participants").mkdir()
    with pytest.raises(Refused, match="holds no contract"):
        read_federation(tmp_path, tmp_path)


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = write_contracts(tmp_path / "c")
    (folder / B).rename(tmp_path / "beta.yaml")
    (folder / B).symlink_to(tmp_path / "beta.yaml")
    with pytest.raises(Refused, match=r"beta\.yaml leads out of"):
        read_federation(folder, tmp_path)


def test_an_absolute_path_may_name_a_network_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere.py"
    files = {
        A: ALPHA.replace("mine.py", str(outside)),
        B: BETA.replace("mine.py", str(outside)),
        T: TICKS,
    }
    folder = write_contracts(tmp_path / "c", files)
    outside.write_text(NETWORK)
    (network,) = read_federation(folder, tmp_path).networks
    assert network.name == "mine"


@pytest.mark.parametrize(
    ("alpha", "beta", "says"),
    [
        ("one", "one", "is that of alpha"),
        ("one", "one/inside", "is that of alpha"),
        ("one/inside", "one", "is that of alpha"),
        ("storage/beta", None, "beta.yaml, line 1"),
        ("link", "one", "is that of alpha"),
        ("../one", None, "leads out of"),
        (".", None, "files of its own"),
        ("postgres/x", None, "files of its own"),
        ("keys", None, "files of its own"),
        ("airflow/x", None, "files of its own"),
        ("drivers", None, "files of its own"),
        ("/", None, "files of its own"),
        ("~/one", None, "absolute path"),
        ("home.json", None, "is not a folder"),
    ],
)
def test_storage_roots_are_one_for_each_and_in_their_place(
    alpha: str, beta: str | None, says: str, tmp_path: Path
) -> None:
    def stored(text: str, root: str | None) -> str:
        return text if root is None else f"{text}storage: {root}\n"

    medusa = tmp_path / "medusa"
    (medusa / "one").mkdir(parents=True)
    (medusa / "link").symlink_to(medusa / "one")
    (medusa / "home.json").write_text('{"participants": {}}')
    files = {**FILES, A: stored(ALPHA, alpha), B: stored(BETA, beta)}
    federation = read_federation(write_contracts(tmp_path / "c", files), medusa)
    with pytest.raises(Refused) as refused:
        check_storage(federation.participants, medusa)
    assert says in str(refused.value)
    assert "yaml, line" in str(refused.value)


def test_a_home_keeps_its_storage_root(tmp_path: Path) -> None:
    folder = write_contracts(tmp_path / "c", {**FILES, A: ALPHA + "storage: other\n"})
    federation = read_federation(folder, tmp_path)
    assert check_storage(federation.participants, tmp_path)[Participant("alpha")].given == "other"
    (tmp_path / "home.json").write_text('{"participants": {"alpha": "medusa_alpha"}}')
    with pytest.raises(Refused, match=r"has the root .*storage/alpha: that cannot be changed"):
        check_storage(federation.participants, tmp_path)
    (tmp_path / "home.json").write_text(
        '{"participants": {"alpha": "medusa_alpha"}, "storage": {"alpha": "other"}}'
    )
    assert check_storage(federation.participants, tmp_path)[Participant("alpha")].given == "other"


def test_a_root_of_a_home_without_a_contract_is_taken_too(tmp_path: Path) -> None:
    (tmp_path / "home.json").write_text('{"participants": {"zeta": "medusa_zeta"}}')
    files = {**FILES, A: ALPHA + "storage: storage/zeta\n"}
    federation = read_federation(write_contracts(tmp_path / "c", files), tmp_path)
    with pytest.raises(Refused, match="is that of zeta"):
        check_storage(federation.participants, tmp_path)


BUCKET = "storage: s3://streams/alpha\nstorage_endpoint: https://objects.example:9000\n"


def roots_of(folder: Path, medusa: Path, alpha: str = "", beta: str = "") -> object:
    files = {**FILES, A: ALPHA + alpha, B: BETA + beta}
    federation = read_federation(write_contracts(folder, files), medusa)
    return check_storage(federation.participants, medusa)[Participant("alpha")]


def test_a_bucket_has_its_settings_in_the_folder_of_the_default_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_roots, "check_owner", lambda *given: None)
    more = "storage_credentials: /keys/objects\nstorage_region: eu-1\nstorage_cache_gib: 2\n"
    root = roots_of(tmp_path / "c", tmp_path, BUCKET + more)
    assert isinstance(root, StorageRoot)
    assert (root.given, root.folder) == (None, tmp_path / "storage/alpha")
    assert root.objects == ObjectSettings(
        address="s3://streams/alpha", endpoint="https://objects.example:9000", region="eu-1",
        credentials="/keys/objects", cache_bytes=2 << 30,
    )  # fmt: skip
    root.prepare(tmp_path, Participant("alpha"))
    assert read_settings(root.folder) == root.objects


@pytest.mark.parametrize(
    ("alpha", "says"),
    [
        ("storage_endpoint: https://objects.example\n", "is about a bucket"),
        ("storage: folder\nstorage_cache_gib: 2\n", "is about a bucket"),
        ("storage: s3://\n", "is not s3://bucket"),
        ("storage: s3://streams/../alpha\n", "is not s3://bucket"),
        ("storage: s3://streams\nstorage_endpoint: http://objects.example\n", "without TLS"),
        ("storage: s3://streams\nstorage_credentials: keys\n", "absolute path"),
        ("storage: s3://streams\nstorage_ca_file: ca.pem\n", "absolute path"),
        ("storage: s3://streams\nstorage_cache_gib: 0\n", "whole number"),
    ],
)
def test_settings_of_a_bucket_that_are_not_valid_are_refused(
    alpha: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=r"alpha\.yaml, line") as refused:
        roots_of(tmp_path / "c", tmp_path, alpha)
    assert says in str(refused.value)


@pytest.mark.parametrize("beta", ["s3://streams/alpha", "s3://streams", "s3://streams/alpha/x"])
def test_two_participants_share_no_objects(beta: str, tmp_path: Path) -> None:
    other = f"storage: {beta}\nstorage_endpoint: https://objects.example:9000\n"
    with pytest.raises(Refused, match="give each participant a prefix of its own"):
        roots_of(tmp_path / "c", tmp_path, BUCKET, other)
    elsewhere = f"storage: {beta}\nstorage_endpoint: https://others.example\n"
    assert roots_of(tmp_path / "d", tmp_path, BUCKET, elsewhere)


def test_a_home_keeps_its_bucket_and_may_get_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_roots, "check_owner", lambda *given: None)
    root = roots_of(tmp_path / "c", tmp_path, BUCKET)
    assert isinstance(root, StorageRoot)
    root.prepare(tmp_path, Participant("alpha"))
    (tmp_path / "home.json").write_text('{"participants": {"alpha": "medusa_alpha"}}')
    assert roots_of(tmp_path / "d", tmp_path, BUCKET + "storage_credentials: /keys/new\n")
    for other in ("", BUCKET.replace("/alpha", "/beta")):
        with pytest.raises(Refused, match="cannot be changed in place"):
            roots_of(tmp_path / f"e{len(other)}", tmp_path, other)


def test_the_store_of_a_partner_has_the_form_of_its_owners(tmp_path: Path) -> None:
    """Else the owner's server does not redirect: it compares them."""
    exchange = (
        "exchange:\n  url: https://beta.example:7443\n  objects: https://objects.example:443/\n"
    )
    key = f"public_key: ed25519:{'A' * 43}=\n"
    folder = write_contracts(tmp_path / "c", {**FILES, B: BETA + key + exchange})
    federation = read_federation(folder, tmp_path)
    found = {one.participant: one.exchange for one in federation.participants}
    address = found[Participant("beta")]
    assert address is not None
    assert address.objects == "https://objects.example"
