"""Drawn networks and their evaluation by DuckDB: what the differential test compares steps with.

Nothing here reads the product's compiler, checks or transpiler. A drawn network is a small
specification from which a Medusa network and DuckDB statements are written, each by its own text.
"""
