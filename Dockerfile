# One image for all that Medusa runs in containers: participants, Airflow, Spark's master and
# workers (docker-compose.yml says which is which). Java and Spark come with the Python packages.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE}
WORKDIR /opt/medusa
# Only what decides which packages there are: a change of code does not install them again.
COPY bootstrap.py requirements.lock pyproject.toml README.md ./
COPY medusa_core/__init__.py medusa_core/
COPY pipelines/__init__.py pipelines/
RUN PIP_NO_CACHE_DIR=1 python3 bootstrap.py setup && rm -rf .medusa
RUN groupadd --gid 10001 medusa \
    && useradd --uid 10001 --gid medusa --home-dir /srv/medusa --no-create-home \
        --shell /usr/sbin/nologin medusa \
    && install -d -o medusa -g medusa -m 0750 /srv/medusa \
    && install -d /srv/given
COPY . .
ENV PATH=/opt/medusa/.venv/bin:/usr/local/bin:/usr/bin:/bin \
    MEDUSA_DIR=/srv/medusa \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Spark's own scripts need a Java that they can boot: found, or written, as Medusa itself does it.
RUN python -c "from pathlib import Path; from pipelines.spark.java import java_home; \
print(java_home(Path('/opt/medusa')))" > /tmp/java-home \
    && ln -s "$(cat /tmp/java-home)" /opt/java && rm /tmp/java-home
ENV JAVA_HOME=/opt/java
USER 10001:10001
WORKDIR /srv/medusa
CMD ["medusa", "doctor"]
