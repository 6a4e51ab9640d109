"""The files under `contracts/`: who runs what, what is promised.

Strict YAML in, values out; every error names file, line and field. `medusa apply` compares them
with what stands in the homes and brings in the difference; at run time nobody reads these files.
"""
