#!/bin/sh
# What a launch is when one script does it by hand: EROFS and overlay, disk, network, runtime, SSH
# server. byhand.sh up|down WORK NAME, in a mount namespace where crun finds cgroups it can use.
# WORK holds what is there before an order: image.erofs, template.img (sparse ext4), config.json with
# @DIR@ and @NAME@ to be filled in, the folder of the SSH server and its host key.
set -eu
work=$2 name=$3
dir=$work/$name
if [ "$1" = down ]; then
    "$(cat "$work/runtime")" --root "$work/state" delete --force "$name" 2>/dev/null || true
    umount "$dir/root" "$dir/image" "$dir/disk" "$dir/sys" 2>/dev/null || true
    ip netns delete "$name" 2>/dev/null || true
    rm -rf "$dir"
    exit 0
fi
mkdir -p "$dir/disk" "$dir/image" "$dir/root" "$dir/sys"
cp --sparse=always "$work/template.img" "$dir/disk.img"
mount -o loop "$dir/disk.img" "$dir/disk"
mount -t erofs -o ro,loop "$work/image.erofs" "$dir/image"
mkdir -p "$dir/disk/work" "$dir/disk/upper/.suanli"
mount -t overlay -o "lowerdir=$dir/image,upperdir=$dir/disk/upper,workdir=$dir/disk/work" overlay "$dir/root"
ip netns add "$name"
ip -batch - <<EOF
link add byhand type veth peer name eth0 netns $name
address add 10.98.0.1/30 dev byhand
link set byhand up
EOF
ip -n "$name" -batch - <<EOF
link set lo up
address add 10.98.0.2/30 dev eth0
link set eth0 up
route add default via 10.98.0.1
EOF
nsenter "--net=/run/netns/$name" sh -c "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
    mount -t sysfs -o ro sysfs '$dir/sys'"
sed -e "s|@DIR@|$dir|g" -e "s|@NAME@|$name|g" "$work/config.json" >"$dir/config.json"
"$(cat "$work/runtime")" --root "$work/state" run --bundle "$dir" --pid-file "$dir/pid" --detach "$name" \
    >"$dir/out" 2>&1 </dev/null
