"""Airflow's side: connection, operators, triggers, links, pages.

Decisions and work are in `pipelines.operations`; this room calls them and shows their results
where Airflow's operators look. Airflow's memory is never the truth: the catalogs are.
"""
