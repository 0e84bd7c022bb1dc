#!/usr/bin/env bash
# Boot this machine's systemd as PID 1 of namespaces of its own: boot.sh FOLDER CGROUP, under
# `unshare --mount --uts --ipc --net --pid --fork`. FOLDER is on a tmpfs and has disk, work and root
# (empty folders but for disk, the upper layer of the overlay) and boot_id. CGROUP is a cgroup of
# version 2. What belongs to the machine itself is out of reach: its cgroups, /run, /tmp and devices
# are not there, /sys and /proc/sys are read-only, and the clock and modules need capabilities that
# are dropped.
set -euo pipefail
folder=$1
if [ $# = 2 ]; then
    echo 0 >"$2/cgroup.procs"
    exec unshare --cgroup bash "${BASH_SOURCE[0]}" "$folder"
fi

mount --make-rprivate /
root=$folder/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/disk,workdir=$folder/work" "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount --bind "$folder/boot_id" "$root/proc/sys/kernel/random/boot_id" # all boots have one kernel
mount --rbind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
[ ! -e /proc/sysrq-trigger ] || mount --bind /dev/null "$root/proc/sysrq-trigger"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o nosuid,mode=0755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mount -t devpts -o nosuid,noexec,newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0 1 2; do
    names=(stdin stdout stderr)
    ln -s "fd/$number" "$root/dev/${names[number]}"
done
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o nosuid,nodev,mode=0755 tmpfs "$root/run"

cd "$root"
pivot_root . mnt
umount -l /mnt
cd /
dropped=-sys_time,-sys_module,-sys_rawio,-syslog,-audit_control,-audit_read,-wake_alarm,-mac_admin
exec env -i container=sparkfleet PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    setpriv --bounding-set "$dropped" /lib/systemd/systemd
