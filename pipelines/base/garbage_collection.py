"""Garbage collection in processes that run for long."""

from __future__ import annotations

import gc


def exempt_loaded_objects() -> None:
    """Let collections skip the objects that exist now: most of them remain to the end.

    A full collection visits every object, and the process does nothing else meanwhile: with the
    libraries of a driver 0.1 to 0.3 s. Called again, it collects what was skipped and is garbage.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
