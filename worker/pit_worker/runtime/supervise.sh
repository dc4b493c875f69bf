#!/bin/sh
# Runs the command of one process, once, and leaves its exit status behind.
# usage: supervise.sh DIRECTORY SCRIPT CGROUP [LEASE GRACE]    (CGROUP may be empty; seconds)
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
    exec /bin/cat <"$1/pipe" >>"$1/output"
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
if [ -n "$4" ]; then
    . "${0%/*}/lease.sh"
    (
        trap '' TERM INT HUP
        await_expiry "${1%/*}/lease" "$4"
        echo over >"$1/expired"
        signal_session TERM
        sleep "$5"
        signal_session KILL
        [ -z "$3" ] || echo 1 >"$3/cgroup.kill"
    ) &
    watchdog=$!
fi
(
    # Only the command joins: killing the whole cgroup then leaves the supervisor to record it.
    if [ -n "$3" ]; then
        echo 0 >"$3/cgroup.procs" || exit 126
    fi
    [ -z "$signalled" ] || exit 143
    [ -z "$4" ] || lease_lasts "${1%/*}/lease" "$4" || { echo over >"$1/expired"; exit 143; }
    cd "$SRC_DIR" || exit 126
    # The worker may be shielded from the OOM killer; what it runs must not be.
    { echo 0 >/proc/self/oom_score_adj; } 2>/dev/null
    # The user's own variables come last: only the command follows.
    [ ! -e "$1/variables" ] || . "$1/variables"
    set -- /bin/bash "$2"
    if [ -n "$PIT_VENV_PRELUDE" ]; then
        python=$(command -v python3) || { echo "venv: this node has no python3"; exit 125; }
        set -- "$python" -I "$PIT_VENV_PRELUDE" "$@"
    fi
    exec "$@"
) >"$1/pipe" 2>&1
code=$?
# Ignored, not trapped: that survives exec, and no signal interrupts the wait.
trap '' TERM INT HUP
echo "$code" >"$1/exit.part"
[ -z "$watchdog" ] || kill -KILL "$watchdog"
# The output writer exits when no process has the pipe open. What the command left behind may still
# have it; the worker sees exit.part and kills that.
wait
exec /bin/mv "$1/exit.part" "$1/exit"
