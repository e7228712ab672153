#!/bin/sh
# SPDX-License-Identifier: MIT
# A build folder installs what a program without Meson needs: headers, library, pkg-config file, generator, command.
# usage: installed.sh BUILD-FOLDER [--static]
set -eu
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
build=$1
static=${2:-}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

DESTDIR=$stage meson install -C "$build" --no-rebuild --quiet
pc=$(find "$stage" -name ferry.pc)
libdir=$(dirname "$(dirname "$pc")")
prefix=$(sed -n 's/^prefix=//p' "$pc")

export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"
export FERRY_DEVICE=host FERRY_CUDA_LIBRARY=/nonexistent/libcuda.so.1
# The staged prefix is given by hand: --define-prefix would need a prefix one folder above lib/pkgconfig.
flags=$(pkg-config --define-variable=prefix="$stage$prefix" ${static:+--static} --cflags --libs ferry)
# shellcheck disable=SC2086 # a list of flags
${CC:-cc} -std=c99 -D_GNU_SOURCE -Wall -Wextra -Werror "$root/examples/vector_add.c" -o "$stage/vector_add" $flags
"$stage/vector_add"
if [ -n "$static" ] && ldd "$stage/vector_add" | grep -q libferry; then
    echo "a static build linked the shared library"
    exit 1
fi

"$stage$prefix/bin/ferry" info --json >/dev/null
generator=$(pkg-config --define-variable=prefix="$stage$prefix" --variable=ferry_gen ferry)
printf '%s\n' '{"ferry": 1, "prefix": "my", "name": "half", "c_type": "short", "header": "my/half.h", "kind": "int", "bits": 16}' \
    >"$stage/half.json"
"$generator" check "$stage/half.json"
"$generator" header "$stage/half.json" -o "$stage/half.h"
printf '#include "half.h"\nextern my_half_buffer used;\n' |
    ${CC:-cc} -std=c99 -Wall -Wextra -Werror -fsyntax-only -I"$stage" $flags -x c -
echo "installed: headers, library, pkg-config file, command and generator work"
