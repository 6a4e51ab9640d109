"""Generated connections for `netmon`: shapes of real traffic, from a seed, the same anywhere.

Four in six records come from sources of which few are busy and most are rare (weight 1/rank), in
seconds of which some are bursts. The rest comes in campaigns: password guessing (one source, one
port, for minutes) and port scans (one target, dozens to hundreds of ports in seconds), a third of
which is made by several neighbours of one /24 at once. Some sources are IPv6. Records come in
arrival order with `seq` 1, 2, 3 …; a connection is reported when it ends, so its time may be
before that of an earlier record, by `disorder_us` at most.

Chance is PCG64's raw stream and whole numbers only: numpy promises that stream for good, while
its distributions and the last digit of a logarithm change between versions and machines.
Addresses are those set aside for documentation and benchmarks; no address of a real network can
appear.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from medusa_core.errors import Refused

BLOCK_RECORDS = 65_536
SOURCES_MAX = 60_000
DISORDER_US = 5_000_000
START_US = 1_700_000_040_000_000  # a whole minute in November 2023

SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("ts_us", pa.int64()),
        ("orig_h", pa.string()),
        ("orig_p", pa.int32()),
        ("resp_h", pa.string()),
        ("resp_p", pa.int32()),
        ("proto", pa.string()),
        ("state", pa.string()),
        ("duration_us", pa.int64()),
        ("orig_bytes", pa.int64()),
        ("resp_bytes", pa.int64()),
    ]
)

_SECOND_US = 1_000_000
_SERVICES = np.array([443, 80, 53, 22, 25, 123, 8080, 993])  # fewer than make a scan
_DATAGRAM = (53, 123)
_GUESSED = np.array([22, 3389, 23, 445, 3306])
_STATES = np.array(["SF", "S0", "REJ", "RSTO", "OTH"])
_SF, _S0, _REJ, _RSTO = 0, 1, 2, 3
_PREFIXES = 32  # /24 networks that campaigns come from
_CAMPAIGN, _CAMPAIGN6 = SOURCES_MAX, SOURCES_MAX + _PREFIXES * 256
_RESPONDERS, _RESPONDERS6 = 200, 16

Ints = NDArray[np.int64]


class _Draws:
    """Whole numbers by chance, from PCG64's raw 64-bit stream."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def below(self, limit: int | Ints, count: int) -> Ints:
        """`count` numbers from 0 to limit - 1; limits are at most 2^31."""
        raw = self._bits.random_raw(count) >> np.uint64(32)
        scaled = (raw * np.asarray(limit, np.uint64)) >> np.uint64(32)
        return np.asarray(scaled, np.int64)

    def weighted(self, weights: Ints, count: int) -> Ints:
        """`count` positions in `weights`, each as often as its weight says."""
        upto = np.cumsum(weights)
        return np.searchsorted(upto, self.below(int(upto[-1]), count), "right")

    def heavy(self, bits_min: int, bits_max: int, count: int) -> Ints:
        """`count` numbers from 2^bits_min to 2^bits_max, each doubling as often as the next."""
        base = np.int64(1) << (bits_min + self.below(bits_max - bits_min, count))
        return base + self.below(base, count)


@dataclass(frozen=True, slots=True)
class _Records:
    """Columns of connections before they are put in order; times are us since the block began."""

    arrival: Ints
    source: Ints
    responder: Ints
    port: Ints
    state: Ints

    def head(self, count: int) -> _Records:
        return _Records(
            self.arrival[:count], self.source[:count], self.responder[:count],
            self.port[:count], self.state[:count],
        )  # fmt: skip


