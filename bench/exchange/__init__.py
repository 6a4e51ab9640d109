"""`python -m bench exchange`: the speed and the cost of a link between two participants.

One home publishes a hundred streams, another one imports them, in one folder over loopback without
TLS and with TLS as between machines. The server is `medusa serve`, the reader a process with the
importer and the listener of the loop; both are measured from outside, and by the monotonic clock
that all processes of a machine share.

* news: from the return of a commit at the producer to the moment at which the reader has fetched
  the news of that line.
* idle: CPU of the link while nothing happens.
* files: files of 64 MB and of 20 KB, beside a plain copy of the same bytes.
* hostile: news while 200 hostile connections are open, and without them, in turn.

Exit code 1 where a promise is missed.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Parse, run, judge."""
    # Here: modules of this package run as processes of their own, which need not load the others.
    from bench.exchange.command import main as run

    return run(arguments)
