"""Forms of recall, revise, move and pause: the requests of the commands, and each act only once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine

from medusa_core.errors import Refused
from medusa_core.market.moves import REASON_LENGTH_MAX
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes
from pipelines.operations import act_forms
from pipelines.operations.desired_jobs import desire_jobs, list_jobs
from pipelines.operations.fragment_moves import MoveBegun, MoveRequest
from pipelines.operations.stream_recall import prepare_recall
from pipelines.operations.stream_revision import StreamRevisionRequest
from tests.changes.building import SUMS, WIDTH_US, Lines, some_lines

RUN = "ola, Airflow medusa_recall manual__1"
RECALL = {"participant": "alpha", "stream": "sums", "from": iso(WIDTH_US), "because": "it stood"}


@pytest.fixture(scope="module")
def lines(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lines]:
    """A home with two buckets; of the tests only the two that act change it."""
    with some_lines(postgres_server, tmp_path_factory.mktemp("acts") / "home") as found:
        found.write(SUMS, 0, 2, {0: [("a", 1)], 1: [("b", 1)]})
        yield found


@pytest.fixture(scope="module")
def settings(lines: Lines) -> Settings:
    return lines.settings


def recalled(settings: Settings, who: str) -> bool:
    """Recall as the task does; whether it was done now."""
    request = act_forms.recall_request(settings, RECALL, who)
    if act_forms.made_before(settings, request.participant, request.stream, who) is not None:
        return False
    with prepare_recall(settings, request) as prepared:
        prepared.carry_out()
    return True


def test_a_run_that_is_tried_again_recalls_once_and_another_run_recalls_again(
    lines: Lines, settings: Settings
) -> None:
    assert recalled(settings, RUN)
    lines.write(SUMS, 1, 2, {1: [("b", 2)]})
    assert not recalled(settings, RUN)
    assert recalled(settings, RUN.replace("manual__1", "manual__2"))
    made = lines.catalog.recalls(SUMS)
    assert [(one.who, one.because) for one in made] == [
        (RUN, "it stood"), (RUN.replace("manual__1", "manual__2"), "it stood"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"participant": "alpah"}, "no participant 'alpah'.*did you mean 'alpha'"),
        ({"participant": "x' OR '1'='1"}, "no participant"),
        ({"stream": None}, "stream is empty"),
        ({"stream": 7}, "stream is not a text"),
        ({"from": ""}, "from is empty"),
        ({"from": "yesterday"}, "from"),
        ({"because": " "}, "because is empty: say why"),
        ({"because": "two\nlines"}, "because holds a line break"),
        ({"because": "x" * 1_001}, "because has 1001 characters"),
    ],
)
def test_each_field_of_a_recall_has_its_refusal(
    settings: Settings, form: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        act_forms.recall_request(settings, RECALL | form, RUN)


def test_a_recall_that_follows_a_partner_needs_no_reason_of_its_own(settings: Settings) -> None:
    form = RECALL | {"because": None, "follow": "beta"}
    assert act_forms.recall_request(settings, form, RUN).follow == "beta"


REVISION = {"participant": "alpha", "stream": "src", "action": "add", "because": "it was lost"}


def test_records_of_a_form_are_a_file_while_it_is_revised(settings: Settings) -> None:
    with act_forms.revision_request(settings, REVISION | {"records": "n,s\n1,2"}, RUN) as request:
        assert isinstance(request, StreamRevisionRequest)
        assert request.file.read_text() == "n,s\n1,2\n"
        assert (request.who, request.because) == (RUN, "it was lost")
    assert not request.file.exists()


def test_what_is_wrong_with_records_is_told_of_the_field_that_they_came_from(
    settings: Settings,
) -> None:
    def refuse() -> None:
        with act_forms.revision_request(settings, REVISION | {"records": "n\n"}, RUN) as request:
            assert isinstance(request, StreamRevisionRequest)
            raise Refused(f"{request.file}, record 2: n is empty")

    with pytest.raises(Refused, match=r"^records, record 2: n is empty"):
        refuse()


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({}, "records or file"),
        ({"records": "n\n1", "file": "late.csv"}, "not both"),
        ({"file": "late.csv"}, "there is no file .*revisions/late.csv"),
        ({"file": "../home.json"}, "leads out of .*revisions"),
        ({"file": "/etc/passwd"}, "leads out of"),
        ({"file": "a\0b"}, "not the name of a file"),
        ({"records": "x" * 100_001}, "more than 100,000 characters"),
        ({"action": "drop"}, "choose add, remove, replace, follow"),
        ({"action": "follow"}, "follow is empty"),
        ({"records": "n\n1", "because": None}, "because is empty"),
    ],
)
def test_each_field_of_a_revision_has_its_refusal(
    settings: Settings, form: dict[str, Any], reason: str
) -> None:
    with (
        pytest.raises(Refused, match=reason),
        act_forms.revision_request(settings, REVISION | form, RUN),
    ):
        pass


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"fragment": None}, "fragment is empty"),
        ({"action": "away"}, "choose to, back"),
        ({"partner": None}, "partner is empty"),
        ({"partner": "B;"}, "'B;' is not a name"),
        ({"action": "back"}, "leave partner empty"),
        ({"fragment": "mian"}, "no fragment .mian.: there is example/main"),
        ({"action": "back", "partner": None}, "no moved fragment 'main'"),
    ],
)
def test_each_field_of_a_move_has_its_refusal(
    settings: Settings, form: dict[str, Any], reason: str
) -> None:
    given = {"participant": "alpha", "fragment": "main", "action": "to", "partner": "beta"} | form
    with pytest.raises(Refused, match=reason):
        act_forms.move_by_form(settings, given, RUN)


BEGUN = """INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,
    order_document, reason) VALUES (true, 'beta', 'care', {number}, '{fragment}', 'accepted',
    '{{}}', '{reason}')"""
NEXT = (
    "UPDATE medusa_market.move SET state = '{state}', reason = '{reason}' WHERE number = {number}"
)
STATES = (
    "SELECT number, state FROM medusa_market.move WHERE fragment = '{fragment}' ORDER BY number"
)


@dataclass(frozen=True)
class MovesUnderTest:
    """Moves of a real home, which begin and go on as its owner's statements say."""

    settings: Settings
    engine: Engine

    def begin(self, number: int, fragment: str, reason: str = "a round") -> None:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(
                BEGUN.format(number=number, fragment=fragment, reason=reason)
            )

    def go_on(self, number: int, *states: str) -> None:
        with self.engine.begin() as connection:
            for state in states:
                connection.exec_driver_sql(
                    NEXT.format(number=number, state=state, reason=f"it is {state}")
                )

    def states(self, fragment: str) -> dict[int, str]:
        with self.engine.connect() as connection:
            rows = connection.exec_driver_sql(STATES.format(fragment=fragment))
            return {row.number: row.state for row in rows}

    def act(self, who: str, fragment: str, **form: str) -> str:
        given = {"participant": "alpha", "fragment": fragment, **form}
        return act_forms.move_by_form(self.settings, given, who)


