#!/bin/sh
# Runs the command of one process, once, and leaves its exit status behind.
# usage: supervise.sh DIRECTORY SCRIPT CGROUP    (CGROUP may be empty)
#
# It outlives the worker. It forks for the command and for the scribe that writes down its output;
# the rest are builtins and one exec.

# A signal meant for the whole tree must not keep the end from being recorded; and one that
# comes before the command has begun must not be lost.
told=
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
echo "$!" >"$1/scribe"
(
    # Only the command joins: killing the whole cgroup then leaves the supervisor to record it.
    if [ -n "$3" ]; then
        echo 0 >"$3/cgroup.procs" || exit 126
    fi
    [ -z "$told" ] || exit 143
    cd "$SRC_DIR" || exit 126
    # The worker may be shielded from the OOM killer; what it runs must not be.
    { echo 0 >/proc/self/oom_score_adj; } 2>/dev/null
    exec /bin/bash "$2"
) >"$1/pipe" 2>&1
code=$?
# Ignored, not trapped: that lasts through exec, and no signal ends the wait.
trap '' TERM INT HUP
echo "$code" >"$1/exit.part"
# The scribe ends when nobody has the pipe any more. What the command left behind may still have
# it; the worker sees exit.part and ends that.
wait
exec /bin/mv "$1/exit.part" "$1/exit"
