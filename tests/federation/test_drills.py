"""Drills: links that are cut and slowed down, processes that are killed and frozen, on purpose."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, StreamName
from pipelines.base.process_table import look_at
from pipelines.base.settings import REPOSITORY
from pipelines.cli.main import main
from pipelines.exchange.notification_listener import ListenerIO, NotificationListener
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from pipelines.participant.home_session import open_session
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks
from pipelines.platform.drills.link_faults import (
    FILE,
    LinkFaults,
    Lost,
    Slow,
    read_faults,
    write_faults,
)
from pipelines.platform.drills.run_processes import FOLDER, Running, recorded, running_in
from pipelines.sources.generated_files import write_generated
from tests.exchange.test_notification_listener import World
from tests.federation.building import Running as OpenParticipant
from tests.federation.building import (
    idles_until_told,
    no_spark,
    rounds_until,
    run_here,
    seated,
)
from tests.federation.processes import END_S_MAX, STEP_RECORDS, Installation, installation, kill
from tests.federation.test_crashes import write_few_contracts
from tests.federation.test_faults import logged, outputs_have_ended
from tests.home_pool import home_pool
from tests.sweeps import long_but
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

A, B, C = (Participant(name) for name in ("alpha", "beta", "gamma"))
CONNECTIONS = StreamName("connections")
Fault = Callable[..., int]


# ------------------------------------------------------------ links, in a file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A MEDUSA_DIR in which alpha, beta and gamma have a home."""
    made = tmp_path / "a folder"
    made.mkdir()
    homes = {name: f"medusa_{name}" for name in (A, B, C)}
    (made / "home.json").write_text(json.dumps({"participants": homes}))
    monkeypatch.setenv("MEDUSA_DIR", str(made))
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    return made


@pytest.fixture
def fault(folder: Path) -> Fault:
    """`medusa fault …` in that folder; its exit code."""
    return lambda *words: main(["fault", *words])


def ways_of(folder: Path, here: Participant, now_s: float = 1_000.0) -> FaultInjectedLinks:
    def told(error: Exception) -> None:
        raise error

    return FaultInjectedLinks(folder, here, told, now_s=lambda: now_s)


def is_open(folder: Path, one: Participant, other: Participant) -> tuple[bool, bool]:
    """Whether questions of the one reach the other, and whether answers come back."""
    links = FaultInjectedLinks(folder, one)
    return passes(lambda: links.ask(other)), passes(lambda: links.hear(other))


def passes(call: Callable[[], None]) -> bool:
    try:
        call()
    except Unavailable as error:
        return "by a drill" not in str(error)
    return True


def test_a_link_that_is_cut_is_cut_on_all_ways_until_it_is_healed(
    folder: Path, fault: Fault
) -> None:
    assert is_open(folder, A, B) == (True, True)
    assert fault("cut", "alpha", "beta") == 0
    for one, other in ((A, B), (B, A)):
        assert is_open(folder, one, other) == (False, False)
        assert not FaultInjectedLinks(folder, one).carries_notification(other)
    assert is_open(folder, A, C) == (True, True)
    assert FaultInjectedLinks(folder, A).carries_notification(C)
    assert fault("heal", "beta", "alpha") == 0
    assert is_open(folder, A, B) == (True, True)


def test_one_way_alone_is_cut_when_that_is_asked(folder: Path, fault: Fault) -> None:
    assert fault("cut", "alpha", "beta", "--one-way") == 0
    assert is_open(folder, A, B) == (False, True)
    assert is_open(folder, B, A) == (True, False)
    for one, other in ((A, B), (B, A)):
        links = FaultInjectedLinks(folder, one)
        assert not links.carries_notification(other), "it is an answer to a request"


def test_a_running_process_sees_a_change_at_its_next_call(folder: Path, fault: Fault) -> None:
    links = FaultInjectedLinks(folder, A)
    links.ask(B)
    fault("cut", "alpha", "beta")
    with pytest.raises(Unavailable):
        links.ask(B)
    fault("cut", "alpha", "gamma")
    fault("heal", "alpha", "beta")
    links.ask(B)
    with pytest.raises(Unavailable):
        links.ask(C)
    fault("heal")
    links.ask(C)


def test_a_cut_ends_by_itself(folder: Path) -> None:
    write_faults(folder, LinkFaults().with_lost(Lost(A, B, 1_000.0), Lost(B, A, 1_000.5)))
    assert not ways_of(folder, A, 999.9).carries_notification(B)
    ways_of(folder, A, 1_000.0).ask(B)
    with pytest.raises(Unavailable):
        ways_of(folder, B, 1_000.0).ask(A)
    ways_of(folder, B, 1_000.5).ask(A)


