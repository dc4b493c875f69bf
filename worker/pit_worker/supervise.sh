#!/bin/sh
# Runs the command of one process, once, and leaves its exit status behind.
# usage: supervise.sh DIRECTORY SCRIPT CGROUP [LEASE GRACE]    (CGROUP may be empty; seconds)
#
# It outlives the worker. It forks for the command and for the scribe that writes down its output;
# the rest are builtins and one exec; and for the dead-man, if there is a lease.

# A signal meant for the whole tree must not keep the end from being recorded; and one that
# comes before the command has begun must not be lost.
told=
deadman=
trap 'told=1' TERM INT HUP

# O_EXCL: whichever worker started this, and however often, one supervisor gets the claim.
IFS= read -r stat <"/proc/$$/stat"
set -C
{ echo "$stat" >"$1/started"; } 2>/dev/null || exit 0
set +C

exec </dev/null >/dev/null 2>&1

# Output goes through a pipe: a script that opens /dev/stderr would truncate a file.
(
    trap '' TERM INT HUP
    exec /bin/cat <"$1/pipe" >>"$1/output"
) &
scribe=$!
echo "$scribe" >"$1/scribe"
# Signals all of its session but those who see it to its end; what has left the session is the
# worker's to find.
# usage: tell SIGNAL
tell() {
    read -r own _ </proc/self/stat
    for stat in /proc/[0-9]*/stat; do
        { IFS= read -r line <"$stat"; } 2>/dev/null || continue
        set -- "$1" "${line%% *}" ${line##*) }
        case $2 in "$$" | "$scribe" | "$own") continue ;; esac
        [ "$6" != "$$" ] || kill "-$1" "$2" 2>/dev/null
    done
}
if [ -n "$4" ]; then
    . "${0%/*}/lease.sh"
    (
        trap '' TERM INT HUP
        outlast "${1%/*}/lease" "$4"
        echo over >"$1/expired"
        tell TERM
        sleep "$5"
        tell KILL
        [ -z "$3" ] || echo 1 >"$3/cgroup.kill"
    ) &
    deadman=$!
fi
(
    # Only the command joins: killing the whole cgroup then leaves the supervisor to record it.
    if [ -n "$3" ]; then
        echo 0 >"$3/cgroup.procs" || exit 126
    fi
    [ -z "$told" ] || exit 143
    [ -z "$4" ] || has_rest "${1%/*}/lease" "$4" || { echo over >"$1/expired"; exit 143; }
    cd "$SRC_DIR" || exit 126
    # The worker may be shielded from the OOM killer; what it runs must not be.
    { echo 0 >/proc/self/oom_score_adj; } 2>/dev/null
    # The user's own variables, last: from here on there is nothing but his command.
    [ ! -e "$1/variables" ] || . "$1/variables"
    exec /bin/bash "$2"
) >"$1/pipe" 2>&1
code=$?
# Ignored, not trapped: that lasts through exec, and no signal ends the wait.
trap '' TERM INT HUP
echo "$code" >"$1/exit.part"
[ -z "$deadman" ] || kill -KILL "$deadman"
# The scribe ends when nobody has the pipe any more. What the command left behind may still have
# it; the worker sees exit.part and ends that.
wait
exec /bin/mv "$1/exit.part" "$1/exit"
