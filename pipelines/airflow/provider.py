"""Provider information for Airflow's provider manager: the connection type, links and triggers."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """In the form of Airflow's provider_info.schema.json."""
    return {
        "package-name": "medusa",
        "name": "Medusa",
        "description": "A federated, fault-tolerant stream processor on Spark",
        "integrations": [
            {
                "integration-name": "Medusa",
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": "Medusa",
                "python-modules": [
                    "pipelines.airflow.operators",
                    "pipelines.airflow.quality_operators",
                    "pipelines.airflow.drill_operators",
                    "pipelines.airflow.act_operators",
                ],
            }
        ],
        "hooks": [{"integration-name": "Medusa", "python-modules": ["pipelines.airflow.hooks"]}],
        "triggers": [
            {"integration-name": "Medusa", "python-modules": ["pipelines.airflow.triggers"]}
        ],
        "connection-types": [
            {
                "hook-class-name": "pipelines.airflow.hooks.MedusaHook",
                "hook-name": "Medusa",
                "connection-type": "medusa",
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "port", "login", "schema", "extra"],
                    "relabeling": {"password": "Catalog URL"},
                    "placeholders": {
                        "password": "postgresql://user:password@host:5432/postgres"
                    },
                },
                "conn-fields": {
                    "directory": {"label": "MEDUSA_DIR", "schema": {"type": ["string", "null"]}},
                    "contracts": {
                        "label": "Contracts folder", "schema": {"type": ["string", "null"]}
                    },
                    "spark_master": {
                        "label": "Spark master", "schema": {"type": ["string", "null"]}
                    },
                },
            }
        ],
        "extra-links": [
            "pipelines.airflow.task_links.ReportLink",
            "pipelines.airflow.task_links.CertificateLink",
            "pipelines.airflow.task_links.PageLink",
        ],
    }  # fmt: skip
