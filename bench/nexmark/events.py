"""Events of an auction house, as the Nexmark benchmark has them: persons, auctions and bids.

Of 50 events one is a person, three are auctions and 46 are bids, at a steady rate of event time.
Sellers and bidders are persons that have come already, most often one of the newest; bids go to
auctions that have come already, most often to a few hot ones. The same seed gives the same events.

Source: Tucker, Tufte, Papadimos and Maier, "NEXMark: A Benchmark for Queries over Data Streams"
(2002), with the proportions of its generator in Apache Beam. Values are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_US = 1_767_311_955_000_000
"""45 seconds before the end of a day, so that the days of the daily queries are two."""

PER_S = 10_000
ROUND, PERSONS, AUCTIONS = 50, 1, 3
RECENT, HOT_OF_TEN = 50, 8
CATEGORIES = 5
AUCTION_S_MAX = 20
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
OTHER_CHANNELS = 1_000
SIDE_KEYS = 100
_NAMES = ("Ada", "Blaise", "Edgar", "Grace", "Jim", "Leslie", "Michael", "Pat")


@dataclass(frozen=True, slots=True)
class Events:
    """The three streams and a table; event times are microseconds since 1970, in their order.

    `side` has a value for each key, from before the first event on.
    """

    person: pa.Table
    auction: pa.Table
    bid: pa.Table
    side: pa.Table

    def write(self, folder: Path) -> Mapping[str, Path]:
        """Write each stream as a Parquet file; stream -> path."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = {
            "person": self.person, "auction": self.auction, "bid": self.bid, "side": self.side,
        }  # fmt: skip
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet")
        return {name: folder / f"{name}.parquet" for name in tables}


def generate_events(events: int, seed: int = 1) -> Events:
    """So many events, all streams together."""
    random = np.random.default_rng(seed)
    number = np.arange(events)
    at_us = START_US + number * 1_000_000 // PER_S
    place = number % ROUND
    is_person, is_bid = place < PERSONS, place >= PERSONS + AUCTIONS
    is_auction = ~is_person & ~is_bid
    persons = np.cumsum(is_person)
    auctions = np.cumsum(is_auction)
    return Events(
        person=_persons(random, at_us[is_person]),
        auction=_auctions(random, at_us[is_auction], persons[is_auction]),
        bid=_bids(random, at_us[is_bid], persons[is_bid], auctions[is_bid]),
        side=_side(),
    )


def _persons(random: np.random.Generator, at_us: np.ndarray) -> pa.Table:
    count = len(at_us)
    ids = 1_000 + np.arange(count)
    first = random.choice(_NAMES, count)
    return pa.table(
        {
            "ts_us": at_us,
            "id": ids,
            "name": [f"{name} {chr(65 + i % 26)}." for i, name in enumerate(first)],
            "email": [f"{name.lower()}{i}@example.com" for i, name in zip(ids, first, strict=True)],
            "credit_card": [" ".join(f"{n:04}" for n in four)
                            for four in random.integers(0, 10_000, (count, 4))],
            "city": random.choice(CITIES, count),
            "state": random.choice(STATES, count),
            "extra": _extra(random, count),
        }
    )  # fmt: skip


def _auctions(random: np.random.Generator, at_us: np.ndarray, persons: np.ndarray) -> pa.Table:
    count = len(at_us)
    first = _prices(random, count)
    return pa.table(
        {
            "ts_us": at_us,
            "id": 1_000 + np.arange(count),
            "item_name": [f"item {i}" for i in random.integers(0, 1_000, count)],
            "description": _extra(random, count),
            "initial_bid": first,
            "reserve": first + _prices(random, count),
            "expires_us": at_us + random.integers(1_000_000, AUCTION_S_MAX * 1_000_000, count),
            "seller": 1_000 + _recent(random, persons),
            "category": 10 + random.integers(0, CATEGORIES, count),
            "extra": _extra(random, count),
        }
    )


def _bids(
    random: np.random.Generator, at_us: np.ndarray, persons: np.ndarray, auctions: np.ndarray
) -> pa.Table:
    count = len(at_us)
    is_hot = random.integers(0, 10, count) < HOT_OF_TEN
    hot = np.maximum((auctions - 1) // 100 * 100, 0)
    other = random.integers(0, OTHER_CHANNELS, count)
    is_known = random.integers(0, 2, count) == 0
    channels = np.where(
        is_known, random.choice(CHANNELS, count), np.char.add("channel-", other.astype(str))
    )
    pages = random.integers(0, 50, (count, 3))
    return pa.table(
        {
            "ts_us": at_us,
            "auction": 1_000 + np.where(is_hot, hot, _recent(random, auctions)),
            "bidder": 1_000 + _recent(random, persons),
            "price": _prices(random, count),
            "channel": channels,
            "url": [
                f"https://www.example.com/a{a}/b{b}/c{c}/item.htm?query=1"
                + ("" if known else f"&channel_id={o}")
                for (a, b, c), known, o in zip(pages, is_known, other, strict=True)
            ],
            "extra": _extra(random, count),
        }
    )


def _side() -> pa.Table:
    """What a file beside the stream says of its keys; every seventh is lacking."""
    keys = [key for key in range(SIDE_KEYS) if key % 7]
    return pa.table(
        {
            "ts_us": [START_US - 1_000_000] * len(keys),
            "key": keys,
            "value": [f"value {key}" for key in keys],
        }
    )


def _recent(random: np.random.Generator, come: np.ndarray) -> np.ndarray:
    """One of the newest of those that have come, by their place."""
    behind = random.integers(0, RECENT, len(come))
    return np.maximum(come - 1 - behind, 0)


def _prices(random: np.random.Generator, count: int) -> np.ndarray:
    """From 100 to 100,000,000 cents, small ones as likely as large ones."""
    return np.round(10 ** random.uniform(0, 6, count) * 100).astype(np.int64)


def _extra(random: np.random.Generator, count: int) -> list[str]:
    """Texts of 8 to 24 letters."""
    letters = random.integers(97, 123, (count, 24)).astype(np.uint8).tobytes().decode()
    lengths = random.integers(8, 25, count)
    return [letters[24 * i : 24 * i + length] for i, length in enumerate(lengths)]
