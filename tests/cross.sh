#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Ferry for another machine or C library, and runs tests there.
# usage: cross.sh MACHINE FOLDER    MACHINE is the name of a file in packaging/cross/
# The last line is "N passed, N failed". cmocka is built from the source that subprojects/cmocka.wrap names, as Debian's mirrors
# have it.
set -eu
machine=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
file=$root/packaging/cross/$machine.ini
compiler=$(sed -n "s/^c = '\(.*\)'/\1/p" "$file")
cmocka=$folder/cmocka

# The mirror is the one that apt uses, and apt's program fetches, so that a proxy of apt's is respected.
fetch_cmocka() {
    hash=$(sed -n 's/^source_hash = //p' "$root/subprojects/cmocka.wrap")
    source=$(sed -n 's/^source_filename = cmocka-\(.*\)\.tar\.xz/\1/p' "$root/subprojects/cmocka.wrap")
    mirror=$(apt-get download --print-uris libcmocka-dev | sed -n "s#^'\(.*\)/[^/]*' .*#\1#p")
    /usr/lib/apt/apt-helper download-file "$mirror/cmocka_$source.orig.tar.xz" "$cmocka/cmocka.tar.xz" "SHA256:$hash"
    tar -xf "$cmocka/cmocka.tar.xz" -C "$cmocka" --strip-components 1
}

build_cmocka() {
    mkdir -p "$cmocka/lib/pkgconfig"
    fetch_cmocka
    "$compiler" -O2 -I"$cmocka/include" -DHAVE_INTTYPES_H=1 -DHAVE_STDINT_H=1 -DHAVE_SIGNAL_H=1 -DHAVE_STRUCT_TIMESPEC=1 \
        -DHAVE_CLOCK_REALTIME=1 -DHAVE_CLOCK_GETTIME=1 -DHAVE_TIME_H=1 -DHAVE_UNISTD_H=1 -DHAVE_STRSIGNAL=1 -DHAVE_STRINGS_H=1 \
        -c "$cmocka/src/cmocka.c" -o "$cmocka/lib/cmocka.o"
    ar rcs "$cmocka/lib/libcmocka.a" "$cmocka/lib/cmocka.o"
    cat >"$cmocka/lib/pkgconfig/cmocka.pc" <<END
Name: cmocka
Description: unit tests
Version: 1.1.7
Cflags: -I$cmocka/include
Libs: -L$cmocka/lib -lcmocka
END
}

[ -e "$cmocka/lib/pkgconfig/cmocka.pc" ] || build_cmocka
# pkg-config knows cmocka alone: what else this machine has is for this machine.
printf "[properties]\npkg_config_libdir = '%s'\n" "$cmocka/lib/pkgconfig" >"$folder/cmocka.ini"
[ -e "$folder/build/build.ninja" ] ||
    meson setup "$folder/build" "$root" --cross-file "$file" --cross-file "$folder/cmocka.ini" -Dwerror=true -Doptimization=1 \
        -Dbench=disabled -Dpython=disabled -Dcpp=disabled -Dfortran=disabled -Dmpi=disabled -Dsundials=disabled -Dtoolkit_root=/nowhere
meson compile -C "$folder/build"

# A program that a test compiles needs cmocka as well.
export HISTORIES_CFLAGS="-I$cmocka/include -L$cmocka/lib"
case $machine in
    # qemu runs threads one after the other where it must, and its system calls are slow: one kind of device for each test.
    aarch64*) set -- --suite unit --suite device --suite buffer --no-suite again --no-suite same_threads ;;
    *) set -- --suite unit --suite device --suite buffer --suite convert --suite exchange --suite process --suite misuse ;;
esac
rm -f "$folder"/build/meson-logs/testlog.json
MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824 \
    meson test -C "$folder/build" --no-rebuild -t 4 "$@" >"$folder/tests.log" 2>&1 || true # the counts below say how it went
: >"$folder/sums"
python3 "$root/tests/summary.py" "$machine" "$folder/sums" "$folder/build/meson-logs/testlog.json" || tail -n 60 "$folder/tests.log"
awk '{ passed += $1; failed += $2 }
     END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$folder/sums"
