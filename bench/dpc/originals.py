"""The originals' measurements, as data with their source, and the closed forms that fit them.

Sources: the parameter files and logs of the Borealis release (`log`), and results that follow
from the algorithm's rules and agree with those logs to about 5 % (`derived`); Balazinska,
Balakrishnan, Madden, Stonebraker, "Fault-tolerance in the Borealis distributed stream processing
system" (SIGMOD 2005) and its long form (TODS 2008). Seconds and rows. `D` is the delay that one
node may add; the whole bound is given to every node here (their assignment W), so D = X.
"""

from __future__ import annotations

from dataclasses import dataclass

ALPHA = 0.9
"""The part of D that a first block lasts."""

AGAIN_S = 0.35
"""What each hop waits for every later tentative bucket under Process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """One measured cell of theirs; None where no figure could be read."""

    id: str
    setting: str
    proc_new_s: float | None
    told: str
    source: str


ORIGINALS = (
    Original(
        id="D1", setting="1 node and a replica, bucket 0.5 s, D 2 s, process, F 6 s",
        proc_new_s=1.835, source="log",
        told="first correction 1.1 s after the heal; 0.6 to 0.7 s without a failure",
    ),
    Original(
        id="D2", setting="chain of 2, bucket 0.1 s, D 2 s, process, F 10 s",
        proc_new_s=2.224, source="log",
        told="first correction 1.2 s after the heal; 0.17 s without a failure",
    ),
    Original(
        id="D3", setting="chain of 2, bucket 0.1 s, D 2 s, delay, F 10 s",
        proc_new_s=3.745, source="log", told="adds up with every hop",
    ),
    Original(
        id="D4", setting="chains of 1 to 4, F 5 to 60 s, D 2 s", proc_new_s=None, source="derived",
        told="grows per hop by 0.35 s under process and by 1.8 s under delay",
    ),
    Original(
        id="D5", setting="chain of 4, whole bound 8 s", proc_new_s=None, source="derived",
        told="the whole bound at each node masks F 5 s, a quarter of it does not",
    ),
    Original(
        id="D6", setting="six pairs of policies, 1 node, D 3 s, F 2 to 60 s", proc_new_s=None,
        source="derived", told="only pairs with suspend cross the bound, soon after F > D",
    ),
    Original(
        id="D7", setting="1 node, D 3 s, F 0.5 to 300 s", proc_new_s=None, source="derived",
        told="below 3 s at every F, nothing tentative up to F 2.4 to 2.7 s",
    ),
    Original(
        id="D8", setting="1 node, F 5 s, D 0.5 to 6 s", proc_new_s=None, source="derived",
        told="nothing tentative once 0.9 D is more than F",
    ),
    Original(
        id="D11", setting="1 node, D 2 s, two inputs lost 6 to 12 s and 8 to 16 s, or 12 to 16 s",
        proc_new_s=None, source="log", told="one node only: its prototype could not in a chain",
    ),
)  # fmt: skip


def proc_new_s(policy: str, depth: int, bound_s: float, rest_s: float) -> float:
    """Proc_new of a failure that is not masked: theirs, for a chain of `depth` and D = X.

    `rest_s` is what a tuple takes without a failure: bucket and queues.
    """
    block_s = ALPHA * bound_s
    if policy == "delay":
        return depth * block_s + rest_s
    return block_s + (depth - 1) * AGAIN_S + rest_s


def tentative_rows(
    policy: str, failure_s: float, correction_s: float, rate_per_s: float, bound_s: float
) -> float:
    """N_tentative: r (F + R - d) under process, r (F + R - 0.9 D) under delay, 0 while masked."""
    if is_masked(failure_s, bound_s):
        return 0.0
    saved_s = AGAIN_S if policy == "process" else ALPHA * bound_s
    return rate_per_s * max(failure_s + correction_s - saved_s, 0.0)


def is_masked(failure_s: float, bound_s: float) -> bool:
    """Whether a failure is over before the first block is."""
    return failure_s < ALPHA * bound_s


def correction_s(failure_s: float, busy: float) -> float:
    """R = F rho / (1 - rho): a node that is busy for a part rho of its time redoes a failure."""
    return failure_s * busy / (1 - busy)
