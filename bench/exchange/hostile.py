"""Clients without a token that a server has to bear, as a process of its own.

A quarter of the connections is idle, a quarter sends the header of a request a byte a second, a
quarter sends requests and reads no answer, and a quarter floods: a request for a token with a
wrong assertion, for an introduction, or for news with a wrong token, as soon as the last one was
answered. A connection that the server closes is made again at once. The process has the lowest
priority: on a machine of its own it would take no time of the server's.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from bench.processes import REPOSITORY

BYTE_S, AGAIN_S = 1.0, 0.02
INTRODUCTION = b"GET /v1/introduction HTTP/1.1\r\nHost: x\r\n\r\n"
NEWS = (
    b"GET /v1/news?stream=s0000&after=0&replica=0 HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Bearer " + b"x" * 43 + b"\r\n\r\n"
)
_FORM = (
    b"grant_type=client_credentials&client_assertion=a.b.c&client_assertion_type="
    b"urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
)
TOKEN = (
    b"POST /v1/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: %d\r\n\r\n" % len(_FORM)
) + _FORM
FLOODS = (TOKEN, INTRODUCTION, NEWS)
PIPELINED = 50

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
counts = {"connections": 0, "requests": 0}


async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Send nothing."""
    await reader.read()


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Send a header that never ends."""
    header = b"GET /v1/health HTTP/1.1\r\nX: " + b"x" * 10_000
    for byte in header:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(BYTE_S)


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Send requests, one after the other, and read nothing."""
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    while not writer.is_closing():
        writer.write(INTRODUCTION * PIPELINED)
        await writer.drain()
        await asyncio.sleep(BYTE_S)


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Send the next request as soon as the last one is answered."""
    while True:
        writer.write(FLOODS[number % len(FLOODS)])
        await writer.drain()
        if not await reader.read(1 << 16):
            return
        counts["requests"] += 1


KINDS: tuple[Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]], ...] = (
    idle,
    slow,
    deaf,
    flood,
)


async def attack(url: str, connections: int) -> None:
    """Keep so many connections open until the input ends."""
    parts = urlsplit(url)
    tls = None
    if parts.scheme == "https":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE

    async def again(number: int) -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
                counts["connections"] += 1
                try:
                    await KINDS[number % len(KINDS)](reader, writer, number // len(KINDS))
                finally:
                    writer.transport.abort()
            await asyncio.sleep(AGAIN_S)

    tasks = [asyncio.create_task(again(number)) for number in range(connections)]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(counts["connections"], counts["requests"], flush=True)
    os._exit(0)


@contextmanager
def attacking(url: str, connections: int) -> Iterator[None]:
    """Hostile clients as long as the block runs."""
    process = subprocess.Popen(
        ["nice", "-n", "19", sys.executable, "-m", "bench.exchange.hostile", url, str(connections)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        print(f"  hostile: connections, requests answered: {process.stdout.read().strip()}")
        process.wait(30)
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(attack(sys.argv[1], int(sys.argv[2])))
