"""`make dpc`: the experiments of the DPC papers on real processes, their other cells simulated.

Three landing participants in one live generator process, behind them a chain of 1, 2 or 4
participants, each a process with its own Spark; the last one promises X = 10 s over buckets of 1
s. Inputs are cut off for 0.5, 1.5, 3 and 6 X, one failure after the other in one federation for
each depth and policy, since a start of Spark costs more than most failures. Besides the chains,
two replicas and one that reads them. All figures are read from the catalogs.

The minutes (a guess for a machine with other work; `--explain` prints them for what is left): a
start, 30 steps of every hop, and reading, 1.75; failures of 60, 30, 15 and 5 s, 1.8; after each
of them up to 8 s to correct and 15 s of peace, 1.55: 5.1 for a federation under delay. Those
under process have two cells more, overlapping failures (24 s) and a failure during correction (27
s): 6.7. Three depths: 35.5. Replicas: one is killed and restarted, one cut off from their reader,
and both: 4. The simulator's cells, with the steps measured before: 7. In all 47 of the 60 that
are allowed.
"""

from bench.dpc.command import main

__all__ = ["main"]
