"""The files under `contracts/`: who runs what, what is promised.

Strict YAML in, values out; every error names file, line and field. `medusa apply` compares them
with the homes and brings in the difference; these files are not read at run time.
"""
