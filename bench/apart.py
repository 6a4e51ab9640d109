"""The processes of a federation on machines of their own, with a delay on every link.

A machine is a network namespace (`tests/networks`, root on Linux); the participants' exchanges are
served there, and the cable between them carries nothing else. Each reaches the one database server
over its own loopback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations

from bench.federation import Federation
from bench.processes import ContenderFailed
from pipelines.base.settings import EXCHANGE_NAME
from tests.networks.cable import Conditions
from tests.networks.linked_homes import database_on
from tests.networks.namespaces import network, why_not


@contextmanager
def apart(federation: Federation, names: Sequence[str], delay_ms: float) -> Iterator[None]:
    """Run each process of `names` that is started in the block in a network namespace of its own.

    `delay_ms`: the delay of each direction of each link. Raises ContenderFailed where no
    namespaces can be made.
    """
    if reason := why_not():
        raise ContenderFailed(reason)
    with ExitStack() as stack:
        folder = federation.settings.directory / "machines"
        made = stack.enter_context(network(folder, *names))
        for one, other in combinations(names, 2):
            made.cable.between(one, other, Conditions(delay_ms=delay_ms))
        for name, machine in made.machines.items():
            stack.enter_context(database_on(machine, federation.server))
            federation.prefixes[name] = (
                "ip", "netns", "exec", machine.namespace,
                "env", f"{EXCHANGE_NAME}={machine.host}",
            )  # fmt: skip
        # Machines go only after those that run there.
        stack.callback(federation.stop)
        yield