@pytest.fixture
def moves(settings: Settings, postgres_server: EmbeddedServer) -> Iterator[MovesUnderTest]:
    database = known_homes(settings.directory)[Participant("alpha")]
    engine = create_engine(postgres_server.superuser_url(database))
    yield MovesUnderTest(settings, engine)
    engine.dispose()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[MoveRequest]:
    """The moves that were to begin, in place of their beginning: there is no contract here."""
    found: list[MoveRequest] = []

    def begin(_: Settings, request: MoveRequest) -> MoveBegun:
        found.append(request)
        return MoveBegun(fragment="example/main", provider=Participant("beta"), contract="care",
                         number=30)  # fmt: skip

    monkeypatch.setattr(act_forms, "begin_move", begin)
    return found


def test_a_fragment_that_is_with_the_partner_is_left_alone(moves: MovesUnderTest) -> None:
    moves.begin(7, "example/head")
    done = moves.act(RUN, "example.head", action="to", partner="beta")
    assert done == "move 7: fragment example/head is with beta already"


def test_a_run_that_is_cleared_does_not_take_back_a_later_move(moves: MovesUnderTest) -> None:
    moves.begin(11, "example/tail")
    moves.go_on(11, "started", "released")
    assert moves.act(RUN, "tail", action="back", because="monday") == (
        "fragment example/tail goes back to alpha"
    )
    again = "move 11: this run has acted on fragment example/tail already"
    assert moves.act(RUN, "tail", action="back", because="monday") == again
    moves.go_on(11, "ended")
    moves.begin(12, "example/tail")
    moves.go_on(12, "started", "released")
    assert moves.act(RUN, "tail", action="back", because="monday") == again
    assert moves.states("example/tail") == {11: "ended", 12: "released"}
    moves.act(RUN + "2", "tail", action="back")
    assert moves.states("example/tail") == {11: "ended", 12: "returning"}


