#!/bin/sh
# Brings an owner's contracts into the owner's home. They are given read-only in /srv/given; medusa
# partner adds the partners' files to the copy. A file that was given before and is not any more is
# removed. In Kubernetes what is given are links into a hidden folder: files are copied, not links.
set -eu
copy=/srv/medusa/contracts
mkdir -p "$copy"
cd /srv/given
find -L . -type f ! -path './.*' | sort > "$copy/.given.new"
if [ -f "$copy/.given" ]; then
    comm -23 "$copy/.given" "$copy/.given.new" | while IFS= read -r gone; do rm -f "$copy/$gone"; done
fi
for given in *; do
    if [ -e "$given" ]; then cp -RL "$given" "$copy"; fi
done
mv "$copy/.given.new" "$copy/.given"
# The group of a volume may be given rights when it is mounted, and secrets of a group are refused.
if [ -d /srv/medusa/keys ]; then chmod -R go-rwx /srv/medusa/keys; fi
cd /srv/medusa
exec medusa apply --contracts "$copy" "$@"