def test_for_says_until_when_and_what_is_over_is_forgotten(folder: Path, fault: Fault) -> None:
    assert fault("cut", "alpha", "beta", "--for", "1us") == 0
    assert is_open(folder, A, B) == (True, True)
    assert fault("cut", "alpha", "gamma", "--for", "1h") == 0
    assert {(row.sender, row.receiver) for row in read_faults(folder / FILE).lost} == {
        (A, C),
        (C, A),
    }


def test_over_a_slow_link_each_call_takes_longer_and_one_that_takes_too_long_is_unanswered(
    folder: Path, fault: Fault
) -> None:
    slept: list[float] = []
    links = FaultInjectedLinks(folder, B, sleep=slept.append)
    assert fault("slow", "beta", "alpha", "--by", "500ms") == 0
    links.ask(A)
    links.hear(A)
    links.ask(C)
    assert slept == [0.5]
    assert not links.carries_notification(A)
    fault("slow", "alpha", "beta", "--by", "20s")
    with pytest.raises(Unavailable, match="within 5 s"):
        links.ask(A)
    assert slept == [0.5, 5.0]
    fault("heal", "beta")
    links.ask(A)
    assert len(slept) == 2


GOOD = {"format": 1, "lost": [{"from": "alpha", "to": "beta", "until_s": None}], "slow": []}
SLOW = {"between": ["alpha", "beta"], "by_ms": 5, "until_s": None}
SPOILT = [
    "",
    "null",
    "[]",
    "[" * 100_000,
    "\0",
    '{"format": 1e999}',
    {**GOOD, "format": 2},
    {**GOOD, "format": True},
    {**GOOD, "more": 1},
    {"format": 1, "lost": []},
    {**GOOD, "lost": [{"from": "alpha", "to": "beta"}]},
    {**GOOD, "lost": [{"from": "alpha", "to": "alpha", "until_s": None}]},
    {**GOOD, "lost": [{"from": "../alpha", "to": "beta", "until_s": None}]},
    {**GOOD, "lost": [{"from": 7, "to": "beta", "until_s": None}]},
    {**GOOD, "lost": [{"from": "alpha", "to": "beta", "until_s": "soon"}]},
    {**GOOD, "lost": [{"from": "alpha", "to": "beta", "until_s": True}]},
    '{"format": 1, "slow": [], "lost": [{"from": "alpha", "to": "beta", "until_s": NaN}]}',
    {**GOOD, "slow": [{**SLOW, "by_ms": 0}]},
    {**GOOD, "slow": [{**SLOW, "by_ms": 1.5}]},
    {**GOOD, "slow": [{**SLOW, "by_ms": 10**12}]},
    {**GOOD, "slow": [{**SLOW, "between": ["beta", "alpha"]}]},
    {**GOOD, "slow": [{**SLOW, "between": ["alpha", "beta", "gamma"]}]},
    {**GOOD, "lost": "alpha"},
    " " * 1_000_001 + json.dumps(GOOD),
]


@pytest.mark.parametrize("spoilt", long_but(3, SPOILT))
def test_a_file_that_medusa_did_not_write_cuts_nothing_and_is_reported_once(
    folder: Path, fault: Fault, spoilt: object, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / FILE).write_text(spoilt if isinstance(spoilt, str) else json.dumps(spoilt))
    told: list[Exception] = []
    links = FaultInjectedLinks(folder, A, told.append)
    for _ in range(3):
        links.ask(B)
        links.hear(B)
    assert [type(error) for error in told] == [Refused]
    assert FILE in str(told[0])
    assert fault("cut", "alpha", "beta") == fault("list") == 2
    assert "medusa fault heal" in capsys.readouterr().err
    assert fault("heal") == 0
    assert fault("cut", "alpha", "beta") == 0
    with pytest.raises(Unavailable):
        links.ask(B)


def test_what_is_no_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / FILE)
    told: list[Exception] = []
    FaultInjectedLinks(folder, A, told.append).ask(B)
    assert len(told) == 1
    (folder / FILE).unlink()
    (folder / FILE).symlink_to(folder / "home.json")
    FaultInjectedLinks(folder, A, told.append).ask(B)
    assert len(told) == 2


