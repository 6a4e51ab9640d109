#!/bin/sh
# Delta joins alpha, beta and gamma, then all apply their contracts. The code of an invitation passes
# through this pipe and is stored nowhere. COMPOSE: how compose is called. May be repeated.
set -eu
compose=${COMPOSE:-docker compose}
for owner in alpha beta gamma; do
    $compose exec -T $owner medusa partner invite delta < /dev/null |
        $compose exec -T delta medusa partner accept -
done
for owner in alpha beta gamma delta; do
    $compose run --rm -T $owner-apply sh /opt/medusa/docker/apply.sh
done
