#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds and runs the consumer's project in a temporary folder, with Ferry as a subproject and with an installed Ferry,
# which Meson finds by pkg-config and CMake by its package, also where it was moved to.
# Also: a change of a template or of a type file reaches what depends on it, and the installed generator may be moved.
# usage: run.sh [BUILD-FOLDER]: what is installed is this folder's library, or else one that is built for it.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
export POCL_CACHE_DIR="$temporary/pocl"
# What is tried is how a project takes Ferry; how fast it is then, is not.
quick="-Dbuildtype=plain"

# shellcheck source=packaging/steps.sh
. "$root/packaging/steps.sh"
log=$temporary/log

copy_consumer() {
    mkdir -p "$1"
    cp -R "$here/meson.build" "$here/CMakeLists.txt" "$here/program.c" "$here/mylib" "$here/yourlib" "$here/subprojects" "$1"
}

contains() {
    grep -q "$1" "$2" || die "no '$1' in $2"
}

# The program ran on each device, on OpenCL where the machine has it, and the texts for devices compile where a compiler is.
passes_devices() { # NAME
    contains '^Ok: *[345]' "$log"
    contains '^Fail: *0' "$log"
    ok "$1: builds and passes"
    if grep -q ' opencl  *OK' "$log"; then ok "$1: runs a kernel of its type on OpenCL"; else echo "skipped: $1 on OpenCL, which is not there"; fi
}

# A copy, so that the templates can be changed.
copy_ferry() {
    mkdir -p "$1"
    for entry in meson.build meson_options.txt LICENSE cmake gen templates include src fortran mpi cli python docs; do
        cp -R "$root/$entry" "$1"
    done
}

# The folders of headers of the consumer's program, in its build folder.
headers_of() { # NAME BUILD-FOLDER ROOT-OF-FERRY...
    name=$1 folder=$2
    shift 2
    run python3 "$here/headers.py" "$folder" program.c "$@"
    ok "$name: hides no header"
}

as_subproject() {
    project=$temporary/subproject
    build=$project/build
    ferry=$project/subprojects/ferry
    copy_consumer "$project"
    copy_ferry "$ferry"
    mpi=$(command -v mpicc >/dev/null && echo enabled || echo disabled)
    run meson setup "$build" "$project" --force-fallback-for=ferry,ferry-mpi -Dferry:mpi="$mpi" -Dferry:cli=disabled -Dferry:toolkit_root=/nowhere $quick \
        ${FERRY_GENERATOR_PYTHON:+-Dferry:generator_python="$FERRY_GENERATOR_PYTHON"}
    run meson test -C "$build" --no-suite ferry
    passes_devices "as a subproject"
    [ "$(find "$build/subprojects/ferry" -name '*.f90' | wc -l)" -eq 0 ] || die "modules of Fortran are written, and nothing needs them"
    headers_of "as a subproject" "$build" "$ferry" "$build/subprojects/ferry"

    printf '/* changed template */\n' >>"$ferry/templates/typed.h.j2"
    run meson compile -C "$build"
    contains 'changed template' "$build/mylib/vec3_buffer.h"
    contains 'changed template' "$build/yourlib/uint16_buffer.h"
    contains 'changed template' "$build/subprojects/ferry/include/ferry/float.h"
    ok "as a subproject: a changed template rebuilds"

    sed 's|"kind": "struct",|"kind": "struct", "cuda_declaration": "/* changed type */ struct mylib_vec3 { float x, v[2]; };",|' \
        "$project/mylib/vec3.json" >"$temporary/vec3.json"
    cp "$temporary/vec3.json" "$project/mylib/vec3.json"
    run meson compile -C "$build"
    contains 'changed type' "$build/mylib/vec3_buffer.h"
    printf '# changed module\n' >>"$ferry/gen/ferry_types.py"
    [ "$(ninja -C "$build" -n | grep -c 'Generating.*_buffer\.h')" -gt 0 ] || die "a changed module rebuilds nothing"
    ok "as a subproject: a changed type file and a changed module rebuild"
}

