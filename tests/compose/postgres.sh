# POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_INITDB_ARGS are taken as the public image takes them.
set -eu
data=/var/lib/postgresql/data
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$data" && chown postgres:postgres "$data" && chmod 0700 "$data"
    exec setpriv --reuid=postgres --regid=postgres --clear-groups sh "$0"
fi
if [ ! -s "$data/PG_VERSION" ]; then
    umask 077
    printf '%s\n' "${POSTGRES_PASSWORD:?}" > /tmp/password
    # Words on purpose: these are options.
    initdb -D "$data" -U "${POSTGRES_USER:?}" --pwfile=/tmp/password --auth-local=scram-sha-256 \
        ${POSTGRES_INITDB_ARGS:-}
    rm /tmp/password
    echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
fi
exec postgres -D "$data" -c listen_addresses='*' -k /tmp
