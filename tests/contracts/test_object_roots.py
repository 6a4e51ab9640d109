"""A home whose files are objects: its bucket is recorded, its settings are written again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from medusa_core.errors import Refused
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.contracts.federation import read_federation
from pipelines.contracts.storage_roots import check_storage
from pipelines.homes.home import RECORD, checked_storage, objects_of, owner_of, record_objects
from pipelines.operations.findings import State
from pipelines.operations.home_checks import bucket_findings
from pipelines.storage.object_settings import SETTINGS, read_settings
from tests.contracts.writing import ALPHA, BETA, FILES, write_contracts
from tests.storage.object_server import ObjectServer, keys_file, object_server

A, B = "participants/alpha.yaml", "participants/beta.yaml"
WHO, OTHER = Participant("alpha"), Participant("beta")


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


class Machine:
    """A folder of homes of alpha and beta with a contracts folder of its own."""

    def __init__(self, server: ObjectServer, folder: Path, prefix: str) -> None:
        folder.mkdir()
        self.directory, self.prefix = folder / "medusa", prefix
        self.directory.mkdir()
        self._server, self._folder = server, folder
        self._keys = keys_file(folder / "keys")

    def apply(self, bucket: str | None = "alpha") -> None:
        """What `medusa apply` does with storage roots, up to the catalogs of the homes."""
        text = BETA + self._bucket("beta")
        files = {**FILES, A: ALPHA + (self._bucket(bucket) if bucket else ""), B: text}
        contracts = write_contracts(self._folder / uuid4().hex, files)
        federation = read_federation(contracts, self.directory)
        for name, root in check_storage(federation.participants, self.directory).items():
            root.prepare(self.directory, name)

    def make_homes(self) -> None:
        """As if the catalogs had been made."""
        path = self.directory / RECORD
        document = json.loads(path.read_text()) if path.exists() else {}
        document["participants"] = {WHO: "medusa_alpha", OTHER: "medusa_beta"}
        path.write_text(json.dumps(document))

    @property
    def settings_file(self) -> Path:
        return self.directory / "storage/alpha" / SETTINGS

    def _bucket(self, name: str) -> str:
        return (
            f"storage: s3://bucket/{self.prefix}/{name}\n"
            f"storage_endpoint: {self._server.url}\n"
            f"storage_credentials: {self._keys}\n"
        )


@pytest.fixture
def machine(server: ObjectServer, tmp_path: Path) -> Machine:
    found = Machine(server, tmp_path / "one", uuid4().hex)
    found.apply()
    found.make_homes()
    return found


def test_a_home_whose_settings_are_missing_is_not_opened_until_they_are_written_again(
    machine: Machine,
) -> None:
    before = machine.settings_file.read_text()
    assert checked_storage(machine.directory, WHO) == machine.settings_file.parent
    machine.settings_file.unlink()
    with pytest.raises(Refused, match="run medusa apply, which writes it again"):
        checked_storage(machine.directory, WHO)
    machine.apply()
    assert machine.settings_file.read_text() == before
    assert checked_storage(machine.directory, WHO) == machine.settings_file.parent


def test_settings_that_are_damaged_are_written_again(machine: Machine) -> None:
    before = machine.settings_file.read_text()
    machine.settings_file.write_text("{")
    machine.apply()
    assert machine.settings_file.read_text() == before


def test_a_home_keeps_its_bucket_though_its_settings_are_missing(machine: Machine) -> None:
    machine.settings_file.unlink()
    for other in (None, "gamma"):
        with pytest.raises(Refused, match="cannot be changed in place"):
            machine.apply(other)


def test_a_home_of_which_no_bucket_is_recorded_keeps_that_of_its_settings(
    machine: Machine,
) -> None:
    record_objects(machine.directory, WHO, None, owner_of(machine.directory, WHO))
    with pytest.raises(Refused, match="cannot be changed in place"):
        machine.apply("gamma")
    machine.apply()
    objects = read_settings(machine.settings_file.parent)
    assert objects is not None
    assert objects_of(machine.directory, WHO) == objects.location


def test_a_second_home_on_the_same_prefix_is_refused(
    machine: Machine, server: ObjectServer, tmp_path: Path
) -> None:
    other = Machine(server, tmp_path / "two", machine.prefix)
    for _ in range(2):
        with pytest.raises(Refused, match="objects of another home"):
            other.apply()
        assert not other.settings_file.exists()
    machine.settings_file.unlink()
    machine.apply()
    assert machine.settings_file.exists(), "it is the first home that owns them"


def test_a_contract_without_a_bucket_before_the_home_is_made_leaves_no_settings(
    server: ObjectServer, tmp_path: Path
) -> None:
    machine = Machine(server, tmp_path / "one", uuid4().hex)
    machine.apply()
    machine.apply(None)
    assert not machine.settings_file.exists()
    assert checked_storage(machine.directory, WHO) == machine.settings_file.parent


def test_doctor_finds_the_owner_of_the_objects_and_missing_settings(machine: Machine) -> None:
    settings = replace(Settings.from_environment({}), directory=machine.directory)
    (found,) = bucket_findings(settings, WHO)
    assert found.state is State.OK
    own = owner_of(machine.directory, WHO)
    record_objects(machine.directory, WHO, objects_of(machine.directory, WHO), "another")
    (found,) = bucket_findings(settings, WHO)
    assert (found.state, "objects of another home" in str(found)) == (State.FAIL, True)
    record_objects(machine.directory, WHO, objects_of(machine.directory, WHO), own)
    machine.settings_file.unlink()
    (found,) = bucket_findings(settings, WHO)
    assert (found.state, "run medusa apply" in str(found)) == (State.FAIL, True)
