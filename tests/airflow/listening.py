"""A process that runs our trigger as a triggerer would, and prints each event as a line of JSON.

The connection comes from the environment, as Airflow allows: no database of Airflow is needed.
"""

from __future__ import annotations

import asyncio
import json

from pipelines.airflow.triggers import CatalogEvents


async def listen() -> None:
    async for event in CatalogEvents().run():
        print(json.dumps(event.payload), flush=True)


if __name__ == "__main__":
    asyncio.run(listen())