as_installed() {
    prefix=$temporary/prefix
    project=$temporary/installed
    copy_consumer "$project"
    built=$1
    if [ -z "$built" ]; then
        built=$temporary/ferry
        run meson setup "$built" "$root" --prefix "$prefix" \
            -Dtests=disabled -Dexamples=disabled -Dbench=disabled -Dcli=disabled -Dmpi=disabled -Dpython=disabled -Dtoolkit_root=/nowhere $quick \
            ${FERRY_GENERATOR_PYTHON:+-Dgenerator_python="$FERRY_GENERATOR_PYTHON"}
    fi
    # Into a stage, and from there to the prefix: the folder may be for another one.
    DESTDIR=$temporary/stage run meson install -C "$built" --skip-subprojects --strip
    libdir=$(dirname "$(dirname "$(find "$temporary/stage" -name ferry.pc)")")
    configured=$(realpath "$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --variable=prefix ferry)")
    case $configured in
        "$(realpath "$temporary")"/*) ;;
        *) die "ferry.pc names $configured instead of its own folder: meson configure $built -Dpkgconfig.relocatable=true" ;;
    esac
    libdir=$prefix${libdir#"$configured"}
    mv "$configured" "$prefix"
    PKG_CONFIG_PATH=$libdir/pkgconfig run meson setup "$project/build" "$project" --wrap-mode nofallback
    LD_LIBRARY_PATH=$libdir run meson test -C "$project/build"
    passes_devices "installed"
    headers_of "installed" "$project/build" "$prefix"

    if grep -rqF "$root" "$prefix/bin" "$prefix/share" "$prefix/include"; then
        die "an installed file names the source folder: $(grep -rlF "$root" "$prefix/bin" "$prefix/share" "$prefix/include")"
    fi
}

# Projects in other languages, with the C library mylib in the same process.
as_language() { # FOLDER COMPILER
    if ! command -v "$2" >/dev/null; then
        echo "skipped: the project in $1, because $2 is not installed"
        return
    fi
    project=$temporary/$1
    mkdir -p "$project"
    cp -R "$here/$1/." "$here/mylib" "$project"
    PKG_CONFIG_PATH=$libdir/pkgconfig run meson setup "$project/build" "$project" --wrap-mode nofallback
    LD_LIBRARY_PATH=$libdir run meson test -C "$project/build"
    contains '^Ok: *3' "$log"
    ok "installed: the project in $1 exchanges buffers with the C library"
}

# The first block of the language in docs/install.md, or the given one, which may be part of a list.
of_document() { # LANGUAGE [NUMBER]
    awk -v fence='```'"$1" -v number="${2:-1}" '$1 == "```" { inside = 0 } inside { print } $1 == fence { inside = ++seen == number }' \
        "$root/docs/install.md"
}

# "A type of your own" as it stands there, with the installed Ferry.
as_documented() {
    project=$temporary/documented
    mkdir -p "$project"
    of_document json >"$project/vec3.json"
    of_document c >"$project/vec3.h"
    { echo "project('documented', 'c')"; of_document meson; of_document meson 2; echo "executable('other', 'program.c', dependencies: mylib_dep)"; } \
        >"$project/meson.build"
    printf '#include "vec3_buffer.h"\nint main(void) { return mylib_vec3_count((mylib_vec3_buffer){0}) != 0; }\n' >"$project/program.c"
    PKG_CONFIG_PATH=$libdir/pkgconfig run meson setup "$project/build" "$project"
    run meson compile -C "$project/build"
    LD_LIBRARY_PATH=$libdir run "$project/build/program"
    ok "installed: the type of docs/install.md builds and runs"

    if ! command -v cmake >/dev/null; then
        echo "skipped: the CMake of docs/install.md, because cmake is not installed"
        return
    fi
    of_document cmake >"$project/CMakeLists.txt"
    run cmake -S "$project" -B "$project/made" -DCMAKE_PREFIX_PATH="$prefix"
    run cmake --build "$project/made"
    LD_LIBRARY_PATH=$libdir run "$project/made/program"
    ok "installed: the same with CMake"
}

# The consumer's libraries and program with CMake, from where Ferry lies.
with_cmake() {
    if ! command -v cmake >/dev/null; then
        echo "skipped: $1, because cmake is not installed"
        return
    fi
    project=$temporary/cmake-$3
    copy_consumer "$project"
    run cmake -S "$project" -B "$project/build" -DCMAKE_PREFIX_PATH="$2" -DCMAKE_C_FLAGS=-Werror -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
    run cmake --build "$project/build"
    run sh -c "cd '$project/build' && ctest --output-on-failure"
    contains '100% tests passed, 0 tests failed out of 4' "$log"
    sed 's|"kind": "struct",|"kind": "struct", "cuda_declaration": "/* changed type */ struct mylib_vec3 { float x, v[2]; };",|' \
        "$project/mylib/vec3.json" >"$temporary/vec3.json"
    cp "$temporary/vec3.json" "$project/mylib/vec3.json"
    run cmake --build "$project/build"
    contains 'changed type' "$project/build/mylib.ferry/mylib/vec3_buffer.h"
    ok "$1"
    headers_of "$1" "$project/build" "$2"
    cmake_refuses "$2" 'ferry_generate(TARGET nothing TYPES x.json)' "TARGET: is 'nothing'"
    cmake_refuses "$2" 'ferry_generate(TARGET t TYPES x.json)' 'x.json: there is no such file'
    cmake_refuses "$2" 'ferry_generate(TARGET t TYPE x.json)' "unknown arguments 'TYPE;x.json'"
    cmake_refuses "$2" 'find_package(ferry 1.0 REQUIRED)' 'requested version "1.0"'
    cmake_refuses "$2" 'find_package(ferry REQUIRED COMPONENTS nosuch)' "there is no component 'nosuch'"
    ok "$1: misuse is named"
}

