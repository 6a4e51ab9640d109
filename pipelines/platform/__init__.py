"""Processes on this machine: Airflow's components, jobs, drills."""