def generate_connections(
    *,
    seed: int,
    records: int,
    start_us: int = START_US,
    sources: int = 2_000,
    rate_per_s: int = 56,
    disorder_us: int = DISORDER_US,
) -> Iterator[pa.Table]:
    """Tables of SCHEMA, `records` rows in all, in arrival order; no event time before `start_us`.

    `rate_per_s` is the mean number of records in a second of event time, `sources` how many
    addresses the common traffic comes from. Raises Refused for figures that cannot be.
    """
    if records < 0 or rate_per_s < 1 or disorder_us < 0 or seed < 0:
        raise Refused("generated connections need seed, records, disorder >= 0, rate_per_s >= 1")
    if not 1 <= sources <= SOURCES_MAX:
        raise Refused(f"generated connections have from 1 to {SOURCES_MAX} sources, not {sources}")
    draws = _Draws(seed)
    popularity = (1 << 20) // np.arange(1, sources + 1)
    block_us, done = start_us + disorder_us, 0
    while done < records:
        count = min(BLOCK_RECORDS, records - done)
        seconds = max(count // rate_per_s, 1)
        scans = _scans(draws, seconds, count // 8)
        guesses = _guesses(draws, seconds, count // 5)
        common = count - len(scans.arrival) - len(guesses.arrival)
        parts = (scans, guesses, _common(draws, seconds, common, popularity))
        yield _table(draws, parts, done, block_us, disorder_us)
        done += count
        block_us += seconds * _SECOND_US


def _common(draws: _Draws, seconds: int, count: int, popularity: Ints) -> _Records:
    """Everyday traffic: a heavy tail of sources, a few services, bursts of a second."""
    bursts = np.where(draws.below(64, seconds) == 0, 80, 8)
    second = draws.weighted(bursts, count)
    source = draws.weighted(popularity, count)
    popular = draws.weighted((1 << 16) // np.arange(1, _RESPONDERS + 1), count)
    responder = np.where(_is_ipv6(source), _RESPONDERS + popular % _RESPONDERS6, popular)
    return _Records(
        second * _SECOND_US + draws.below(_SECOND_US, count),
        source,
        responder,
        _SERVICES[draws.weighted((1 << 16) // np.arange(1, len(_SERVICES) + 1), count)],
        draws.weighted(np.array([70, 12, 8, 6, 4]), count),
    )


def _scans(draws: _Draws, seconds: int, count: int) -> _Records:
    """Port scans, about `count` records: 16 to 255 ports of one target within 20 seconds."""
    campaigns = count // 128 + 1
    hosts = np.where(draws.below(3, campaigns) == 0, 2 + draws.below(3, campaigns), 1)
    group = np.repeat(np.arange(campaigns), hosts)
    prefix = draws.below(_PREFIXES, campaigns)[group]
    neighbour = np.arange(len(group)) - np.repeat(np.cumsum(hosts) - hosts, hosts)
    host = (draws.below(250, campaigns)[group] + neighbour) % 256
    is_ipv6 = draws.below(16, campaigns)[group] == 0
    source = np.where(is_ipv6, _CAMPAIGN6 + host, _CAMPAIGN + prefix * 256 + host)
    start = draws.below(seconds, campaigns)[group]
    first_port = draws.below(60_000, campaigns)[group]
    target = draws.below(_RESPONDERS, campaigns)[group]
    target = np.where(is_ipv6, _RESPONDERS + target % _RESPONDERS6, target)
    ports = draws.heavy(4, 8, len(group))
    owner, nth = _spread(ports)
    length_us = (4 + draws.below(16, len(group))) * _SECOND_US
    arrival = start[owner] * _SECOND_US + nth * length_us[owner] // ports[owner]
    found = _Records(
        np.minimum(arrival, seconds * _SECOND_US - 1),
        source[owner],
        target[owner],
        1 + (first_port[owner] + nth) % 65_535,
        np.array([_REJ, _S0])[draws.below(2, len(owner))],
    )
    return found.head(count)


def _guesses(draws: _Draws, seconds: int, count: int) -> _Records:
    """Password guessing, about `count` records: one source at one port, some a second."""
    campaigns = count // 512 + 1
    host = draws.below(256, campaigns)
    source = _CAMPAIGN + draws.below(_PREFIXES, campaigns) * 256 + host
    target = draws.below(_RESPONDERS, campaigns)
    port = _GUESSED[draws.below(len(_GUESSED), campaigns)]
    tries = draws.heavy(8, 11, campaigns)
    length = np.minimum(60 + draws.below(180, campaigns), seconds)
    start = draws.below(seconds - length + 1, campaigns)
    owner, nth = _spread(tries)
    arrival = start[owner] * _SECOND_US + nth * (length * _SECOND_US)[owner] // tries[owner]
    found = _Records(
        arrival,
        source[owner],
        target[owner],
        port[owner],
        np.array([_SF, _RSTO])[draws.below(2, len(owner))],
    )
    return found.head(count)


def _spread(counts: Ints) -> tuple[Ints, Ints]:
    """Who each of sum(counts) records belongs to, and its number there."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _table(
    draws: _Draws, parts: tuple[_Records, ...], done: int, block_us: int, disorder_us: int
) -> pa.Table:
    """The parts of a block, put in arrival order, with what the parts do not tell."""
    arrival = np.concatenate([p.arrival for p in parts])
    order = np.argsort(arrival, kind="stable")
    count = len(order)
    source, responder, port, state = (
        np.concatenate([getattr(p, name) for p in parts])[order]
        for name in ("source", "responder", "port", "state")
    )
    duration = np.where(state == _REJ, 1 + draws.below(200, count), draws.heavy(8, 26, count))
    # Reported when it ends, at `arrival`: how long it took is how far back its time lies.
    delay = np.where(state == _S0, 0, np.minimum(duration, disorder_us))
    is_answered = (state == _SF) | (state == _RSTO)
    orig_bytes = np.where(is_answered, draws.heavy(4, 20, count), 0)
    resp_bytes = np.where(is_answered, draws.heavy(4, 22, count), 0)
    protocol = np.where(np.isin(port, _DATAGRAM), 1, 0)
    no_state = draws.below(16, count) == 0
    no_length = state == _S0
    origins, responders = _addresses()
    columns = [
        pa.array(np.arange(done + 1, done + count + 1)),
        pa.array(block_us + arrival[order] - delay),
        _named(source, origins),
        pa.array((1_024 + draws.below(64_512, count)).astype(np.int32)),
        _named(responder, responders),
        pa.array(port.astype(np.int32)),
        _named(protocol, pa.array(["tcp", "udp"])),
        _named(state, pa.array(_STATES), no_state),
        pa.array(duration, mask=no_length),
        pa.array(orig_bytes, mask=no_length),
        pa.array(resp_bytes, mask=no_length),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _named(positions: Ints, names: Any, missing: NDArray[np.bool_] | None = None) -> Any:
    indices = pa.array(positions.astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(indices, names).cast(pa.string())


def _is_ipv6(source: Ints) -> NDArray[np.bool_]:
    is_ipv6: NDArray[np.bool_] = source % 32 == 31
    return is_ipv6


@cache
def _addresses() -> tuple[Any, Any]:
    """The texts of all originators (common, campaigns', campaigns' IPv6) and all responders."""
    origins = [_common_address(i) for i in range(SOURCES_MAX)]
    prefixes = ["203.0.113", "198.51.100", *(f"198.19.{i}" for i in range(2, _PREFIXES))]
    origins += [f"{prefix}.{host}" for prefix in prefixes for host in range(256)]
    origins += [f"2001:db8:5ca::{host:x}" for host in range(1, 257)]
    responders = [f"192.0.2.{1 + i}" for i in range(_RESPONDERS)]
    responders += [f"2001:db8:1::{1 + i:x}" for i in range(_RESPONDERS6)]
    return pa.array(origins), pa.array(responders)


def _common_address(number: int) -> str:
    if number % 32 == 31:
        return f"2001:db8::{number:x}"
    # An odd factor is a permutation of 2^16: busy sources lie in different /24 networks.
    place = number * 40_503 % 65_536
    return f"198.18.{place >> 8}.{place & 255}"
