"""The operator's page: documents of homes, and their HTML.

It knows nothing of Airflow, whose server shows it (`pipelines/airflow/pages.py`): the program that
mounts `site` authenticates. A page is a document (`/medusa/NAME.json`) and its rendering; nothing
is read for it while no page is open.
"""
