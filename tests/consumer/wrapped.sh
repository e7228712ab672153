#!/bin/sh
# SPDX-License-Identifier: MIT
# The consumer's project takes Ferry through a wrap, from the tarball in its package cache, without a network.
# Its libraries generate buffers of their own structs with the subproject's generator.
# usage: wrapped.sh TARBALL WRAP-FILE
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
tarball=$1
wrap=$2
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
export http_proxy=http://localhost:9 https_proxy=http://localhost:9

# shellcheck source=packaging/steps.sh
. "$root/packaging/steps.sh"
log=$temporary/log

project() { # NAME: a copy of the consumer with the wrap
    project=$temporary/$1
    mkdir -p "$project/subprojects/packagecache"
    cp -R "$here/meson.build" "$here/program.c" "$here/mylib" "$here/yourlib" "$project"
    cp "$wrap" "$project/subprojects/ferry.wrap"
}

configure() {
    meson setup "$project/build" "$project" --force-fallback-for=ferry,ferry-mpi -Dbuildtype=plain -Dferry:toolkit_root=/nowhere \
        ${FERRY_GENERATOR_PYTHON:+-Dferry:generator_python="$FERRY_GENERATOR_PYTHON"} "$@"
}

project wrapped
cp "$tarball" "$project/subprojects/packagecache"
run configure
run meson test -C "$project/build" --no-suite ferry
grep -q '^Ok: *[345]' "$log" || die "the consumer's tests did not pass"
[ -s "$project/build/mylib/vec3_buffer.h" ] || die "no buffer of a struct was generated"

# The wrap also provides ferry-mpi, where it is enabled.
if command -v mpicc >/dev/null; then
    project mpi
    cp "$tarball" "$project/subprojects/packagecache"
    printf "dependency('ferry-mpi', default_options: ['mpi=enabled'])\n" |
        cat - "$here/meson.build" | awk '/^dependency/ { held = $0; next } { print } /^\)$/ && held { print held; held = "" }' >"$project/meson.build"
    run configure
    grep -q 'Dependency ferry-mpi found: YES' "$log" || { grep mpi "$log" >&2; die "the wrap does not provide ferry-mpi"; }
fi

# A tarball with other bytes is refused.
project changed
{ cat "$tarball"; echo; } >"$project/subprojects/packagecache/$(basename "$tarball")"
if configure >"$log" 2>&1; then
    die "Meson takes a tarball whose hash is not that of the wrap"
fi
grep -qi 'hash' "$log" || { tail -n 20 "$log" >&2; die "the refusal does not name the hash"; }
echo "wrap: the consumer's project builds and passes with it, and a changed tarball is refused"
