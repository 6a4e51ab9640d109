"""Made-up records for the examples of `medusa init`: three streams each, and a record that is late.

The same seed gives the same records on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

SEED = 7

Rows = Sequence[tuple[object, ...]]
"""Records in order of event time; the first value is seconds since the start."""

_PRODUCTS = {"tea": ("drinks", 420), "coffee": ("drinks", 690), "bread": ("food", 380),
             "cheese": ("food", 1_150), "soap": ("home", 250)}  # fmt: skip
_ROOMS = {"t1": "kitchen", "t2": "kitchen", "t3": "office", "t4": "hall", "t5": "attic"}
_OWNERS = ("sales", "sales", "research", "research", "research", "guests")


def samples(example: str) -> Mapping[str, str]:
    """Name of a file of an example -> its text as CSV with a header."""
    return {name: _csv(columns, rows) for name, columns, rows in _EXAMPLES[example](Random(SEED))}


def _shop(random: Random) -> Iterable[tuple[str, str, Rows]]:
    products = [
        (0.0, name, kind, f"{cents / 100:.2f}") for name, (kind, cents) in _PRODUCTS.items()
    ]
    products.append((1_200.0, "coffee", "drinks", "7.40"))
    orders, payments = [], []
    for number, at in enumerate(_times(random, 600, 2_400)):
        order = 1_000 + number
        customer, product = f"c{random.randint(1, 40)}", random.choice(list(_PRODUCTS))
        orders.append((at, order, customer, product, random.randint(1, 4)))
        if random.random() < 0.95:
            paid_at = at + random.uniform(1, 400)
            payments.append((paid_at, order, random.choice(("card", "cash", "transfer"))))
    yield "products", "product,category,price", products
    yield "orders", "order_id,customer,product,quantity", orders
    yield "payments", "order_id,method", sorted(payments)
    yield "late_orders", "order_id,customer,product,quantity", [(300.0, 999, "c7", "cheese", 2)]


def _sensors(random: Random) -> Iterable[tuple[str, str, Rows]]:
    places = [(0.0, sensor, room) for sensor, room in _ROOMS.items()]
    places.append((3_600.0, "t5", "office"))
    openings = [(at, random.choice(sorted(set(_ROOMS.values()))), random.randint(1, 3))
                for at in _times(random, 30, 7_200)]  # fmt: skip
    readings = []
    for at in _times(random, 1_440, 7_200):
        sensor = random.choice(list(_ROOMS))
        is_open = any(o < at < o + 300 and _ROOMS[sensor] == room for o, room, _ in openings)
        readings.append(
            (at, sensor, random.randint(165, 190) if is_open else random.randint(195, 225))
        )
    yield "places", "sensor,room", places
    yield "readings", "sensor,decicelsius", readings
    yield "openings", "room,window", openings
    yield "late_readings", "sensor,decicelsius", [(600.0, "t1", 201)]


def _network(random: Random) -> Iterable[tuple[str, str, Rows]]:
    addresses = [f"10.0.{number // 20}.{number % 20 + 1}" for number in range(60)]
    owners = [(0.0, a, _OWNERS[n % len(_OWNERS)]) for n, a in enumerate(addresses)]
    owners.append((900.0, addresses[0], "guests"))
    connections = [
        (at, random.choice(addresses), random.choice((22, 53, 80, 443)), random.randint(60, 90_000))
        for at in _times(random, 1_500, 1_800)
    ]
    alerts = [(at, random.choice(addresses[:12]), random.choice(("port scan", "many failures")))
              for at in _times(random, 25, 1_800)]  # fmt: skip
    yield "owners", "source,owner", owners
    yield "connections", "source,port,bytes", connections
    yield "alerts", "source,rule", alerts
    yield "late_connections", "source,port,bytes", [(300.0, addresses[3], 22, 512)]


_EXAMPLES: Mapping[str, Callable[[Random], Iterable[tuple[str, str, Rows]]]] = {
    "shop": _shop,
    "sensors": _sensors,
    "network": _network,
}

EXAMPLES = tuple(_EXAMPLES)


def _times(random: Random, count: int, seconds: int) -> Sequence[float]:
    """Distinct times after the first second, in order, to the millisecond."""
    return [ms / 1_000 for ms in sorted(random.sample(range(1_000, seconds * 1_000), count))]


def _csv(columns: str, rows: Rows) -> str:
    lines = [f"at,{columns}"]
    for at, *values in rows:
        assert isinstance(at, float)
        minute, second = divmod(round(at * 1_000), 60_000)
        time = f"{8 + minute // 60:02}:{minute % 60:02}:{second / 1_000:06.3f}"
        lines.append(",".join([f"2026-01-05T{time}Z", *map(str, values)]))
    return "\n".join(lines) + "\n"
