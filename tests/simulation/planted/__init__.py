"""Bugs on purpose: each module changes one function of the product, in memory, for one test.

A bug is a changed copy of a function, as small as it can be; `plant` puts it in place. The
simulator is worth what it finds: every one of them must be found within 2,000 schedules.
"""
