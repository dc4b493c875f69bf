# The lease watchdog of a process: it ends the process when the node has had no contact with the head
# for too long, whether or not there is still a worker. It is put in front of the script that a container
# starts with, so it uses only what every sh has, and sleep. Other processes have supervisor/lease.py.

# Whether the lease still lasts; sets $rest to its remaining seconds. The file has the time of the last
# contact, in seconds since boot.
# usage: lease_lasts FILE SECONDS
lease_lasts() {
    read -r contact _ <"$1" && read -r now _ </proc/uptime || return 1
    rest=$((contact + $2 - ${now%.*}))
    [ "$rest" -gt 0 ]
}

# Returns when the lease has expired.
# usage: await_expiry FILE SECONDS
await_expiry() {
    while lease_lasts "$1" "$2"; do
        # A sleep does not count the time in which the machine is suspended.
        [ "$rest" -lt 60 ] || rest=60
        sleep "$rest"
    done
}
