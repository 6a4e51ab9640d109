"""`python -m bench availability`: four methods of availability, and the loss of a provider.

Two participants run as operators run them. Alpha lands generated records and computes twelve
fragments over them: one of each class of operators under each method. All move to beta under four
contracts, which differ in `availability` alone. Then beta is killed with SIGKILL and never comes
back. Measured is what was lost, repeated and late in alpha's lines, by the segments and commits in
its catalog, and before that what each method takes of CPU. The rows of alpha are compared with
those that another program computes from the landed records.

The table of the paper (Hwang et al., ICDE 2005) is printed beside what was measured: experiments
H1 (guarantees), H2 (overhead and recovery), H3 (what precise recovery costs), H4 (all at once), H5
(units that recover in parallel) and H6 (recovery by lineage). Several widths of buckets and
lengths of windows are runs of their own: `--widths 2s,4s`, `--windows 4s,20s`.

Exit code 1 if a row is lost or repeated against the promise; deviations from the paper are printed
and are no error.
"""

from bench.availability.command import main

__all__ = ["main"]
