"""`medusa status`: every home of the folder, readable, and the same facts as JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.catalog.partner_records import LinkReport, LinkState
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from pipelines.cli.status_text import LINKS, _link, fixed
from pipelines.homes.home import open_home
from pipelines.sources.live.live_source import Polled
from pipelines.watching.backlog import BacklogFile
from tests.catalog import building as a
from tests.cli.watched import BETA, RED, Watched, own_watched_homes
from tests.sweeps import long_but
from tests.waiting import until

Status = Callable[..., tuple[int, str, str]]
WIDTH_MAX = 100


@pytest.fixture
def status(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Status:
    """Run `medusa status` with these arguments: exit code, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        for name, value in watched.environment().items():
            monkeypatch.setenv(name, value)
        code = main(["status", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.mark.long
def test_all_homes_of_the_folder_are_shown_unless_one_is_named(status: Status) -> None:
    code, out, _ = status("--json")
    assert code == 0
    assert [home["participant"] for home in json.loads(out)["homes"]] == ["alpha", "beta"]
    code, out, _ = status("--json", "--participant", "beta")
    assert [home["participant"] for home in json.loads(out)["homes"]] == ["beta"]
    _, out, _ = status()
    assert out.index("home of") < out.index("alpha") < out.index("beta")


def test_streams_tell_how_far_they_are_stable_and_tentative_and_how_far_behind(
    status: Status, watched: Watched
) -> None:
    _, out, _ = status("--json", "--participant", "alpha")
    (home,) = json.loads(out)["homes"]
    streams = {s["stream"]: s for s in home["streams"]}
    sums, source = streams[a.SUMS], streams[a.SRC]
    assert sums["stable_through_us"] == watched.origin_us + 2 * a.WIDTH_US
    assert sums["tentative_through_us"] == watched.origin_us + 3 * a.WIDTH_US
    assert (source["stable_through_us"], source["tentative_through_us"]) == (
        watched.origin_us + 3 * a.WIDTH_US,
        None,
    )
    assert sums["behind_ms"] == home["clock_ms"] - sums["stable_through_us"] // 1_000
    assert (streams[a.BIG]["stable_through"], streams[a.BIG]["behind_ms"]) == (None, None)
    assert (source["rows"], source["version"], sums["rows"]) == (15, 1, 2)
    assert not any(s["has_ended"] for s in streams.values())


@pytest.mark.long
def test_leases_quarantine_and_the_last_step_are_told_with_their_times(status: Status) -> None:
    _, out, _ = status("--json", "--participant", "alpha")
    (home,) = json.loads(out)["homes"]
    leases = {lease["fragment"]: lease for lease in home["leases"]}
    assert set(leases) == {a.LANDING, a.MAIN}
    assert leases[a.LANDING]["is_held"]
    assert 0 < leases[a.LANDING]["expires_in_ms"] <= a.HOUR_MS
    assert leases[a.LANDING]["producer"] == "alpha/0"
    counts = [q["records"] for q in home["quarantine"]["by_reason"]]
    assert (home["quarantine"]["records"], counts) == (4, [3, 1])
    last = home["last_step"]
    assert (last["fragment"], last["records_in"], last["phases_ms"]) == (a.MAIN, 15, {"run": 12.5})
    assert 0 <= last["committed_ago_ms"] < 600_000
    assert home["steps"] == 2
    assert any(line.startswith("close src") for line in home["next"])
    assert home["networks"][0]["network"] == "example"


def test_the_text_has_the_facts_in_lines_of_a_hundred_characters(status: Status) -> None:
    _, out, _ = status("--participant", "alpha")
    lines = out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("folder")) <= WIDTH_MAX
    sums, corrections = [line for line in lines if line.startswith(f"{a.SUMS} ")]
    assert "+10 s" in sums
    assert "alpha/0" in sums
    assert "nothing yet" in corrections, "of what is tentative nothing was corrected"
    assert any("ends in" in line and a.MAIN in line for line in lines)
    assert any("not begun" in line and a.BIG in line for line in lines)
    assert "it would do next:" in lines


def test_links_show_which_partner_is_dead_or_slow_before_all_else(
    status: Status, watched: Watched
) -> None:
    keys = ((name, sha256(name.encode()).hexdigest()) for name in ("bank", "shop"))
    for name, key in keys:
        watched.change(
            "INSERT INTO medusa_market.party_key (participant, public_key, learned_by, because) "
            f"VALUES ('{name}', '\\x{key}', 'me', 'a test')"
        )
    bank = a_link("bank", LinkState.UNREACHABLE, error=f"no {RED} route", state_ago_ms=12_000)
    with open_home(watched.settings, a.ALPHA) as home:
        home.catalog.report_links([bank, a_link("shop", delay_ms=2_300, delay_ms_max=9_000)])
    _, out, _ = status("--json", "--participant", "alpha")
    (found,) = json.loads(out)["homes"]
    dead, slow = found["links"]
    assert (dead["partner"], dead["side"], dead["state"]) == ("bank", "client", "unreachable")
    assert (slow["bytes_received"], slow["requests"], slow["delay_ms"]) == (1_500_000, 7, 2_300)
    _, out, _ = status("--participant", "alpha")
    first, *lines = out.splitlines()
    assert first.startswith("LINK to bank is unreachable for 1")
    assert max(len(line) for line in lines if not line.startswith("folder")) <= WIDTH_MAX
    (line,) = [line for line in lines if line.startswith("shop ")]
    assert line.split()[1:3] == ["reads", "reachable"]
    assert " ".join(line.split()).endswith("4 ms/9 ms 2.3 s/9.0 s 1.5 MB 20 B 3")
    assert {c for c in out if unicodedata.category(c).startswith("C")} == {"\n"}


def test_no_duration_of_a_link_is_cut() -> None:
    seconds = (0.4, 59, 119, 133, 3_599, 86_399, 8 * 86_400, 399 * 86_400)
    links = [
        {"side": side, "state": state, "since_ago_ms": int(s * 1_000), "partner": "bank",
         "answered_ago_ms": int(s * 1_000), "answer_ms": 4, "answer_ms_max": 9, "delay_ms": None,
         "delay_ms_max": None, "bytes_received": 0, "bytes_sent": 0, "files": 0}
        for s in seconds
        for side, state in (("client", "reachable"), ("client", "unreachable"), ("server", ""))
    ]  # fmt: skip
    printed = fixed(LINKS, [_link(link) for link in links])
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= WIDTH_MAX
    assert {"answered 2 min ago", "unreachable 59 min"} <= {
        line[22:42].strip() for line in printed.splitlines()
    }


def a_link(partner: str, state: LinkState = LinkState.REACHABLE, error: str | None = None,
           state_ago_ms: int = 0, delay_ms: int | None = None,
           delay_ms_max: int | None = None) -> LinkReport:  # fmt: skip
    return LinkReport(
        partner=Participant(partner), state=state, state_ago_ms=state_ago_ms, error=error,
        failed_ago_ms=None, answered_ago_ms=10, requests=7, failures=0, files=3,
        bytes_received=1_500_000, bytes_sent=20, answer_ms=4, answer_ms_max=9, delay_ms=delay_ms,
        delay_ms_max=delay_ms_max,
    )  # fmt: skip


@pytest.mark.long
def test_columns_stand_still_whatever_is_in_them(status: Status) -> None:
    heads = {}
    for participant in ("alpha", "beta"):
        _, out, _ = status("--participant", participant)
        (heads[participant],) = [ln for ln in out.splitlines() if "behind by" in ln]
    assert heads["alpha"] == heads["beta"]


def test_text_of_a_driver_or_record_cannot_colour_the_terminal(status: Status) -> None:
    _, out, _ = status()
    assert "red" in out
    assert {c for c in out if unicodedata.category(c).startswith("C")} == {"\n"}


def test_a_lease_that_is_over_says_since_when(status: Status, watched: Watched) -> None:
    ends = "UPDATE medusa.lease SET expires_at = clock_timestamp() {} WHERE fragment = '{}'"
    watched.change(ends.format("- interval '5 minutes'", a.MAIN))
    try:
        _, out, _ = status("--participant", "alpha")
        (line,) = [ln for ln in out.splitlines() if ln.startswith(a.MAIN)]
        assert "over 5 min" in line
        assert "1 held now" in out
    finally:
        watched.change(ends.format("+ interval '1 hour'", a.MAIN))


def test_an_unavailable_home_is_shown_with_the_available_ones(
    postgres_server: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with own_watched_homes(postgres_server, tmp_path) as homes:
        # What a newer program leaves when it has migrated the home.
        homes.change(
            "INSERT INTO medusa.schema_migration (name, sha256) VALUES ('9999_newer', '');"
            "INSERT INTO medusa.schema_version (digest) VALUES ('of a newer program')",
            BETA,
        )
        for name, value in homes.environment().items():
            monkeypatch.setenv(name, value)
        code = main(["status", "--json"])
        alpha, beta = json.loads(capsys.readouterr().out)["homes"]
    assert alpha["steps"] == 2
    assert beta["participant"] == "beta"
    assert "9999_newer" in beta["error"]
    assert code == Refused.exit_code


def test_one_home_that_cannot_be_reached_is_an_error_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDUSA_CATALOG_URL", "postgresql://who:kanarienvogel@127.0.0.1:1/none")
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    assert main(["status", "--participant", "alpha"]) == Unavailable.exit_code
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert "kanarienvogel" not in printed.err + printed.out


@pytest.mark.long
def test_watching_looks_again_until_it_is_interrupted(watched: Watched, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "pipelines.cli.main", "status", "--json", "--watch", "0.05"]
    environment = {**os.environ, **watched.environment()}
    with out.open("w") as file, subprocess.Popen(
        command, env=environment, stdout=file, stderr=subprocess.DEVNULL
    ) as watching:  # fmt: skip
        until(lambda: len(out.read_text().splitlines()) >= 3, "three looks", 120)
        watching.send_signal(signal.SIGINT)
        watching.wait(timeout=120)
    # The last one may have been interrupted while it was being written.
    first, second = [json.loads(line) for line in out.read_text().splitlines()[:2]]
    assert second["homes"][0]["clock_ms"] > first["homes"][0]["clock_ms"]
    assert watching.returncode == 130


@pytest.mark.parametrize("seconds", long_but(2, ["0", "-1", "soon", "nan", "1e9"]))
def test_a_time_to_look_again_is_some_seconds(seconds: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", "--watch", seconds])
    assert ended.value.code == 2


@pytest.mark.long
def test_sources_tell_what_waits_as_their_driver_last_told(
    status: Status, watched: Watched
) -> None:
    document = '{"kind": "directory", "path": "/in"}'
    watched.change(f"SELECT medusa.declare_source('{a.SRC}', '{document}')")
    waiting = Polled(waiting_files=1_234, has_waiting=True)
    file = BacklogFile(watched.settings.directory, a.ALPHA)
    file.record(a.SRC, waiting, time.time() - 60)
    file.record(a.SRC, waiting, time.time())
    _, out, _ = status("--json", "--participant", "alpha")
    (home,) = json.loads(out)["homes"]
    (source,) = home["sources"]
    assert (source["stream"], source["kind"], source["waiting_files"]) == (
        a.SRC, "directory", 1_234
    )  # fmt: skip
    assert source["behind_ms"] >= 60_000
    _, out, _ = status("--participant", "alpha")
    (line,) = (line for line in out.splitlines() if "1,234" in line)
    assert line.startswith(a.SRC)
    assert max(map(len, out.splitlines()[2:])) <= WIDTH_MAX
