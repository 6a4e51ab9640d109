"""The platform that `medusa up` starts: Airflow's components and a database, watched over.

One process of ours, the supervisor, owns all of it (`supervisor.py`). What it decides is pure
(`medusa_core/restart.py`), what it has started is written down before it runs
(`component_processes.py`, `airflow_folder.py`), so that another can end it after a `kill -9`.
Airflow itself is never imported here.
"""
