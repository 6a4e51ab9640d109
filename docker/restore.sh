#!/bin/sh
# Makes the volumes what they were when docker/backup.sh copied them to this folder. What was written
# since then is removed. All services must be stopped. Nothing is removed before the whole copy was
# read. COMPOSE: how compose is called.
set -eu
folder=${1:?name the folder of a backup}
folder=${folder%/}
. "$(dirname "$0")/volumes.sh"
case $folder in *.part) refuse "$folder is of a backup that was interrupted: name a complete one" ;; esac
[ -d "$folder" ] || refuse "$folder is not a folder: name the folder of a backup"
copied=$(for file in "$folder"/*.tar; do basename "$file" .tar; done | sort)
[ "$copied" = "$volumes" ] || refuse "the volumes of the project $project are not those of the copy:" \
    "the project has" $volumes", the copy has" $copied
[ -f "$folder/sums" ] || refuse "$folder lacks the file sums, which ends a backup: nothing was restored"
# A tar that is cut between two files is valid, so what tar says is not enough.
(cd "$folder" && cksum -- *.tar | cmp -s - sums) ||
    refuse "$folder is damaged, its files are not those of its sums: nothing was restored"
for volume in $volumes; do
    docker run --rm --interactive --network none --user 0 --volume "$volume:/to" medusa \
        sh -c 'find /to -mindepth 1 -delete && tar -C /to --numeric-owner -xp' < "$folder/$volume.tar" ||
        refuse "the volume $volume could not be restored: start no service before a restore succeeds"
    echo "$volume: restored"
done
