"""Whatever a database says no with is a growing pause and an alarm, and the result is the same."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base.failpoints import FILE, POINT
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.exchange.contents import FileContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.importer import Imported, Importer
from pipelines.exchange.nonblocking import NonBlockingExchange
from pipelines.homes.home import known_homes
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from pipelines.participant.retries import RETRIES
from pipelines.sources.generated_files import write_generated
from tests.catalog.homes_under_test import watcher_of
from tests.federation.building import Running, federation_of, no_spark, rounds_until, seated
from tests.federation.processes import STEP_RECORDS, Installation, contents, installation, kill
from tests.federation.test_crashes import write_contracts
from tests.sweeps import long_but
from tests.waiting import until

FAILURES = 5
STATES = {"out of shared memory": "53200", "a state that nobody has heard of": "ZZ999"}

FAULT = """
CREATE SCHEMA fault;
GRANT USAGE ON SCHEMA fault TO PUBLIC;
CREATE SEQUENCE fault.met;
GRANT USAGE ON fault.met TO PUBLIC;
CREATE FUNCTION fault.strike() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('fault.met') <= {failures} THEN
        RAISE EXCEPTION '{message}' USING ERRCODE = '{state}';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER strike BEFORE {event} FOR EACH ROW EXECUTE FUNCTION fault.strike();
"""


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("database-faults")
    (file,) = write_generated(folder / "input", seed=3, records=4_000)
    return write_contracts(folder / "contracts", file)


Federation = Callable[[str], Settings]


@pytest.fixture(scope="module")
def federation(
    postgres_server: EmbeddedServer, contracts: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """Makes homes of alpha and beta, in a folder of that name."""
    folder = tmp_path_factory.mktemp("homes")
    with ExitStack() as stack:

        def make(name: str) -> Settings:
            settings = stack.enter_context(federation_of(postgres_server, folder / name))
            apply_contracts(settings, ApplyRequest(contracts=contracts))
            return settings

        yield make


@pytest.fixture(scope="module")
def undisturbed(federation: Federation, postgres_server: EmbeddedServer) -> dict[str, object]:
    """What alpha's home holds when nothing happened to it."""
    settings = federation("undisturbed")
    with seated(settings, "alpha", no_spark, STEP_RECORDS) as alpha:
        rounds_until([alpha], lambda: has_ended(alpha.home_session))
    return contents(Installation(settings, postgres_server), "alpha")


def database_of(settings: Settings, name: str) -> str:
    return known_homes(settings.directory)[Participant(name)]


def as_superuser(server: EmbeddedServer, settings: Settings, name: str, sql: str) -> None:
    with (
        watcher_of(server.superuser_url(database_of(settings, name))) as watcher,
        watcher.connect() as connection,
    ):
        connection.exec_driver_sql(sql.replace("%", "%%"))


def run_to_the_end(
    running: Running, strike: Callable[[int], None] = lambda tick: None
) -> list[int]:
    """Run the loop as the product does, `strike` before each tick; how long its pauses were."""
    pauses: list[int] = []
    ticks = 0

    def is_done() -> bool:
        nonlocal ticks
        ticks += 1
        strike(ticks)
        return has_ended(running.home_session)

    running.loop.run(
        is_done=is_done, wait=lambda limit_ms: None, recover=lambda e: None, pause=pauses.append
    )
    return pauses


@pytest.mark.parametrize(("message", "state"), long_but(1, STATES.items()))
def test_whatever_the_home_raises_is_waited_out_and_alarmed(
    federation: Federation,
    postgres_server: EmbeddedServer,
    undisturbed: dict[str, object],
    message: str,
    state: str,
) -> None:
    settings = federation(f"raises-{state}")
    with seated(settings, "alpha", no_spark, STEP_RECORDS) as alpha:
        fault = FAULT.format(
            failures=FAILURES, message=message, state=state, event="INSERT ON medusa.landed_batch"
        )
        as_superuser(postgres_server, settings, "alpha", fault)
        run_to_the_end(alpha)
    assert {type(error) for error in alpha.heard.errors} == {Unavailable}
    assert len(alpha.heard.errors) == FAILURES
    assert all(message in str(error) for error in alpha.heard.errors)
    of = "landing/connections"
    assert [one for one, _ in alpha.heard.alarms] == [of] * len(alpha.heard.alarms)
    assert message in (alpha.heard.alarms[0][1] or "")
    assert alpha.heard.alarms[FAILURES] == (of, None)
    assert contents(Installation(settings, postgres_server), "alpha") == undisturbed


