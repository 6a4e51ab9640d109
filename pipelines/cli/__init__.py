"""The command `medusa`: one file for each command."""

import gc

# What is imported stays. At Python's own threshold, a tenth of a command's start would be spent on
# looking through it for garbage.
gc.set_threshold(10_000)
