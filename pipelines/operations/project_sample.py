"""Ten made-up minutes of requests to three services, one of which fails for a while."""

from __future__ import annotations

from random import Random

SEED = 7
RECORDS = 900
MINUTES = 10
FAILS = ("payment", range(4, 7))
"""Which service fails, and in which minutes."""

_MEAN_MS = {"search": 40, "basket": 25, "payment": 90}


def sample_csv() -> str:
    """The records as CSV with a header, the same ones every time, in order of their time."""
    random = Random(SEED)
    at_ms = sorted(random.sample(range(MINUTES * 60_000), RECORDS))
    lines = ["at,service,status,duration_ms"]
    for at in at_ms:
        minute, within = divmod(at, 60_000)
        service = random.choice(list(_MEAN_MS))
        has_failed = random.random() < (0.6 if service == FAILS[0] and minute in FAILS[1] else 0.01)
        duration_ms = round(random.expovariate(1 / _MEAN_MS[service])) + 1
        lines.append(
            f"2026-01-05T08:{minute:02}:{within / 1000:06.3f}Z,{service},"
            f"{503 if has_failed else 200},{30_000 if has_failed else duration_ms}"
        )
    return "\n".join(lines) + "\n"
