"""Airflow's side: connection, operators, triggers, links, pages.

What is decided and done lies elsewhere; here it is only asked for, and told where operators look.
Nothing of Airflow's memory is ever the truth: that is in the catalogs.
"""
