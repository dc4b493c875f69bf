#!/bin/sh
# Writes the output of one container to its file, once. The command inside starts when its output is
# read, so this is the claim: only one output writer reads, no matter who starts the container and how often.
# usage: output_writer.sh DIRECTORY
#
# It outlives the worker, and exits when no process has the pipe open.

trap '' TERM INT HUP
IFS= read -r stat <"/proc/$$/stat"
set -C
{ echo "$stat" >"$1/started"; } 2>/dev/null || exit 1
echo claimed
exec /bin/cat <"$1/pipe" >>"$1/output" 2>/dev/null