@pytest.mark.long
def test_a_catalog_that_cannot_be_read_is_asked_again_less_and_less_often(
    federation: Federation, postgres_server: EmbeddedServer, undisturbed: dict[str, object]
) -> None:
    settings = federation("unread")
    with seated(settings, "alpha", no_spark, STEP_RECORDS) as alpha:
        hidden = "ALTER TABLE medusa.assignment RENAME TO assignment_away"
        shown = "ALTER TABLE medusa.assignment_away RENAME TO assignment"

        def strike(tick: int) -> None:
            if tick == 2:
                as_superuser(postgres_server, settings, "alpha", hidden)
            if tick == 9:
                as_superuser(postgres_server, settings, "alpha", shown)

        pauses = run_to_the_end(alpha, strike)
    expected = [RETRIES.wait_ms(number + 1) for number in range(len(pauses))]
    assert pauses == expected
    assert pauses[-1] == RETRIES.back_off_ms_max
    own = [because for of, because in alpha.heard.alarms if of == "alpha"]
    assert own[-1] is None
    assert None not in own[:-1]
    assert len(own) == len(pauses) + 1
    assert contents(Installation(settings, postgres_server), "alpha") == undisturbed


@pytest.mark.long
def test_a_driver_whose_sessions_are_ended_at_every_other_tick_comes_to_the_same_end(
    federation: Federation, postgres_server: EmbeddedServer, undisturbed: dict[str, object]
) -> None:
    settings = federation("ended")
    database = database_of(settings, "alpha")
    end = (
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
        f"WHERE datname = '{database}' AND pid <> pg_backend_pid()"
    )
    with seated(settings, "alpha", no_spark, STEP_RECORDS) as alpha:
        pauses = run_to_the_end(
            alpha, lambda tick: as_superuser(postgres_server, settings, "alpha", end)
            if tick % 2 else None
        )  # fmt: skip
    assert len(pauses) >= 2
    assert set(pauses) == {RETRIES.back_off_ms}, "each of them healed at once"
    assert contents(Installation(settings, postgres_server), "alpha") == undisturbed


@pytest.mark.long
def test_a_step_that_the_catalog_refuses_for_now_holds_up_no_other_fragment(
    federation: Federation, postgres_server: EmbeddedServer, undisturbed: dict[str, object]
) -> None:
    settings = federation("commits")
    with seated(settings, "alpha", no_spark, STEP_RECORDS) as alpha:
        fault = FAULT.format(
            failures=3, message="out of shared memory", state="53200",
            event="INSERT ON medusa.commit",
        )  # fmt: skip
        as_superuser(postgres_server, settings, "alpha", fault)
        pauses = run_to_the_end(alpha)
    assert pauses == [], "the loop itself goes on"
    assert len(alpha.heard.errors) == 3
    assert alpha.heard.alarms[-1] == ("landing/connections", None)
    assert contents(Installation(settings, postgres_server), "alpha") == undisturbed


@pytest.fixture
def installed(contracts: Path) -> Iterator[Installation]:
    with installation(contracts) as made:
        yield made


