"""Is the part of Medusa that runs in this container well? Exit code 0 if so, else 1 and a sentence.

For Compose's health checks: `healthy.py participant|airflow|spark [PORT]`. Standard library alone.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

TIMEOUT_S, PART_S_MAX = 8, 4
_REACHABLE = re.compile(r'^medusa_catalog_reachable\{participant="([^"]+)"\} (\S+)$', re.MULTILINE)


def participant(port: int) -> str:
    """Its driver serves metrics and reaches the catalog, and its exchange is served."""
    told = _REACHABLE.findall(_read(port, "metrics", PART_S_MAX))
    if not told or {value for _, value in told} - {"1", "1.0"}:
        return "the catalog is not reached"
    return "".join(_exchange(name) for name, _ in told)


def _exchange(name: str) -> str:
    """The server that partners reach gives an answer, whatever its status: nothing is sent to it.

    Its address is in a file (pipelines/homes/exchange_addresses.py). The certificate is not
    verified, since the answer proves only that a server listens.
    """
    file = Path(os.environ.get("MEDUSA_DIR") or ".medusa") / "exchange" / name
    try:
        url = file.read_text(encoding="ascii").splitlines()[0]
    except (OSError, ValueError, IndexError):
        return f"the exchange of {name} is not served: {file} has no address"
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    ask = build_opener(ProxyHandler({}), HTTPSHandler(context=unverified)).open
    try:
        ask(url, timeout=PART_S_MAX).close()
    except HTTPError as error:
        error.close()
    except (OSError, ValueError) as error:
        return f"the exchange of {name} does not answer at {url}: {error}"
    return ""


def airflow(port: int) -> str:
    """Every component gives signs of life."""
    told = json.loads(_read(port, "api/v2/monitor/health"))
    names = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    ill = [name for name in names if (told.get(name) or {}).get("status") != "healthy"]
    return f"not healthy: {', '.join(ill)}" if ill else ""


def spark(port: int) -> str:
    """The page of a master or of a worker answers."""
    _read(port, "json/")
    return ""


PARTS: Mapping[str, tuple[Callable[[int], str], int]] = {
    "participant": (participant, 9464),
    "airflow": (airflow, 8080),
    "spark": (spark, 8080),
}


def _read(port: int, path: str, seconds_max: int = TIMEOUT_S) -> str:
    # Never by a proxy: it is this container that is asked.
    ask = build_opener(ProxyHandler({})).open
    with ask(f"http://127.0.0.1:{port}/{path}", timeout=seconds_max) as answer:
        text: str = answer.read().decode()
    return text


def main(words: list[str]) -> int:
    """Look at the part that is named."""
    if not words or words[0] not in PARTS or not all(word.isdecimal() for word in words[1:]):
        print(f"usage: healthy.py {'|'.join(PARTS)} [PORT]", file=sys.stderr)
        return 2
    look, port = PARTS[words[0]]
    try:
        ill = look(int(words[1]) if words[1:] else port)
    except (URLError, OSError, ValueError) as error:
        ill = f"no answer: {error}"
    if ill:
        print(ill)
    return 1 if ill else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
