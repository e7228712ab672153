#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the Debian packages, checks them with lintian, installs them in a new chroot with nothing else of Ferry, and tries them there.
# Needs root, dpkg-dev, debhelper, dh-python, chrpath, lintian and mmdebstrap. The chroot has the sources of packages of this machine.
# usage: try-debian.sh OUTPUT-FOLDER
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$root/meson.build")
tree=$out/ferry-$version
bare=$out/bare
rm -rf "$tree" "$bare"
mkdir "$tree"

git -C "$root" archive --format=tar HEAD | tar -xf - -C "$tree"
tar -C "$out" -cJf "$out/ferry_$version.orig.tar.xz" "ferry-$version"
cp -r "$root/packaging/debian" "$tree/debian"
# Packages are for the Python of Debian, whatever else is in PATH.
(cd "$tree" && PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg-buildpackage -us -uc >"$out/build.log" 2>&1) || { tail -n 40 "$out/build.log"; exit 1; }
lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$out/ferry_$version-1_$(dpkg --print-architecture).changes"

. /etc/os-release
cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    mmdebstrap --quiet --variant=minbase --include=gcc,libc6-dev,pkg-config,python3-minimal "$VERSION_CODENAME" "$bare" -
mkdir "$bare/packages"
cp "$out"/*.deb "$bare/packages"
cp "$tree/examples/vector_add.c" "$tree/examples/vector_add.json" "$bare/packages"
chroot "$bare" apt-get update -qq
chroot "$bare" sh -ec 'DEBIAN_FRONTEND=noninteractive apt-get install -y -qq /packages/*.deb >/dev/null'
chroot "$bare" sh -ec '
    cd /packages
    ferry-gen kernels vector_add.json -o vector_add_kernels.h
    cc -std=c99 -D_GNU_SOURCE -I. vector_add.c -o vector_add $(pkg-config --cflags --libs ferry)
    FERRY_DEVICE=host ./vector_add
    ferry info
    ferry bench --help >help.txt
    test -s help.txt
    python3 -c "import ferry; print(ferry.__file__)"'
echo "Debian: the packages build, pass lintian, and work in a bare chroot"
