#!/bin/sh
# Copies the volumes of all services, which must be stopped, to a new folder: databases and files of one
# moment. The folder has the keys of the homes: keep it secret. It appears when it is complete. COMPOSE:
# how compose is called.
set -eu
folder=${1:?name a folder that does not exist yet}
folder=${folder%/}
. "$(dirname "$0")/volumes.sh"
[ ! -e "$folder" ] || refuse "$folder exists: name a folder that does not exist yet"
[ ! -e "$folder.part" ] || refuse "$folder.part exists, of a backup that was interrupted: remove it first"
umask 077
mkdir "$folder.part"
trap 'rm -rf "$folder.part"' EXIT
trap 'exit 130' HUP INT TERM
for volume in $volumes; do
    docker run --rm --network none --user 0 --volume "$volume:/from:ro" medusa \
        tar -C /from --numeric-owner -c . > "$folder.part/$volume.tar" ||
        refuse "the volume $volume could not be copied: there is no backup"
    echo "$volume: $(wc -c < "$folder.part/$volume.tar") bytes"
done
(cd "$folder.part" && cksum -- *.tar > sums) || refuse "the copy could not be read: there is no backup"
mv "$folder.part" "$folder"