def test_a_run_that_is_cleared_does_not_hand_over_again_what_has_come_back(
    moves: MovesUnderTest, asked: list[MoveRequest]
) -> None:
    run = RUN + " to"
    moves.begin(21, "example/main", reason=f"{act_forms.move_mark(run)}: monday")
    moves.go_on(21, "ended")
    done = moves.act(run, "main", action="to", partner="beta")
    assert done == "move 21: this run has acted on fragment example/main already"
    assert asked == []
    moves.act(run + "2", "main", action="to", partner="beta")
    assert len(asked) == 1, "another run hands it over again"


def test_the_partner_is_sent_a_mark_and_the_reason_and_nobodys_name(
    moves: MovesUnderTest, asked: list[MoveRequest]
) -> None:
    why = "x" * act_forms.MOVE_BECAUSE_CHARACTERS_MAX
    moves.act(RUN + "3", "main", action="to", partner="beta", because=why)
    moves.act(RUN + "4", "main", action="to", partner="beta")
    with pytest.raises(Refused, match="because has 451 characters"):
        moves.act(RUN + "5", "main", action="to", partner="beta", because=why + "x")
    first, second = (one.reason for one in asked)
    assert re.fullmatch(rf"by hand, run [0-9a-f]{{16}}: {why}", first)
    assert len(first) <= REASON_LENGTH_MAX
    assert second == act_forms.move_mark(RUN + "4") != act_forms.move_mark(RUN + "3")


PAUSED = {"participants": ["alpha"], "action": "pause", "lane": "live", "because": "new disks"}


def test_a_participant_is_paused_and_resumed_with_the_reason_and_once_a_run(
    settings: Settings,
) -> None:
    desire_jobs(settings, act_forms.pause_request(settings, PAUSED, RUN))
    (status,) = list_jobs(settings)
    (one,) = status.desired
    assert (one.is_desired, one.who, one.because) == (False, RUN, "new disks")
    resumed = PAUSED | {"action": "resume"}
    numbers = set()
    for _ in range(2):
        desire_jobs(settings, act_forms.pause_request(settings, resumed, RUN + "2"))
        (status,) = list_jobs(settings)
        numbers.add(status.desired[0].number)
    assert status.desired[0].is_desired
    assert len(numbers) == 1, "a run that is tried again does not desire it again"
    desire_jobs(settings, act_forms.pause_request(settings, resumed, RUN + "3"))
    (status,) = list_jobs(settings)
    assert status.desired[0].number not in numbers, "another run gives it another try"


def test_a_pause_that_is_cleared_does_not_undo_a_later_resume(settings: Settings) -> None:
    def act(action: str, who: str) -> bool:
        form = PAUSED | {"action": action}
        desire_jobs(settings, act_forms.pause_request(settings, form, who))
        (status,) = list_jobs(settings)
        return status.desired[0].is_desired

    assert not act("pause", "monday")
    assert not act("pause", "tuesday"), "it changes nothing, and has been done"
    assert act("resume", "wednesday")
    assert act("pause", "monday")
    assert act("pause", "tuesday")
    assert not act("pause", "thursday")
    assert not act("resume", "wednesday")


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"participants": []}, "participants is empty"),
        ({"participants": ["beta"]}, "no participant 'beta'"),
        ({"because": None}, "because is empty"),
        ({"action": "stop"}, "choose pause, resume"),
        ({"lane": "dead"}, "choose live, backlog"),
    ],
)
def test_each_field_of_a_pause_has_its_refusal(
    settings: Settings, form: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        act_forms.pause_request(settings, PAUSED | form, RUN)
