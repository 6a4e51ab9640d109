"""The files of bilateral contracts, checked alone and together."""
