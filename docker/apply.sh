#!/bin/sh
# Brings an owner's contracts into the owner's home. They are given read-only in /srv/given; medusa
# partner adds the partners' files to the copy.
set -eu
mkdir -p /srv/medusa/contracts
cp -r /srv/given/. /srv/medusa/contracts
exec medusa apply --contracts /srv/medusa/contracts "$@"
