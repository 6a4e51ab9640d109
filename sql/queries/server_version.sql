-- Which version of Postgres answers.
SHOW server_version;
