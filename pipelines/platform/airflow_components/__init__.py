"""The platform of `medusa up`: a supervised database and Airflow.

One process, the supervisor, owns all of it (`supervisor.py`). Its decisions are pure
(`medusa_core/restart.py`); a started process is recorded before it runs
(`component_processes.py`, `airflow_folder.py`), so that another supervisor can end it after a
`kill -9`. Airflow itself is never imported here.
"""
