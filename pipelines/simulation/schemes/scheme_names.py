"""The schemes that a world can be given, by name."""

from __future__ import annotations

from collections.abc import Callable

from medusa_core.errors import Refused
from pipelines.simulation.schemes.auction import AuctionPerTask
from pipelines.simulation.schemes.bounded_price import BoundedPrice
from pipelines.simulation.schemes.diffusion import Diffusion
from pipelines.simulation.schemes.plain_rule import PlainRule
from pipelines.simulation.schemes.random_push import RandomPush
from pipelines.simulation.schemes.worlds import Scheme

BOUNDED, PLAIN, OPTIMUM = "bounded", "plain", "optimum"
NAMES = (BOUNDED, PLAIN, OPTIMUM, "auction", "push", "diffusion")
OPTIMUM_PARTICIPANTS_MAX = 20_000
"""A linear program of more participants is run only if it is named."""

ROUNDS_MAX = 5_000


def scheme_named(name: str) -> Scheme:
    """The scheme of a name; Refused if there is none."""
    made: dict[str, Callable[[], Scheme]] = {
        BOUNDED: BoundedPrice,
        PLAIN: PlainRule,
        OPTIMUM: _optimum,
        "auction": AuctionPerTask,
        "push": RandomPush,
        "diffusion": Diffusion,
    }
    if name not in made:
        raise Refused(f"there is no scheme {name!r}: choose of {', '.join(NAMES)}")
    return made[name]()


def _optimum() -> Scheme:
    # scipy takes half a second to import, and the other schemes do without it.
    from pipelines.simulation.schemes.optimum import CentralOptimum

    return CentralOptimum()
