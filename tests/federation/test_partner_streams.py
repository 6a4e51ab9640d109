"""Two participants with folders and contracts of their own: one reads what the other offers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer
from pipelines.operations.contract_application import (
    ApplyRequest,
    ApplyResult,
    apply_contracts,
)
from pipelines.operations.partner_invitation import (
    AcceptRequest,
    InvitationMade,
    InviteRequest,
    accept_invitation,
    invite_partner,
)
from pipelines.operations.partner_management import export_partner
from pipelines.participant.home_session import open_session
from tests.federation.building import Running, seated
from tests.federation.test_composed_streams import (
    COUNTED,
    COUNTS,
    OFTEN,
    RECORDS,
    counted,
    recorded,
    rows,
    run_to_the_end,
)
from tests.partners.offices import Office, office

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

__all__ = ["recorded"]
pytestmark = pytest.mark.usefixtures("interpreted")

LANDS = """
from medusa_core.network import Network, Source

network = Network(
    name="lands",
    sources=(Source(name="connections", columns={"ts_us": "bigint", "orig_h": "string"},
                    time="ts_us"),),
    boxes=(), outputs=(), bucket="1s",
)
"""
SAME_NAME = OFTEN.replace('name="often"', 'name="counts"')
COUNTS_OF = COUNTS.replace('time="ts_us"', 'stream="connections"')
READS_BACK = f"""
from medusa_core.network import Aggregate, Filter, Network, Output, Source

network = Network(
    name="counts",
    sources=(Source(name="connections", columns={{"ts_us": "bigint", "orig_h": "string"}},
                    stream="connections"),
             Source(name="back", columns={COUNTED}, stream="beta/busy_hosts")),
    boxes=(Aggregate(name="per_host", input="connections", size="2s", group_by=("orig_h",),
                     columns={{"n": "count(*)"}}),
           Filter(name="odd", input="back", cases={{"yes": "n % 2 = 1"}})),
    outputs=(Output(name="counted", input="per_host"), Output(name="odds", input="odd")),
    bucket="1s",
)
"""
TOTAL = """
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="total",
    sources=(Source(name="raw", columns={"ts_us": "bigint", "orig_h": "string"},
                    stream="alpha/connections"),),
    boxes=(Aggregate(name="minute", input="raw", size="60s", columns={"n": "count(*)"}),),
    outputs=(Output(name="minutes", input="minute"),),
    bucket="60s",
)
"""
BETA = """
participant: beta
runs:
  - {network: networks/often.py, fragments: [main]}
  - {network: networks/total.py, fragments: [main]}
"""
LINEAGE = "SELECT lineage FROM medusa.lineage_of('{busy_hosts}')"
ALPHA = """
participant: alpha
runs:
  - {network: networks/lands.py, sources: [connections]}
  - {network: networks/counts.py, fragments: [main]}
"""


def write(office: Office, file: str, text: str) -> None:
    path = office.contracts / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def apply(office: Office, *, explain: bool = False) -> ApplyResult:
    request = ApplyRequest(contracts=office.contracts, explain=explain)
    return apply_contracts(office.settings, request)


def join(alpha: Office, beta: Office) -> None:
    made: list[InvitationMade] = []
    request = InviteRequest(partner=beta.participant, contracts=alpha.contracts, is_waiting=False)
    invite_partner(alpha.settings, request, made.append)
    accept_invitation(beta.settings, AcceptRequest(code=made[0].code, contracts=beta.contracts))


def grant(office: Office, stream: str, partner: str) -> None:
    statement = "SELECT medusa_api.grant_stream(:stream, :partner)"
    office.sql(statement, stream=stream, partner=partner)


@pytest.fixture(scope="module")
def offices(
    postgres_server: EmbeddedServer, recorded: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Office, Office]]:
    """Alpha lands and counts; beta, a partner, has contracts that read alpha's streams."""
    folder = tmp_path_factory.mktemp("partner-streams")
    with (
        office(postgres_server, folder / "a", "alpha") as alpha,
        office(postgres_server, folder / "b", "beta") as beta,
    ):
        write(alpha, "participants/alpha.yaml", ALPHA)
        write(alpha, "networks/lands.py", LANDS)
        write(alpha, "networks/counts.py", COUNTS_OF)
        lists(alpha, recorded)
        # As partners may: both name a network alike.
        write(beta, "networks/often.py", SAME_NAME)
        write(beta, "networks/total.py", TOTAL)
        yield alpha, beta


def lists(alpha: Office, recorded: Path, *readers: str) -> None:
    """The contract of alpha's connections as it names these readers, applied."""
    write(
        alpha,
        "streams/connections.yaml",
        f"stream: connections\nsource:\n  kind: replay\n  paths: ['{recorded}']\n"
        f"  speed: 1000000000\nreaders: [{', '.join(readers)}]\n",
    )
    apply(alpha)


def refusal(office: Office) -> str:
    with pytest.raises((Refused, Unavailable)) as refused:
        apply(office)
    return str(refused.value)


