#!/bin/sh
# Brings an owner's contracts into the owner's home. They are given read-only in /srv/given; medusa
# partner adds the partners' files to the copy. In Kubernetes what is given are links into a hidden folder:
# the files are copied, not the links.
set -eu
mkdir -p /srv/medusa/contracts
for given in /srv/given/*; do
    if [ -e "$given" ]; then cp -RL "$given" /srv/medusa/contracts; fi
done
exec medusa apply --contracts /srv/medusa/contracts "$@"
