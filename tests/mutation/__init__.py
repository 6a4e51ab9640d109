"""Mutation tests: small changes of the product that some test must notice.

`python -m tests.mutation --seed 1 --sample 40` draws mutants of `medusa_core/` and `sql/`, applies
each in a private copy of the repository, and runs the tests that reach it until one fails. A mutant
that no test notices is a survivor: it is killed by a new test, or listed in `survivors.toml` with
the reason why it does no harm.
"""