@pytest.mark.sweep
def test_a_stream_is_read_when_its_owner_is_a_partner_and_has_granted_it(
    offices: tuple[Office, Office], recorded: Path, spark: SparkSession, tmp_path: Path
) -> None:
    alpha, beta = offices
    write(beta, "participants/beta.yaml", BETA)
    assert "reads stream alpha/counted, and alpha has no contract as participant" in refusal(beta)
    join(alpha, beta)
    write(beta, "participants/beta.yaml", BETA)
    assert "alpha offers no stream counted to beta (it offers nothing)" in refusal(beta)
    grant(alpha, "counted", "beta")
    assert "alpha offers no stream connections to beta" in refusal(beta)
    assert beta.sql("SELECT name FROM medusa.network") == [], "nothing is half done"
    export_partner(alpha.settings, None, "beta", alpha.contracts)
    lists(alpha, recorded, "beta")
    assert [change.name for change in apply(beta, explain=True).homes[0].changes][:2] == [
        "beta", "alpha/connections"
    ]  # fmt: skip
    apply(beta)
    assert apply(beta).is_same
    with ExitStack() as stack:
        running: dict[str, Running] = {
            one.participant: stack.enter_context(
                seated(one.settings, one.participant, lambda: spark, is_served=False)
            )
            for one in offices
        }
        run_to_the_end(*running.values())
        busy = {key: n for key, n in counted(recorded).items() if n > 1}
        found = rows(running["beta"], "busy_hosts", tmp_path)
        assert found == sorted((host, str(n)) for (_, host), n in busy.items())
        minutes = rows(running["beta"], "minutes", tmp_path)
        assert sum(int(row[0]) for row in minutes) == RECORDS
        (hold,) = [
            hold for hold in running["alpha"].home_session.home.catalog.holds(StreamName("counted"))
            if hold.holder == Participant("beta")
        ]  # fmt: skip
        assert hold.purpose == "import"


def test_a_reader_that_is_listed_no_more_gets_no_news(
    offices: tuple[Office, Office], recorded: Path
) -> None:
    alpha, beta = offices

    def news(stream: str) -> int:
        producer = Producer(alpha.participant)
        with open_session(beta.settings, beta.participant) as session:
            exchange = session.exchange
            found = exchange.line_news(StreamName(stream), producer, Version(0), segments_max=10)
            return len(found.segments)

    assert news("connections")
    lists(alpha, recorded)
    with pytest.raises(Refused, match="there is nothing of this name for you"):
        news("connections")
    assert news("counted")
    lists(alpha, recorded, "beta")
    assert news("connections")


def test_contracts_are_applied_while_the_partner_is_away(
    offices: tuple[Office, Office],
) -> None:
    _, beta = offices
    beta.sql("UPDATE medusa_market.partner SET url = 'https://localhost:1'")
    assert apply(beta).is_same
    more = TOTAL.replace("total", "more").replace("minutes", "hours").replace("connections", "new")
    write(beta, "networks/more.py", more)
    write(
        beta,
        "participants/beta.yaml",
        BETA + "  - {network: networks/more.py, fragments: [main]}\n",
    )
    refused = refusal(beta)
    assert "was not reached" in refused
    assert "Apply the contracts again when it answers" in refused


OTHER_COLUMNS = "with columns (window_start timestamp, orig_h string, n int)"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"bigint"', '"int"', OTHER_COLUMNS),
        ("alpha/counted", "beta/counted", "which no network that anybody runs writes"),
        ("alpha/counted", "delta/counted", "delta has no contract as participant"),
        ("alpha/counted", "counted", "which no network that anybody runs writes"),
    ],
    ids=["other columns", "not its writer", "nobody", "no writer"],
)
def test_what_the_partner_does_not_offer_is_refused(
    offices: tuple[Office, Office], old: str, new: str, sentence: str
) -> None:
    _, beta = offices
    write(beta, "participants/beta.yaml", BETA)
    write(beta, "networks/often.py", SAME_NAME.replace(old, new))
    assert sentence in refusal(beta)
    write(beta, "networks/often.py", SAME_NAME)


def test_what_a_stream_is_computed_from_is_told_also_of_other_homes(
    offices: tuple[Office, Office],
) -> None:
    _, beta = offices
    ((edges,),) = beta.sql(LINEAGE)
    assert edges == [["alpha/connections", "alpha/counted"], ["alpha/counted", "beta/busy_hosts"]]


@pytest.mark.parametrize(
    "document", ["no JSON", '{"lineage": [["beta/busy_hosts", "alpha/counted"]]}']
)
def test_a_document_that_a_partners_news_bring_says_nothing_of_lineage(
    offices: tuple[Office, Office], document: str
) -> None:
    _, beta = offices
    planted = "INSERT INTO medusa.network (name, document) VALUES ('alpha/other', :document)"
    beta.sql(planted, document=document)
    ((edges,),) = beta.sql(LINEAGE)
    beta.sql("DELETE FROM medusa.network WHERE name = 'alpha/other'")
    assert len(edges) == 2


def test_a_cycle_between_two_homes_is_refused_with_its_path(
    offices: tuple[Office, Office],
) -> None:
    """What counts also reads what beta computes of the counts."""
    alpha, beta = offices
    grant(beta, "busy_hosts", "alpha")
    export_partner(alpha.settings, None, "beta", alpha.contracts)
    write(alpha, "networks/counts.py", READS_BACK)
    assert (
        "streams are computed from each other: "
        "alpha/counted -> beta/busy_hosts -> alpha/counted; let one of them"
    ) in refusal(alpha)
    write(alpha, "networks/counts.py", COUNTS_OF)
