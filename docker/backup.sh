#!/bin/sh
# Copies the volumes of all services, which must be stopped, to a new folder: databases and files of one
# moment. The folder has the keys of the homes: keep it secret. COMPOSE: how compose is called.
set -eu
compose=${COMPOSE:-docker compose}
folder=${1:?name a folder that does not exist yet}
containers=$($compose ps --all --quiet)
for container in $containers; do
    if [ "$(docker inspect -f '{{.State.Running}}' "$container")" = true ]; then
        echo "a service runs: stop all of them first ($compose stop)" >&2
        exit 4
    fi
done
umask 077
mkdir "$folder"
mounted='{{range .Mounts}}{{if eq .Type "volume"}}{{println .Name}}{{end}}{{end}}'
for volume in $(for one in $containers; do docker inspect -f "$mounted" "$one"; done | sort -u); do
    docker run --rm --network none --user 0 --volume "$volume:/from:ro" medusa \
        tar -C /from --numeric-owner -c . > "$folder/$volume.tar"
    echo "$volume: $(wc -c < "$folder/$volume.tar") bytes"
done
