#!/bin/sh
# Makes the volumes what they were when docker/backup.sh copied them to this folder. What was written
# since then is removed. All services must be stopped. COMPOSE: how compose is called.
set -eu
compose=${COMPOSE:-docker compose}
folder=${1:?name the folder of a backup}
for container in $($compose ps --all --quiet); do
    if [ "$(docker inspect -f '{{.State.Running}}' "$container")" = true ]; then
        echo "a service runs: stop all of them first ($compose stop)" >&2
        exit 4
    fi
done
for file in "$folder"/*.tar; do
    tar -tf "$file" > /dev/null
done
for file in "$folder"/*.tar; do
    volume=$(basename "$file" .tar)
    docker run --rm --interactive --network none --user 0 --volume "$volume:/to" medusa \
        sh -c 'find /to -mindepth 1 -delete && tar -C /to --numeric-owner -xp' < "$file"
    echo "$volume: restored"
done
