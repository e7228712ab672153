#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Ferry for another C library or processor, and runs tests there.
# usage: cross.sh fetch FOLDER      fetches the source of cmocka; exit status 77: it is not there to be fetched
#        cross.sh MACHINE FOLDER    MACHINE is the name of a file in packaging/cross/; the last line is "N passed, N failed"
#        cross.sh library MACHINE FOLDER    compiles the library alone, which needs no cmocka
# Debian has no cmocka for other C libraries, so that it is compiled from the source that subprojects/cmocka.wrap names.
set -eu
only=
[ "$1" != library ] || { only=library; shift; }
machine=$1
mkdir -p "$2"
shared=$(cd "$2" && pwd)
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

of_wrap() { sed -n "s/^$1 = //p" "$root/subprojects/cmocka.wrap"; }
archive=$shared/$(of_wrap source_filename)

is_whole() { printf '%s  %s\n' "$(of_wrap source_hash)" "$1" | sha256sum --check --quiet >/dev/null 2>&1; }

# Mirrors of Debian have it under a name of theirs. The program of apt fetches, so that its proxy is respected.
fetch() {
    ! is_whole "$archive" || return 0
    kept=$root/subprojects/packagecache/${archive##*/}
    ! is_whole "$kept" || { cp "$kept" "$archive"; return 0; }
    version=$(of_wrap directory)
    mirror=$(apt-get download --print-uris libcmocka-dev | sed -n "s#^'\(.*\)/[^/]*' .*#\1#p") || mirror=
    for address in ${mirror:+"$mirror/cmocka_${version#cmocka-}.orig.tar.xz"} "$(of_wrap source_url)" "$(of_wrap source_fallback_url)"; do
        ! /usr/lib/apt/apt-helper -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o Acquire::Retries=0 \
            download-file "$address" "$archive" "SHA256:$(of_wrap source_hash)" || return 0
    done
    return 77
}

# build_cmocka COMPILER
build_cmocka() {
    mkdir -p "$cmocka/lib/pkgconfig"
    tar -xf "$archive" -C "$cmocka" --strip-components 1
    "$1" -O2 -I"$cmocka/include" -DHAVE_INTTYPES_H=1 -DHAVE_STDINT_H=1 -DHAVE_SIGNAL_H=1 -DHAVE_STRUCT_TIMESPEC=1 \
        -DHAVE_CLOCK_REALTIME=1 -DHAVE_CLOCK_GETTIME=1 -DHAVE_TIME_H=1 -DHAVE_UNISTD_H=1 -DHAVE_STRSIGNAL=1 -DHAVE_STRINGS_H=1 \
        -c "$cmocka/src/cmocka.c" -o "$cmocka/lib/cmocka.o"
    ar rcs "$cmocka/lib/libcmocka.a" "$cmocka/lib/cmocka.o"
    cat >"$cmocka/lib/pkgconfig/cmocka.pc" <<END
Name: cmocka
Description: unit tests
Version: $(of_wrap directory | sed 's/^cmocka-//')
Cflags: -I$cmocka/include
Libs: -L$cmocka/lib -lcmocka
END
}

# set_up FOLDER OPTIONS...
set_up() {
    into=$1; shift
    # Not -O1: there gcc 12 for ARM loses calls of functions that write through a pointer (-fno-ivopts keeps them).
    [ -e "$into/build.ninja" ] ||
        meson setup "$into" "$root" "$@" --cross-file "$description" -Dwerror=true -Doptimization=2 \
            -Dbench=disabled -Dexamples=disabled -Dpython=disabled -Dcpp=disabled -Dfortran=disabled -Dmpi=disabled -Dsundials=disabled \
            -Dtoolkit_root=/nowhere
}

build_library() {
    set_up "$folder/library" -Dtests=disabled -Dcli=disabled
    meson compile -C "$folder/library"
}

build() {
    [ -e "$cmocka/lib/pkgconfig/cmocka.pc" ] || build_cmocka "$(sed -n "s/^c = '\(.*\)'/\1/p" "$description")"
    # pkg-config knows cmocka alone: what else this machine has is for this machine.
    printf "[properties]\npkg_config_libdir = '%s'\n" "$cmocka/lib/pkgconfig" >"$folder/cmocka.ini"
    set_up "$folder/build" --cross-file "$folder/cmocka.ini"
    meson compile -C "$folder/build"
}

# Not for qemu: tests of very many calls, which take minutes there; those that start a program of theirs again, which needs qemu too;
# forks beside threads, which qemu does not survive; and memory that was given back, which qemu keeps.
not_emulated='shared on .*|fault|callbacks on .*|device suite on cuda .*|exit on .*|histories are told|ptx of the buffer tests|fork on .*|many on .*'

# Names of tests, one a line. One kind of device is enough for qemu, where all takes ten times as long.
chosen_tests() {
    case $machine in
        aarch64-*)
            meson test -C "$folder/build" --no-rebuild --list --suite unit --suite device --suite buffer --suite exchange --suite process \
                --suite misuse --no-suite again --no-suite same_threads --no-suite gpu --no-suite faulting ;;
        *)
            meson test -C "$folder/build" --no-rebuild --list --suite unit --suite device --suite buffer --suite convert --suite exchange \
                --suite process --suite misuse ;;
    esac | sed -n 's#^ferry:.* / ##p' | sort -u | case $machine in
        aarch64-*) grep -vxE "$not_emulated" ;;
        *) cat ;;
    esac
}

play() {
    chosen_tests >"$folder/names"
    set --
    while read -r name; do set -- "$@" "$name"; done <"$folder/names"
    rm -f "$folder"/build/meson-logs/testlog*.json
    # A program that a test compiles needs cmocka as well. How each test ended is counted below.
    HISTORIES_CFLAGS="-I$cmocka/include -L$cmocka/lib" MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824 \
        meson test -C "$folder/build" --no-rebuild -t 4 "$@" >"$folder/tests.log" 2>&1 || true
    : >"$folder/sums"
    python3 "$root/tests/summary.py" "$machine" "$folder/sums" "$folder"/build/meson-logs/testlog*.json || true
    awk '{ passed += $1; failed += $2 }
         END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$folder/sums"
}

if [ "$machine" = fetch ]; then
    fetch
    exit
fi
description=$root/packaging/cross/$machine.ini
folder=$shared/$machine
cmocka=$folder/cmocka
mkdir -p "$folder"
if [ "$only" = library ]; then
    build_library
else
    build
    play
fi
