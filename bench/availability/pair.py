"""Two participants, twelve fragments, and a contract for each method."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from medusa_core.market.moves import MoveState
from medusa_core.market.terms import Method, Recovery
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.operations.fragment_moves import MoveRequest, begin_move
from pipelines.operations.partner_management import export_partner
from tests.federation.counting_pair import LIVE
from tests.federation.moving_offices import Participants, wait_for
from tests.federation.test_moves_by_contract import contract
from tests.federation.test_partner_streams import apply, join, write
from tests.partners.offices import office

CLASSES = ("filter", "windows", "groups")
"""A filter (repeatable), windows (convergent-capable), groups by count (deterministic)."""

PROMISES = {
    Method.AMNESIA: Recovery.GAP,
    Method.PASSIVE_STANDBY: Recovery.ROLLBACK,
    Method.ACTIVE_STANDBY: Recovery.PRECISE,
    Method.UPSTREAM_BACKUP: Recovery.PRECISE,
}
BOUND_S = 3
NETWORK = "kinds"
CONTRACTS_IN_FORCE = "SELECT count(*) FROM medusa_api.contract_in_force"
MOVES = "SELECT fragment, state FROM medusa_market.move WHERE is_given"
COMPUTED = "SELECT count(DISTINCT fragment) FROM medusa.commit WHERE fragment LIKE 'kinds/%'"
ALPHA = f"""
participant: alpha
runs:
  - {{network: networks/{NETWORK}.py, sources: [connections], fragments: [%s]}}
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """The width of buckets and the length of windows, such as `2s`."""

    width: str
    window: str


def name_of(method: Method, class_: str) -> str:
    """The fragment of a method and class, which is its output stream too."""
    return f"{method.value}_{class_}"


def names() -> list[str]:
    """All fragments."""
    return [name_of(method, class_) for method in Method for class_ in CLASSES]


def network_of(shape: Shape) -> str:
    """The file of the network."""
    return f"""
from medusa_core.count_windows import Every
from medusa_core.network import Aggregate, Filter, Network, Output, Source

boxes = []
for method in {[method.value for method in Method]!r}:
    boxes += [
        Filter(name=method + "_kept", input="connections", cases={{method + "_filter_port":
               "ts_us % 2 = 0"}}, fragment=method + "_filter"),
        Aggregate(name=method + "_counts", input="connections", size="{shape.window}",
                  group_by=("orig_h",), columns={{"n": "count(*)"}}, fragment=method + "_windows"),
        Every(name=method + "_fives", input="connections", by=("orig_h",), n=5,
              within="{shape.window}", columns={{"last_us": "max(ts_us)"}},
              fragment=method + "_groups"),
    ]
inputs = {{"filter": "_kept.", "windows": "_counts", "groups": "_fives"}}
network = Network(
    name="{NETWORK}",
    sources=(Source(name="connections", columns={{"ts_us": "bigint", "orig_h": "string"}},
                    time="ts_us"),),
    boxes=tuple(boxes),
    outputs=tuple(
        Output(name=method + "_" + kind,
               input=method + box + (method + "_filter_port" if box.endswith(".") else ""))
        for method in {[method.value for method in Method]!r}
        for kind, box in inputs.items()
    ),
    bucket="{shape.width}",
)
"""


def contract_of(method: Method) -> str:
    """The contract of a method: its three fragments, and what it promises."""
    replicas = 2 if method is Method.ACTIVE_STANDBY else 1
    promise = f"recovery: {PROMISES[method].value}, method: {method.value}, replicas: {replicas}"
    return (
        contract()
        .replace("load_of_alpha", f"load_{method.value}")
        .replace("[main]", f"[{', '.join(name_of(method, one) for one in CLASSES)}]")
        .replace(
            "{recovery: precise, method: upstream_backup, bound: 5s}",
            f"{{{promise}, bound: {BOUND_S}s}}",
        )
    )


@contextmanager
def running_pair(server: EmbeddedServer, folder: Path, shape: Shape) -> Iterator[Participants]:
    """Both run, the contracts are in force, and alpha computes every fragment."""
    with ExitStack() as stack:
        alpha, beta = (
            stack.enter_context(office(server, folder / name, name)) for name in ("alpha", "beta")
        )
        write(alpha, "participants/alpha.yaml", ALPHA % ", ".join(names()))
        write(alpha, f"networks/{NETWORK}.py", network_of(shape))
        write(alpha, "streams/connections.yaml", LIVE)
        for one in (alpha, beta):
            apply(one)
        join(alpha, beta)
        export_partner(alpha.settings, None, "beta", alpha.contracts)
        for one in (alpha, beta):
            for method in Method:
                write(one, f"bilateral/load_{method.value}.yaml", contract_of(method))
            apply(one)
        (folder / "logs").mkdir()
        both = Participants(alpha, beta, folder / "logs")
        stack.callback(both.close)
        for one in (alpha, beta):
            both.start(one)
        wait_for(
            "the contracts are in force",
            lambda: all(one.sql(CONTRACTS_IN_FORCE)[0][0] == len(Method) for one in (alpha, beta)),
        )
        wait_for("alpha computes", lambda: alpha.sql(COMPUTED)[0][0] == len(names()))
        yield both


def release_all(both: Participants) -> None:
    """Hand every fragment over, until beta computes all of them."""
    for name in names():
        request = MoveRequest(participant="alpha", fragment=f"{NETWORK}.{name}", to="beta")
        begin_move(both.payer.settings, request)
    released = {(f"{NETWORK}/{name}", MoveState.RELEASED.value) for name in names()}
    wait_for("all are released", lambda: released <= set(both.payer.sql(MOVES)))


def until_back(both: Participants) -> None:
    """Until alpha has taken every fragment back from the lost provider."""
    ended = {(f"{NETWORK}/{name}", MoveState.ENDED.value) for name in names()}
    wait_for("all are back", lambda: ended <= set(both.payer.sql(MOVES)))
