#!/bin/sh
# Runs the command of one process, once, and leaves its exit status behind.
# usage: supervise.sh DIRECTORY SCRIPT VARIABLES CGROUP LEASE GRACE PYTHON WRITER KEEP ORPHANS [COMMAND…]
#   VARIABLES   file with the user's own variables
#   CGROUP      may be empty, as LEASE, which is in seconds, as GRACE
#   WRITER      program that copies its input to a file, of a long one only KEEP bytes; PYTHON runs it
#   ORPHANS     not empty: this adopts what the command left behind, and has to kill it
#   COMMAND     runs what follows it contained, and as the user of the process
#
# It outlives the worker. It forks for the command, for the program that writes the output to its file,
# and for the lease watchdog if there is a lease; the rest are builtins and one exec.

# A signal to the whole tree must not keep the exit status from being recorded; and one that comes
# before the command has started must not be lost.
signalled=
watchdog=
trap 'signalled=1' TERM INT HUP

# O_EXCL: only one supervisor gets the claim, no matter which worker started it and how often.
IFS= read -r stat <"/proc/$$/stat"
set -C
{ echo "$stat" >"$1/started"; } 2>/dev/null || exit 0
set +C

exec </dev/null >/dev/null 2>&1

# Output goes through a pipe: a script that opens /dev/stderr would truncate a file.
(
    trap '' TERM INT HUP
    exec "$7" -I -S "$8" "$1/output" "$9" <"$1/pipe"
) &
writer=$!
echo "$writer" >"$1/scribe"
# Signals its session, except supervisor, output writer and watchdog; the worker finds what has left the
# session.
# usage: signal_session SIGNAL
signal_session() {
    read -r own _ </proc/self/stat
    for stat in /proc/[0-9]*/stat; do
        { IFS= read -r line <"$stat"; } 2>/dev/null || continue
        set -- "$1" "${line%% *}" ${line##*) }
        case $2 in "$$" | "$writer" | "$own") continue ;; esac
        [ "$6" != "$$" ] || kill "-$1" "$2" 2>/dev/null
    done
}
# Kills the children of this shell, again and again: what a killed one leaves becomes a child, too.
kill_orphans() {
    rounds=100
    while [ "$rounds" -gt 0 ]; do
        rounds=$((rounds - 1))
        found=
        for stat in /proc/[0-9]*/stat; do
            { IFS= read -r line <"$stat"; } 2>/dev/null || continue
            set -- "${line%% *}" ${line##*) }
            [ "$3" = "$$" ] && [ "$2" != Z ] || continue
            kill -KILL "$1" 2>/dev/null && found=1
        done
        [ -n "$found" ] || return
    done
}
if [ -n "$5" ]; then
    . "${0%/*}/lease.sh"
    (
        trap '' TERM INT HUP
        await_expiry "${1%/*}/lease" "$5"
        echo over >"$1/expired"
        signal_session TERM
        sleep "$6"
        signal_session KILL
        [ -z "$4" ] || echo 1 >"$4/cgroup.kill"
    ) &
    watchdog=$!
fi
# Nothing of this may run as another user: SRC_DIR may be a link by now, and the variables are the user's own.
# They come last: only the command follows.
run='cd "$SRC_DIR" || exit 126
[ ! -e "$2" ] || . "$2"
set -- /bin/bash "$1"
if [ -n "$PIT_VENV_PRELUDE" ]; then
    python=$(command -v python3) || { echo "venv: this node has no python3"; exit 125; }
    set -- "$python" -I "$PIT_VENV_PRELUDE" "$@"
fi
exec "$@"'
(
    # Only the command joins: killing the whole cgroup then leaves the supervisor to record it.
    if [ -n "$4" ] && ! echo 0 >"$4/cgroup.procs"; then
        echo "it cannot enter its cgroup $4" >"$1/fault"
        exit 126
    fi
    [ -z "$signalled" ] || exit 143
    [ -z "$5" ] || lease_lasts "${1%/*}/lease" "$5" || { echo over >"$1/expired"; exit 143; }
    # The worker may be shielded from the OOM killer; what it runs must not be.
    { echo 0 >/proc/self/oom_score_adj; } 2>/dev/null
    script=$2
    variables=$3
    shift 10
    exec "$@" /bin/sh -c "$run" sh "$script" "$variables"
) >"$1/pipe" 2>&1
code=$?
# Ignored, not trapped: that survives exec, and no signal interrupts the wait.
trap '' TERM INT HUP
# What contains the command may have written it before, and been killed since.
[ -s "$1/exit.part" ] || echo "$code" >"$1/exit.part"
# The watchdog stands still, so that it begins no other sleep while this one is ended with it.
if [ -n "$watchdog" ]; then
    kill -STOP "$watchdog"
    read -r nap _ <"/proc/$watchdog/task/$watchdog/children"
    kill -KILL "$watchdog" $nap
fi
# The output writer exits when no process has the pipe open. What the command left behind may still
# have it; the worker sees exit.part and kills that.
wait
[ -z "${10}" ] || kill_orphans
exec /bin/mv "$1/exit.part" "$1/exit"
