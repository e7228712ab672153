#!/bin/sh
# SPDX-License-Identifier: MIT
# A build folder installs what a program without Meson needs: headers, library, pkg-config file, generator, and a command that runs
# from any folder.
# usage: installed.sh BUILD-FOLDER [--static]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$1
static=${2:-}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

DESTDIR=$stage meson install -C "$build" --no-rebuild --skip-subprojects --quiet
pc=$(find "$stage" -name ferry.pc)
libdir=$(dirname "$(dirname "$pc")")
# What the file says is where it is, so that the staged tree is a prefix by itself.
staged=$(realpath "$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --variable=prefix ferry)")
case $staged in
    "$(realpath "$stage")"/*) ;;
    *) echo "ferry.pc names $staged instead of its own folder: meson configure $build -Dpkgconfig.relocatable=true"; exit 1 ;;
esac

unset LD_LIBRARY_PATH
export PKG_CONFIG_PATH="$libdir/pkgconfig"
export FERRY_DEVICE=host FERRY_CUDA_LIBRARY=/dev/null/absent/libcuda.so.1
flags=$(pkg-config ${static:+--static} --cflags --libs ferry)
generator=$(pkg-config --variable=ferry_gen ferry)
"$generator" kernels "$root/examples/vector_add.json" -o "$stage/vector_add_kernels.h"
# shellcheck disable=SC2086 # a list of flags
${CC:-cc} -std=c99 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$stage" "$root/examples/vector_add.c" -o "$stage/vector_add" $flags
LD_LIBRARY_PATH="$libdir" "$stage/vector_add"
if [ -n "$static" ] && ldd "$stage/vector_add" | grep -q libferry; then
    echo "a static build linked the shared library"
    exit 1
fi

for file in man/man1/ferry.1 man/man1/ferry-gen.1 bash-completion/completions/ferry bash-completion/completions/ferry-gen \
    zsh/site-functions/_ferry zsh/site-functions/_ferry-gen; do
    [ -s "$staged/share/$file" ] || {
        echo "share/$file is not installed"
        exit 1
    }
done

# ferry-mpi has a pkg-config file and a component of the CMake package by itself.
if [ -e "$libdir/pkgconfig/ferry-mpi.pc" ]; then
    mpi_flags=$(pkg-config ${static:+--static} --cflags --libs ferry-mpi)
    "$generator" kernels "$root/examples/halo/halo.json" -o "$stage/halo_kernels.h"
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c99 -Wall -Wextra -Werror -I"$stage" "$root/examples/halo/halo.c" -o "$stage/halo" $mpi_flags
    LD_LIBRARY_PATH="$libdir" "$stage/halo" --plan 4 10 10 1 >/dev/null
    if command -v cmake >/dev/null; then
        mkdir "$stage/with_cmake"
        printf '%s\n' 'cmake_minimum_required(VERSION 3.20)' 'project(halo C)' 'find_package(ferry REQUIRED COMPONENTS mpi)' \
            "add_executable(halo \"$root/examples/halo/halo.c\")" "target_include_directories(halo PRIVATE \"$stage\")" \
            'target_link_libraries(halo PRIVATE ferry::mpi)' >"$stage/with_cmake/CMakeLists.txt"
        cmake -S "$stage/with_cmake" -B "$stage/with_cmake/build" -DCMAKE_PREFIX_PATH="$staged" >/dev/null
        cmake --build "$stage/with_cmake/build" >/dev/null
        LD_LIBRARY_PATH="$libdir" "$stage/with_cmake/build/halo" --plan 4 10 10 1 >/dev/null
    fi
fi

# runs_from PREFIX: the command finds its library in the same prefix by itself, and no other that the system may have.
runs_from() {
    "$1/bin/ferry" info --json >/dev/null
    echo '[]' | "$1/bin/ferry" trace - | grep -q '^0 events' || {
        echo "the command in $1 does not find its reports"
        exit 1
    }
    [ -n "$static" ] || ldd "$1/bin/ferry" | grep libferry | grep -q "$1/" || {
        echo "the command in $1 uses another library: $(ldd "$1/bin/ferry" | grep libferry)"
        exit 1
    }
}
runs_from "$staged"
printf '%s\n' '{"ferry": 1, "prefix": "my", "name": "half", "c_type": "short", "header": "my/half.h", "kind": "int", "bits": 16}' \
    >"$stage/half.json"
"$generator" check "$stage/half.json"
"$generator" header "$stage/half.json" -o "$stage/half.h"
printf '#include "half.h"\nextern my_half_buffer used;\n' |
    ${CC:-cc} -std=c99 -Wall -Wextra -Werror -fsyntax-only -I"$stage" $flags -x c -
mv "$staged" "$stage/moved prefix"
runs_from "$stage/moved prefix"
echo "installed: headers, library, pkg-config file, command and generator work"