def test_notifications_over_a_cut_link_are_skipped_and_arrive_again_once_it_heals() -> None:
    world, cut = World(), {"beta"}
    listener_io = ListenerIO(
        listen=world.listen, wait=world.wait, now_s=lambda: world.now_s, sleep=world.sleep
    )
    listener = NotificationListener(
        ["alpha", "beta"], listener_io, is_heard=lambda url: url not in cut
    )
    listener.wait(1_000)
    assert set(world.lines) == {"alpha"}
    cut.clear()
    world.now_s += 20
    listener.wait(1_000)
    cut.add("beta")
    world.lines["beta"].notifies.append("news")
    began_s = world.now_s
    listener.wait(1_000)
    assert world.now_s == began_s + 1
    cut.clear()
    world.lines["beta"].notifies.append("news")
    listener.wait(1_000)
    assert world.now_s == began_s + 1


# ------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    long_but(
        6,
        [
            (("cut", "alpha", "betta"), "did you mean 'beta'?"),
            (("kill", "../../etc"), "there is no participant"),
            (("freeze", "x; rm -rf /"), "there is no participant"),
            (("cut", "alpha", "\x1b[31mbeta"), "\\x1b"),
            (("kill", "a" * 100_000), "there is no participant"),
            (("cut", "alpha", "alpha"), "itself"),
            (("cut", "alpha"), "two participants"),
            (("kill",), "one participant"),
            (("kill", "alpha", "beta"), "one participant"),
            (("heal", "alpha", "beta", "gamma"), "not 3"),
            (("list", "alpha"), "no participant"),
            (("cut", "alpha", "beta", "--for", "0s"), "out of range"),
            (("cut", "alpha", "beta", "--for", "ten"), "not one"),
            (("cut", "alpha", "beta", "--by", "1s"), "takes no --by"),
            (("slow", "alpha", "beta"), "--by 500ms"),
            (("slow", "alpha", "beta", "--by", "1us"), "out of range"),
            (("slow", "alpha", "beta", "--by", "2h"), "out of range"),
            (("kill", "alpha", "--for", "1s"), "takes no --for"),
            (("freeze", "alpha", "--one-way"), "takes no --one-way"),
            (("heal", "--json"), "takes no --json"),
            (("list", "--explain"), "takes no --explain"),
        ],
    ),
)
def test_a_drill_that_makes_no_sense_is_refused_in_a_sentence_and_nothing_is_done(
    folder: Path, fault: Fault, words: tuple[str, ...], said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    before = sorted(folder.iterdir())
    assert fault(*words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1
    assert sorted(folder.iterdir()) == before


def test_to_explain_changes_nothing(
    folder: Path, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    assert fault("cut", "alpha", "beta", "--for", "10s", "--explain") == 0
    assert fault("slow", "alpha", "beta", "--by", "1s", "--explain") == 0
    assert fault("heal", "--explain") == 0
    output = capsys.readouterr().out
    assert "would be so: nothing goes between alpha and beta, for 10 s" in output
    assert "would be so: every call between alpha and beta takes 1000 ms longer" in output
    assert "would be whole again: every link" in output
    assert sorted(folder.iterdir()) == before


def test_a_folder_without_homes_has_no_participant_to_drill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path / "none"))
    assert main(["fault", "kill", "alpha"]) == 2
    assert "medusa apply" in capsys.readouterr().err
    assert main(["fault", "list"]) == 0
    assert not (tmp_path / "none").exists()


# ------------------------------------------------------------ processes

STAND_IN = """
import sys, threading
from pathlib import Path
from medusa_core.names import Participant
from pipelines.platform.drills.run_processes import recorded
with recorded(Path(sys.argv[1]), Participant(sys.argv[2])) as drives:
    if len(sys.argv) < 4:
        drives()
    print("there", flush=True)
    threading.Event().wait()
"""


@contextmanager
def stand_in(folder: Path, name: str, *more: str, own_group: bool = True) -> Iterator[
    subprocess.Popen[str]
]:  # fmt: skip
    """A process that is written down as `medusa run` is, and does nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", STAND_IN, str(folder), name, *more],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        start_new_session=own_group,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "there\n"
        yield process
    finally:
        process.kill()
        process.wait(timeout=30)
        process.stdout.close()


def state_of(process: subprocess.Popen[str]) -> str:
    seen = look_at(process.pid)
    return "gone" if seen is None else "frozen" if seen.is_frozen else "runs"


@pytest.mark.parametrize("own_group", long_but(1, [True, False]))
def test_only_the_participant_that_is_named_is_killed(
    folder: Path, fault: Fault, own_group: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        stand_in(folder, "alpha", own_group=own_group) as alpha,
        stand_in(folder, "beta", own_group=own_group) as beta,
    ):
        assert fault("kill", "beta", "--explain") == 0
        assert state_of(beta) == "runs"
        assert fault("kill", "beta") == 0
        assert beta.wait(timeout=30) == -signal.SIGKILL
        assert state_of(alpha) == "runs"
        capsys.readouterr()
        assert fault("list", "--json") == 0
        (left,) = json.loads(capsys.readouterr().out)["processes"]
        assert left == {"participant": "alpha", "pid": alpha.pid, "state": "runs"}
        assert fault("kill", "beta") == 4
        assert "no medusa run of beta" in capsys.readouterr().err


def test_a_standby_is_left_alone_while_another_drives(folder: Path, fault: Fault) -> None:
    with stand_in(folder, "alpha") as driver, stand_in(folder, "alpha", "waits") as standby:
        assert fault("kill", "alpha") == 0
        assert driver.wait(timeout=30) == -signal.SIGKILL
        assert state_of(standby) == "runs"
        assert fault("kill", "alpha") == 0
        assert standby.wait(timeout=30) == -signal.SIGKILL


def test_a_frozen_process_continues_when_it_is_healed(folder: Path, fault: Fault) -> None:
    with stand_in(folder, "alpha") as alpha, stand_in(folder, "beta") as beta:
        for name in ("alpha", "beta"):
            assert fault("freeze", name) == 0
        until(lambda: {state_of(alpha), state_of(beta)} == {"frozen"}, "both are frozen")
        assert fault("heal", "alpha") == 0
        until(lambda: state_of(alpha) == "runs", "alpha goes on")
        assert state_of(beta) == "frozen"
        assert fault("kill", "beta") == 0
        assert beta.wait(timeout=30) == -signal.SIGKILL


LASTS = "12s"
"""Longer than this machine may stand still before the test has looked."""


@pytest.mark.long
def test_what_is_frozen_for_a_while_goes_on_although_the_command_is_gone(folder: Path) -> None:
    with stand_in(folder, "alpha") as alpha:
        words = ("fault", "freeze", "alpha", "--for", LASTS)
        command = subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli.main", *words],
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "MEDUSA_DIR": str(folder)},
            start_new_session=True,
        )
        assert command.stdout is not None
        assert f"frozen for {LASTS[:-1]} s" in command.stdout.readline()
        assert "even if this command ends first" in command.stdout.readline()
        until(lambda: state_of(alpha) == "frozen", "alpha is frozen")
        os.killpg(command.pid, signal.SIGKILL)
        command.wait(timeout=30)
        command.stdout.close()
        until(lambda: state_of(alpha) == "runs", "alpha goes on by itself", 60)


@pytest.mark.long
def test_a_freeze_stays_in_the_foreground_until_it_is_over(
    folder: Path, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    with stand_in(folder, "alpha") as alpha:
        began_s = time.monotonic()
        assert fault("freeze", "alpha", "--for", "2s") == 0
        assert time.monotonic() - began_s >= 2.0, "the command has waited"
        until(lambda: state_of(alpha) == "runs", "alpha goes on")
        assert capsys.readouterr().out.splitlines()[-1] == "alpha continues"


def test_a_number_that_was_given_again_is_never_signalled(folder: Path, fault: Fault) -> None:
    with stand_in(folder, "alpha") as other:
        (record,) = (folder / FOLDER).glob("*.json")
        written = json.loads(record.read_text())
        record.write_text(json.dumps({**written, "started": f"{written['started']}1"}))
        assert fault("kill", "alpha") == 4
        assert state_of(other) == "runs"
        assert not record.exists()
        was = Running(participant=A, pid=other.pid, started="another time", waits=False)
        assert not was.signal(signal.SIGKILL)
        assert not was.is_there
        assert state_of(other) == "runs"


def forged(folder: Path) -> Iterator[tuple[str, object]]:
    mine = look_at(os.getpid())
    assert mine is not None
    good = {"participant": "alpha", "pid": os.getpid(), "started": mine.started, "waits": False}
    yield f"beta-{os.getpid()}.json", good
    yield "alpha-1.json", {**good, "pid": 1}
    yield "alpha-0.json", {**good, "pid": 0}
    yield "alpha--1.json", {**good, "pid": -1}
    yield "alpha-True.json", {**good, "pid": True}
    yield f"alpha-{10**30}.json", {**good, "pid": 10**30}
    yield f"alpha-{os.getpid()}.json", {**good, "started": None}
    yield "x.json", ["alpha"]


def test_a_record_of_another_process_signals_no_process(folder: Path, fault: Fault) -> None:
    (folder / FOLDER).mkdir()
    for name, record in forged(folder):
        file = folder / FOLDER / name
        file.write_text(json.dumps(record))
        assert running_in(folder) == []
        assert fault("kill", "alpha") == 4
        file.unlink()
    os.mkfifo(folder / FOLDER / "alpha-7.json")
    assert running_in(folder) == []


def test_a_process_strikes_itself_out_at_its_end(folder: Path) -> None:
    with recorded(folder, A) as drives:
        (found,) = running_in(folder)
        assert (found.pid, found.waits, found.is_there) == (os.getpid(), True, True)
        drives()
        assert [process.waits for process in running_in(folder)] == [False]
    assert running_in(folder) == []


def test_a_folder_that_cannot_be_written_hinders_no_run(folder: Path) -> None:
    (folder / FOLDER).write_text("no folder")
    with recorded(folder, A) as drives:
        drives()
    assert running_in(folder) == []


def test_the_list_shows_links_and_processes(
    folder: Path, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    fault("cut", "alpha", "beta", "--one-way")
    fault("slow", "beta", "gamma", "--by", "250ms", "--for", "1h")
    with stand_in(folder, "beta", "waits"):
        capsys.readouterr()
        assert fault("list") == 0
        told = capsys.readouterr().out
    assert "alpha to beta" in told
    assert "healed" in told
    assert "250 ms slower" in told
    assert "waits for leases" in told
    assert read_faults(folder / FILE).slow[0].by_ms == 250
    assert isinstance(read_faults(folder / FILE).slow[0], Slow)


# ------------------------------------------------------------ a federation


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("drills")
    (file,) = write_generated(made / "input", seed=9, records=6_000)
    return write_few_contracts(made / "contracts", file)


@pytest.fixture
def two(
    postgres_server: EmbeddedServer, spark: SparkSession, contracts: Path, tmp_path: Path
) -> Iterator[dict[str, OpenParticipant]]:
    """alpha and beta in this process."""
    with home_pool(postgres_server, tmp_path / "two", A, B) as settings, ExitStack() as stack:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield {
            name: stack.enter_context(seated(settings, name, lambda: spark, STEP_RECORDS))
            for name in (A, B)
        }


@pytest.mark.long
def test_nothing_goes_over_a_cut_link_and_all_of_it_once_it_is_whole(
    two: dict[str, OpenParticipant], monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha, beta = two["alpha"], two["beta"]
    monkeypatch.setenv("MEDUSA_DIR", str(alpha.home_session.home.directory))
    rounds_until([alpha], lambda: has_ended(alpha.home_session))
    segments = beta.home_session.home.catalog.segments
    main(["fault", "cut", "alpha", "beta"])
    idles_until_told(beta, "cut by a drill")
    main(["fault", "heal"])
    # What beta asks arrives, but no answer comes back: nothing is imported either.
    main(["fault", "cut", "alpha", "beta", "--one-way"])
    idles_until_told(beta, "does not answer")
    assert segments(CONNECTIONS) == ()
    main(["fault", "heal", "alpha", "beta"])
    rounds_until([beta], lambda: has_ended(beta.home_session))

    def held_us() -> int:
        holds = alpha.home_session.home.catalog.holds(CONNECTIONS)
        return next(hold.from_us for hold in holds if hold.holder == "beta")

    # On a slow machine the last acknowledgement reaches alpha a tick later.
    rounds_until([beta], lambda: held_us() > segments(CONNECTIONS)[-1].range.from_us)


@pytest.mark.long
def test_running_participants_are_cut_off_frozen_and_killed_and_come_to_their_end(
    contracts: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installation(contracts) as installed:
        monkeypatch.setenv("MEDUSA_DIR", str(installed.folder))
        monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
        run_here(installed.settings, "alpha", no_spark, STEP_RECORDS)
        assert main(["fault", "cut", "alpha", "beta"]) == 0
        beta = installed.start("beta")
        try:
            until(lambda: logged(installed, "beta", "cut by a drill"), "beta is cut off", END_S_MAX)
            assert main(["fault", "freeze", "beta"]) == 0
            until(lambda: states(installed) == [(B, True)], "beta is frozen")
            assert main(["fault", "heal"]) == 0
            until(lambda: states(installed) == [(B, False)], "beta goes on")
            until(lambda: has_imported(installed), "beta imports", END_S_MAX)
            assert main(["fault", "kill", "beta"]) == 0
            assert beta.wait(timeout=30) == -signal.SIGKILL
        finally:
            kill(beta)
        assert states(installed) == []
        run_here(installed.settings, "beta", lambda: spark, STEP_RECORDS)
        assert outputs_have_ended(installed)


def states(installed: Installation) -> list[tuple[Participant, bool]]:
    return [(process.participant, process.is_frozen) for process in running_in(installed.folder)]


def has_imported(installed: Installation) -> bool:
    with open_session(installed.settings, B) as session:
        return bool(session.home.catalog.segments(CONNECTIONS))
