"""The settings that a run was made with, for its document."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bench import bare, product, streaming
from bench.figures import LARGE_RECORDS, SMALL_RECORDS
from pipelines.catalog.server.embedded_server import SETTINGS as SERVER
from pipelines.spark.session import SEMANTIC_SETTINGS


def settings_used() -> Mapping[str, Any]:
    """What differs between contenders; the session itself is the one that Medusa opens."""
    return {
        "session": {
            **SEMANTIC_SETTINGS,
            "spark.driver.memory": os.environ.get("MEDUSA_DRIVER_MEMORY", "the product's default"),
        },
        "bare": {"way": "filter", "distinct": bare.SETS},
        "streaming": {
            "distinct": "set",
            "sink": "callback",
            "polling_ms": streaming.POLLING_MS,
            str(SMALL_RECORDS): dict(streaming.fastest_settings(SMALL_RECORDS)),
            str(LARGE_RECORDS): dict(streaming.fastest_settings(LARGE_RECORDS)),
        },
        "medusa": {"limits": asdict(product.ONE_WINDOW)},
        "postgres": SERVER,
    }
