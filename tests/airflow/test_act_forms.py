"""Forms of recall, revise, move and pause: the requests of the commands, and each act only once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine

from medusa_core.errors import Refused
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes
from pipelines.operations import act_forms
from pipelines.operations.desired_jobs import desire_jobs, list_jobs
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


MOVE = """INSERT INTO medusa_market.move (is_given, partner, contract, number, fragment, state,
    order_document, reason) VALUES (true, 'beta', 'care', 7, 'example/tail', '{state}', '{{}}',
    'by hand, {run}') ON CONFLICT (is_given, partner, number) DO UPDATE SET state = '{state}'"""


def test_a_fragment_that_is_with_the_partner_or_has_gone_back_by_the_same_run_is_left_alone(
    settings: Settings, postgres_server: EmbeddedServer
) -> None:
    def act(state: str, **form: str) -> str:
        database = known_homes(settings.directory)[Participant("alpha")]
        engine = create_engine(postgres_server.superuser_url(database))
        with engine.begin() as connection:
            connection.exec_driver_sql("SET session_replication_role = replica")
            connection.exec_driver_sql(MOVE.format(state=state, run=RUN))
        engine.dispose()
        given = {"participant": "alpha", "fragment": "example.tail", **form}
        return act_forms.move_by_form(settings, given, RUN)

    begun = act("started", action="to", partner="beta")
    assert begun == "move 7: fragment example/tail is with beta already"
    ended = act("ended", action="back")
    assert ended == "move 7: fragment example/tail has gone back already"
    with pytest.raises(Refused, match="no moved fragment"):
        act_forms.move_by_form(
            settings, {"participant": "alpha", "fragment": "tail", "action": "back"}, RUN + "2"
        )


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
