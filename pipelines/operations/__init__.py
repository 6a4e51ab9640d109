"""Use cases: a frozen request in, a frozen result out, nothing printed.

The command line and Airflow call the same functions. A function raises the errors of
`medusa_core.errors`, and may be called again at any moment: half-done work is completed, done
work is left alone. Progress goes to an observer, a callback that receives typed events.
"""
