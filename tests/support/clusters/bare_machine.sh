#!/bin/sh
# Run a command on a machine of its own: PLACE is an empty directory, `unshare` has made the namespaces. What is
# written to /etc, /srv, /var/lib and /run is gone with it. It has the name of the tutorial, and a systemctl.
set -eu
place=$1
shift
mount -t tmpfs tmpfs "$place"
for directory in etc srv var/lib; do
    upper=$place/$(basename "$directory")
    mkdir "$upper" "$upper.work"
    mount -t overlay overlay -o "lowerdir=/$directory,upperdir=$upper,workdir=$upper.work" "/$directory"
done
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "$place/bin"
echo '127.0.0.1 localhost head.example.org n0' >/etc/hosts
hostname head.example.org
ip link set lo up

# What systemd does for the two units: it starts what they name, and stops it.
cat >"$place/bin/systemctl" <<'END'
#!/bin/bash
name=${2%.service}
pid=/run/$name.pid
stop() {
    [ -f $pid ] || return 0
    kill "$(cat $pid)" 2>/dev/null
    while kill -0 "$(cat $pid)" 2>/dev/null; do sleep 0.1; done
    rm $pid
}
start() {
    setsid $(sed -n 's/^ExecStart=//p' /etc/systemd/system/$name.service) >>/run/$name.log 2>&1 </dev/null &
    echo $! >$pid
    [ $name = pit-head ] || return 0
    until (: >/dev/tcp/127.0.0.1/7478) 2>/dev/null; do
        kill -0 $! || { cat /run/$name.log >&2; exit 1; }
        sleep 0.1
    done
}
case $1 in
start) start ;;
stop) stop ;;
restart) stop && start ;;
esac
END
chmod +x "$place/bin/systemctl"
PATH=$place/bin:$PATH exec "$@"