# A line that CMake refuses, and words of its message, which it wraps.
cmake_refuses() {
    mkdir -p "$temporary/refused"
    { printf 'cmake_minimum_required(VERSION 3.20)\nproject(refused C)\nfind_package(ferry REQUIRED)\n'
      printf 'add_executable(t t.c)\n%s\n' "$2"; } >"$temporary/refused/CMakeLists.txt"
    echo 'int main(void) { return 0; }' >"$temporary/refused/t.c"
    if cmake -S "$temporary/refused" -B "$temporary/refused/build" -DCMAKE_PREFIX_PATH="$1" >"$log" 2>&1; then
        die "CMake takes: $2"
    fi
    tr -s ' \n' ' ' <"$log" | grep -qF "$3" || { cat "$log" >&2; die "no '$3' for: $2"; }
}

# Meson finds the CMake package, and in it the variables of the pkg-config file.
without_pkg_config() { # PREFIX
    if ! command -v cmake >/dev/null; then
        echo "skipped: Meson with the CMake package, because cmake is not installed"
        return
    fi
    PKG_CONFIG_LIBDIR=/nowhere PKG_CONFIG_PATH='' run meson setup "$temporary/by_cmake" "$temporary/documented" --cmake-prefix-path "$1"
    run meson compile -C "$temporary/by_cmake"
    LD_LIBRARY_PATH=$libdir run "$temporary/by_cmake/program"
    ok "moved: Meson finds the CMake package and its generator"
}

as_moved() {
    with_cmake "installed: builds and passes with CMake" "$prefix" installed
    mv "$prefix" "$temporary/moved"
    libdir=$temporary/moved${libdir#"$prefix"}
    with_cmake "moved: builds and passes with CMake" "$temporary/moved" moved
    without_pkg_config "$temporary/moved"
    PKG_CONFIG_PATH=$libdir/pkgconfig run meson setup "$temporary/by_pkg_config" "$temporary/installed" --wrap-mode nofallback
    headers_of "moved: found by pkg-config" "$temporary/by_pkg_config" "$temporary/moved"
    run "$temporary/moved/bin/ferry-gen" header "$temporary/installed/mylib/vec3.json" -o "$temporary/vec3_buffer.h"
    cmp -s "$temporary/vec3_buffer.h" "$temporary/installed/build/mylib/vec3_buffer.h" || die "the moved generator writes something else"
    ok "installed: the generator works from where it was moved"
}

as_subproject
as_installed "${1:-}"
as_language cpp c++
as_language fortran gfortran
as_documented
as_moved
printf '%d passed, 0 failed\n' "$passed"
