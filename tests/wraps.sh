#!/bin/sh
# SPDX-License-Identifier: MIT
# Meson takes what is not installed from subprojects/ where its feature is enabled. Otherwise it downloads nothing and says what is missing.
# The test downloads nothing either: in place of the sources that a wrap names there are projects without code.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/tree
mkdir "$tree"
(cd "$root" && tar -cf - --exclude='./build*' --exclude=./.git --exclude='./subprojects/*/*' .) | tar -xf - -C "$tree"
printf "[binaries]\npkgconfig = '/nonexistent'\ncmake = '/nonexistent'\n" >"$stage/nothing-installed.ini"

configure() { # NAME MESON-OPTIONS...; offline, so that a download would fail at once
    name=$1; shift
    log=$stage/$name.log
    http_proxy=http://localhost:9 https_proxy=http://localhost:9 meson setup "$stage/$name" "$tree" \
        -Dbench=disabled -Dcli=disabled -Dcuda=disabled "$@" >"$log" 2>&1 || { echo "$name: cannot be configured"; tail -n 20 "$log"; exit 1; }
}

says() { grep -q -- "$1" "$log" || { echo "$name: Meson does not say \"$1\""; grep -i "depend\|message" "$log"; exit 1; }; }
never_says() { ! grep -- "$1" "$log" || { echo "$name: Meson should not say that"; exit 1; }; }

stand_in() { # NAME DEPENDENCY
    folder=$tree/subprojects/$(sed -n 's/^directory = //p' "$tree/subprojects/$1.wrap")
    mkdir "$folder"
    printf "project('%s', 'c', version: '9')\n%s_dep = declare_dependency(version: '9')\nmeson.override_dependency('%s', %s_dep)\n%s\n" \
        "$1" "$1" "$1" "$1" "$2" >"$folder/meson.build"
}

configure installed -Dtests=enabled -Dexamples=enabled
says 'dependency cmocka found: YES'
says 'dependency libpng found: YES'
never_says 'subproject\|Downloading'

configure missing --native-file "$stage/nothing-installed.ini"
says 'No tests are built, because cmocka is not installed'
says 'hillshade is not built, because libpng is not installed'
never_says 'subproject\|Downloading'

stand_in cmocka ''
stand_in zlib ''
stand_in libpng "dependency('zlib')"
configure fallback --native-file "$stage/nothing-installed.ini" -Dtests=enabled -Dexamples=enabled --force-fallback-for=zlib
for wrap in cmocka libpng zlib; do
    says "Dependency $wrap .*found: YES 9"
done
echo "wraps: used where a feature is enabled and its library is missing, and only there"
