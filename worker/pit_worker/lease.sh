# The dead-man of a process: it ends what it watches when the node has had no word with the head
# for too long, whether or not there is still a worker. Used by supervise.sh, and put in front of
# what a container begins with; so it uses only what every sh has, and sleep.

# Whether there is some rest of the lease. The file has the time of the last word, since boot.
# usage: has_rest FILE SECONDS
has_rest() {
    read -r heard _ <"$1" && read -r now _ </proc/uptime || return 1
    rest=$((heard + $2 - ${now%.*}))
    [ "$rest" -gt 0 ]
}

# Returns when the lease is over.
# usage: outlast FILE SECONDS
outlast() {
    while has_rest "$1" "$2"; do
        # A sleep does not count the time of a machine that is suspended.
        [ "$rest" -lt 60 ] || rest=60
        sleep "$rest"
    done
}
