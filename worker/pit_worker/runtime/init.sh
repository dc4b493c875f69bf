# The first process of a PID namespace: runs a command there, and ends when nothing is left inside.
# If this is killed, the kernel kills everything inside.
# usage: init.sh DIRECTORY COMMAND…

directory=$1
shift
# The shell would report how the command was killed, into its output.
exec 3>&2 2>/dev/null
(exec "$@" 2>&3 3>&-)
code=$?
exec 3>&-
# What the command left behind may have a grace period: the worker sees this file, and kills the rest in time.
echo "$code" >"$directory/exit.part"
while set -- /proc/[0-9]*; [ $# -gt 1 ]; do
    sleep 0.02
done
exit "$code"
