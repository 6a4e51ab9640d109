"""For Airflow's plugins folder: set AIRFLOW__CORE__PLUGINS_FOLDER to this one."""

from pipelines.airflow.plugin import MedusaPlugin

__all__ = ["MedusaPlugin"]
