"""A bilateral contract as a file says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.frozen import freeze
from medusa_core.market.terms import Terms
from pipelines.contracts.yaml_values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class BilateralContract:
    """What `contracts/bilateral/<name>.yaml` says: the terms of revision 1, and their places.

    `at` is the field `contract`; `places` holds every field that is written, by its path, such as
    `price.low`.
    """

    terms: Terms
    at: Value
    places: Mapping[str, Value]

    def __post_init__(self) -> None:
        freeze(self, "places")
