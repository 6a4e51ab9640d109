"""Processes: Airflow's components, participants' jobs, fault drills."""
