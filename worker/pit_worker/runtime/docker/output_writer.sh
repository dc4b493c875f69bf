#!/bin/sh
# Writes the output of one container to its file, once. The command inside starts when its output is
# read, so this is the claim: only one output writer reads, no matter who starts the container and how often.
# usage: output_writer.sh DIRECTORY PYTHON WRITER KEEP
#   WRITER      program that copies its input to a file, of a long one only KEEP bytes; PYTHON runs it
#
# It outlives the worker, and exits when no process has the pipe open.

trap '' TERM INT HUP
IFS= read -r stat <"/proc/$$/stat"
set -C
{ echo "$stat" >"$1/started"; } 2>/dev/null || exit 1
echo claimed
exec "$2" -I -S "$3" "$1/output" "$4" <"$1/pipe" >/dev/null 2>&1