@pytest.mark.long
def test_a_server_that_is_killed_again_and_again_is_brought_back_and_the_work_is_done(
    installed: Installation, undisturbed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = installed.folder / "reached"
    process = installed.start(
        "alpha", "--until-ended", environment={POINT: "land.written", FILE: str(reached)}
    )
    killed: list[int] = []
    try:
        until(reached.exists, "alpha is about to land", seconds_max=150)
        server = psutil.Process(postmaster_of(installed))
        children = server.children(recursive=True)
        kill_server(installed, killed)
        psutil.wait_procs(children, timeout=30)
        # Its owner would wait for alpha, which stands still until it is told to go on.
        monkeypatch.setattr("pipelines.catalog.server.embedded_server.USERS_MS_MAX", 0)
        installed.server.stop()
        reached.unlink()
        for _ in range(2):
            until(
                lambda: process.poll() is not None or postmaster_of(installed) not in (0, *killed),
                "alpha brings the server back",
                seconds_max=150,
            )
            kill_server(installed, killed)
        _, output = process.communicate(timeout=180)
        assert process.returncode == 0, output
        assert len(killed) == 3
        with installed.server:
            assert contents(installed, "alpha") == undisturbed
    finally:
        kill(process)


def kill_server(installed: Installation, killed: list[int]) -> None:
    """Kill the process of the server, as the system does that needs its memory."""
    found = postmaster_of(installed)
    if found not in (0, *killed):
        killed.append(found)
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(found).kill()


def postmaster_of(installed: Installation) -> int:
    """The process id of the server; 0 while there is none."""
    file = installed.folder / "postgres" / "cluster" / "data" / "postmaster.pid"
    lines = file.read_text().splitlines() if file.exists() else []
    return int(lines[0]) if lines else 0


SIGNATURE = "medusa.published_news(text, text, integer, bigint, integer)"
REPLACED = f"""
ALTER FUNCTION {SIGNATURE} RENAME TO published_news_away;
CREATE FUNCTION medusa.published_news(
    partner text, stream text, replica integer, after bigint, segments_max integer
) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN {{body}} END $$;
GRANT EXECUTE ON FUNCTION {SIGNATURE} TO PUBLIC;
"""
PUT_BACK = f"""
DROP FUNCTION {SIGNATURE};
ALTER FUNCTION {SIGNATURE.replace("published_news", "published_news_away")}
    RENAME TO published_news;
"""


def empty_news(**changed: object) -> str:
    """The statement of a function that tells of nothing new, but for what is changed."""
    news = {"version": 0, "origin_us": 0, "end_us": None, "trimmed_us": None, "segments": [],
            "plans": []}  # fmt: skip
    return f"RETURN '{json.dumps(news | changed)}';"


FOREIGN = {
    "divides by zero": "RAISE EXCEPTION 'zero' USING ERRCODE = '22012';",
    "has no memory": "RAISE EXCEPTION 'out of shared memory' USING ERRCODE = '53200';",
    "says that somebody was first": "RAISE EXCEPTION 'mine' USING ERRCODE = 'MD002';",
    "has diverged": "RAISE EXCEPTION 'mine' USING ERRCODE = 'MD006';",
    "answers nothing": "RETURN NULL;",
    "answers a number": "RETURN '7';",
    "answers a list": "RETURN '[]';",
    "answers an empty object": "RETURN '{}';",
    "answers text for a number": empty_news(version="9"),
    "answers a list for a time": empty_news(origin_us=[]),
    "answers a number for a list": empty_news(segments=7),
    "answers a fraction": empty_news(version=9.5),
    "answers a segment of no form": empty_news(version=9, segments=[{"from_us": 0}]),
    "answers an endless number": """RETURN ('{"version": ' || repeat('9', 5000) || '}')::jsonb;""",
    "nests lists deeply": "RETURN (repeat('[', 3000) || repeat(']', 3000))::jsonb;",
}


@pytest.mark.parametrize("body", long_but(0, FOREIGN.values()), ids=list(FOREIGN))
def test_whatever_a_partners_function_answers_is_told_of_its_line_until_it_is_mended(
    told: Importing, postgres_server: EmbeddedServer, body: str
) -> None:
    settings, poll = told
    as_superuser(postgres_server, settings, "alpha", REPLACED.replace("{body}", body))
    try:
        (imported,) = poll()
        assert imported.problem
        assert len(imported.problem) < 500
    finally:
        as_superuser(postgres_server, settings, "alpha", PUT_BACK)
    (imported,) = poll()
    assert imported.problem is None


Importing = tuple[Settings, Callable[[], list[Imported]]]


@pytest.fixture(scope="module")
def told(federation: Federation) -> Iterator[Importing]:
    """How beta imports from alpha, which has landed everything."""
    settings = federation("told")
    with (
        seated(settings, "alpha", no_spark, STEP_RECORDS) as alpha,
        seated(settings, "beta", no_spark) as beta,
    ):
        rounds_until([alpha], lambda: has_ended(alpha.home_session))
        home = beta.home_session.home
        importer = Importer(
            home.catalog, FileCopies(home.storage),
            NonBlockingExchange(beta.home_session.exchange, moment_s=60), beta.leases,
            contents=FileContents(home.storage, home.catalog),
        )  # fmt: skip

        def poll() -> list[Imported]:
            found: list[Imported] = []
            importer.poll(found.append)
            return found

        yield settings, poll
