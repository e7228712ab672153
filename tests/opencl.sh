#!/bin/sh
# SPDX-License-Identifier: MIT
# Plays the tests of OpenCL with a driver that this machine need not have.
# usage: opencl.sh fetch DRIVER FOLDER          gets the driver; exit status 77: it cannot be had here
#        opencl.sh DRIVER FOLDER BUILD-FOLDER   the last line is "N passed, N failed"
# The driver is "intel", Intel's for processors, from PyPI; or "pocl", a newer PoCL than Debian 12 has, in a chroot with Debian 13, which
# needs root. Both take SPIR-V and have unified shared memory.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

absolute() { mkdir -p "$1" && CDPATH='' cd -- "$1" && pwd; }

# The loader's list of drivers in the wheel names a folder of conda. The runtime needs libsvml, which another wheel has among much else.
fetch_intel() {
    [ ! -e "$folder/icd/intel.icd" ] || return 0
    python3 -m venv "$folder/venv" &&
        "$folder/venv/bin/pip" install --quiet intel-opencl-rt &&
        "$folder/venv/bin/pip" install --quiet --no-deps intel-cmplr-lib-rt || return 77
    mkdir -p "$folder/icd"
    echo "$folder/venv/lib/libintelocl.so" >"$folder/icd/intel.icd"
}

fetch_pocl() {
    [ ! -e "$folder/whole" ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null; then return 77; fi
    mmdebstrap --quiet --variant=minbase --include=pocl-opencl-icd,ocl-icd-libopencl1,libcmocka0 trixie "$folder/trixie" \
        http://deb.debian.org/debian || return 77
    : >"$folder/whole"
}

# Runs a command in the chroot, which has the folders that tests use. Without /sys PoCL finds no memory.
write_wrapper() {
    cat >"$folder/wrapper" <<END
#!/bin/sh
export FERRY_TEST_PLACE="\$PWD"
exec unshare --mount sh -ec '
    for path in /proc /dev /sys "\${TMPDIR:-/tmp}" "$root" "$build"; do
        mkdir -p "$folder/trixie\$path"
        mount --rbind "\$path" "$folder/trixie\$path"
    done
    exec chroot "$folder/trixie" sh -c "cd \"\\\$FERRY_TEST_PLACE\" && exec \"\\\$@\"" sh "\$@"' sh "\$@"
END
    chmod +x "$folder/wrapper"
}

# play MESON-OPTIONS...: plays all tests but those of fakeopencl, which lets calls of PoCL fail.
play() {
    rm -f "$build"/meson-logs/testlog*.json
    meson test -C "$build" --no-rebuild -t 4 --no-suite fakeopencl "$@" >>"$folder/tests.log" 2>&1 || true
    python3 "$root/tests/summary.py" "$driver" "$folder/sums" "$build"/meson-logs/testlog*.json || true
}

# The driver has one device. Where this machine has a driver too, both have one in the tests of two devices, which belong to two platforms.
play_intel() {
    LD_LIBRARY_PATH=$folder/venv/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    OCL_ICD_VENDORS=$folder/icd/ play --suite opencl --suite opencl-long --no-suite opencl-two
    export OCL_ICD_FILENAMES="$folder/venv/lib/libintelocl.so"
    if "$build/tests/device/test_device_platforms"; then
        echo "1 0" >>"$folder/sums"
        play --suite opencl-two
    elif [ $? -ne 77 ]; then
        echo "0 1" >>"$folder/sums"
    fi
}

# The programs of examples are started by Python, which the chroot lacks. With fifty thousand queues this PoCL takes many minutes, and
# after the last command of a queue that a clFinish waited for it may use a queue that was released since, which PoCL 7.0 has mended.
play_pocl() {
    write_wrapper
    play --wrapper "$folder/wrapper" --suite opencl --suite opencl-long --no-suite examples --no-suite opencl-many
}

if [ "$1" = fetch ]; then
    driver=$2
    folder=$(absolute "$3")
    "fetch_$driver"
else
    driver=$1
    folder=$(absolute "$2")
    build=$(absolute "$3")
    : >"$folder/sums"
    : >"$folder/tests.log"
    "play_$driver"
    awk '{ passed += $1; failed += $2 }
         END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$folder/sums"
fi
