"""Key partitions of a network that was loaded: its columns are checked, then it is transformed.

The network is checked as it was written, so that a mistake is reported with the names of its file.
"""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.network import Network, Port
from medusa_core.partitions.partitioned import with_partitions
from pipelines.language.check import check_network


def with_checked_partitions(network: Network) -> Network:
    """The network with the fragments of its partitions; Refused if it cannot be partitioned."""
    if all(one.is_applied for one in network.partitions.values()):
        return network
    checked = check_network(network)

    def types_of(port: Port) -> Mapping[str, str]:
        return {column.name: column.type for column in checked.columns[port]}

    return with_partitions(network, types_of)
