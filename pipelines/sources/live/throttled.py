"""A limit on how fast a source lands: after n records the next poll is n / limit seconds later.

The limit holds on average; a single batch is as large as its source makes it. While the source
waits nothing is promised by time alone, since newly arrived records were not read.
"""

from __future__ import annotations

from dataclasses import replace

from pipelines.sources.live.live_source import LiveSource, Polled


class Throttled:
    """See `LiveSource`; `records_per_s` records land on average at most."""

    def __init__(self, source: LiveSource, records_per_s: int) -> None:
        assert records_per_s > 0
        self._source = source
        self._records_per_s = records_per_s
        self._next_ms = 0.0
        self._last = Polled()

    def poll(self, now_ms: int) -> Polled:
        """As the source's own poll, or nothing while it has to wait."""
        if now_ms < self._next_ms:
            return Polled(
                boundary_us=self._last.boundary_us,
                because=f"at most {self._records_per_s:,} records a second are landed",
                waiting_files=self._last.waiting_files,
                waiting_records=self._last.waiting_records,
                has_waiting=self._last.has_waiting,
                has_ended=self._last.has_ended,
                left_out=self._last.left_out,
            )
        polled = self._source.poll(now_ms)
        count = polled.landed + polled.quarantined
        self._next_ms = max(self._next_ms, now_ms) + count * 1_000 / self._records_per_s
        self._last = polled
        # What is left has to wait as well: the loop need not come back at once.
        return replace(polled, has_more=polled.has_more and self._next_ms <= now_ms)

    def close(self) -> None:
        """Let go of what the source holds."""
        self._source.close()
