# For backup.sh and restore.sh, which include it. Sets `project` and `volumes`, the sorted names of the
# project's volumes, with or without containers. Exits if it finds none, or if a container that runs
# uses one. Each command is an assignment of its own, because `set -e` ignores failures inside others.
export LC_ALL=C
compose=${COMPOSE:-docker compose}

refuse() {
    echo "$*" >&2
    exit 4
}

config=$($compose config)
containers=$($compose ps --all --quiet)
project=$(printf '%s\n' "$config" | sed -n 's/^name: *//p' | tr -d "\"'")
if [ -z "$project" ] && [ -n "$containers" ]; then # Compose v1 does not print the name.
    label='{{index .Config.Labels "com.docker.compose.project"}}'
    project=$(docker inspect -f "$label" "$(echo "$containers" | head -n 1)")
fi
if [ -z "$project" ]; then
    project=${COMPOSE_PROJECT_NAME:-$(basename "$PWD" | tr '[:upper:]' '[:lower:]' | tr -cd 'a-z0-9_-')}
fi

volumes=$(docker volume ls --quiet --filter "label=com.docker.compose.project=$project")
volumes=$(echo "$volumes" | sort)
[ -n "$volumes" ] || refuse "the project $project has no volumes: set COMPOSE_PROJECT_NAME to its name"
running=$(docker ps --quiet --filter "label=com.docker.compose.project=$project")
[ -z "$running" ] || refuse "a service runs: stop all of them first ($compose stop)"
for volume in $volumes; do
    running=$(docker ps --quiet --filter "volume=$volume")
    [ -z "$running" ] || refuse "a container uses the volume $volume: stop it first (docker stop $running)"
done
