"""SLOT, not filled: a replica of a hop is killed during a failure (D12).

Nothing here is run and no table says that it was: `make dpc` prints `SLOT` for it. To fill it, give
`scenario.chains()` a chain whose last hop has two producers, and a cell that kills the process of
one of them (`federation.running`, `bench.federation.kill_group`) while an input is lost; what is to
be seen is Delay_new <= X throughout, no row lost or doubled, and the switch within four polls.
"""

from __future__ import annotations

SLOT = "D12: not run, no chain here has replicas yet (bench/dpc/replicas.py)"
