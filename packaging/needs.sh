# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# Read by `dev`: which packages a command needs, and how a machine gets them.

find_python() {
    for candidate in ${FERRY_PYTHON:-} python3 /usr/bin/python3; do
        if "$candidate" -c "import $1" >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

python_headers() {
    for candidate in python3 /usr/bin/python3; do
        ls "$("$candidate" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" 2>/dev/null && return 0
    done
    return 1
}

first_word() { printf "%s\n" "${1%% *}"; }
dem() { ls /usr/share/matplotlib/mpl-data/sample_data/jacksboro_fault_dem.npz 2>/dev/null; }
compiles_sanitized() { # COMPILER: the sanitizers' run-time libraries are separate packages
    printf 'int main(void) { return 0; }\n' | "$1" -x c - -fsanitize=address,undefined -o /dev/null >/dev/null 2>&1
}

clang_runtime() { # named after the version of clang that is installed, or would be
    if command -v clang >/dev/null; then
        version=$(clang -dumpversion)
    else
        version=$(apt-cache show clang 2>/dev/null | sed -n '/^Version:/{ s/^[^0-9]*//; s/^[0-9]*://p; q; }')
    fi
    [ -z "$version" ] || printf 'libclang-rt-%s-dev ' "${version%%.*}"
}

missing_packages() { # PURPOSE
    # Without dpkg-dev, which it only recommends, Meson installs libraries where Debian does not look for them.
    command -v meson >/dev/null || printf 'meson dpkg-dev '
    command -v ninja >/dev/null || printf 'ninja-build '
    command -v "$(first_word "${CC:-cc}")" >/dev/null || printf 'gcc libc6-dev '
    command -v pkg-config >/dev/null || printf 'pkg-config '
    pkg-config --exists cmocka 2>/dev/null || printf 'libcmocka-dev '
    find_python jinja2 >/dev/null || printf 'python3 python3-jinja2 '
    case $1 in
        demo) dem >/dev/null || printf 'python-matplotlib-data ' ;;
    esac
    case $1 in
        demo|test|check)
            pkg-config --exists libpng 2>/dev/null || printf 'libpng-dev '
            find_python numpy >/dev/null || printf 'python3-numpy ' ;;
    esac
    case $1 in
        bench) # peers
            find_python numpy >/dev/null || printf 'python3-numpy '
            command -v g++ >/dev/null || printf 'g++ '
            [ -e /usr/include/opencv4/opencv2/core.hpp ] || printf 'libopencv-core-dev ' ;;
    esac
    case $1 in
        check)
            command -v gcc >/dev/null || printf 'gcc '
            command -v g++ >/dev/null || printf 'g++ '
            command -v clang >/dev/null || printf 'clang '
            command -v gfortran >/dev/null || printf 'gfortran '
            [ -e /usr/include/sundials/sundials_nvector.h ] || printf 'libsundials-dev '
            pkg-config --exists fftw3 2>/dev/null || printf 'libfftw3-dev '
            pkg-config --exists openblas 2>/dev/null || printf 'libopenblas-dev '
            pkg-config --exists lapacke 2>/dev/null || printf 'liblapacke-dev '
            pkg-config --exists gsl 2>/dev/null || printf 'libgsl-dev '
            command -v cmake >/dev/null || printf 'cmake '
            command -v mpicc >/dev/null || printf 'libopenmpi-dev '
            command -v mpiexec >/dev/null || printf 'openmpi-bin '
            find_python clang.cindex >/dev/null || printf 'python3-clang '
            find_python pytest >/dev/null || printf 'python3-pytest '
            python_headers >/dev/null || printf 'python3-dev '
            find_python ensurepip >/dev/null || printf 'python3-venv '
            command -v spin >/dev/null || printf 'spin '
            command -v valgrind >/dev/null || printf 'valgrind '
            command -v clang-tidy >/dev/null || printf 'clang-tidy '
            command -v cppcheck >/dev/null || printf 'cppcheck '
            command -v abidw >/dev/null || printf 'abigail-tools '
            find_python jsonschema >/dev/null || printf 'python3-jsonschema '
            compiles_sanitized clang || clang_runtime ;;
        long) # the site of the documents what opens it, what reads the manual pages and completions, what makes Debian packages, and
              # what builds for another C library and processor
            command -v x86_64-linux-musl-gcc >/dev/null || printf 'musl-tools '
            command -v aarch64-linux-gnu-gcc >/dev/null || printf 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross '
            command -v qemu-aarch64 >/dev/null || printf 'qemu-user '
            command -v chromium >/dev/null || command -v google-chrome >/dev/null || command -v firefox >/dev/null ||
                command -v firefox-esr >/dev/null || printf 'chromium '
            command -v doxygen >/dev/null || printf 'doxygen '
            find_python "sphinx, myst_parser, breathe" >/dev/null || printf 'python3-sphinx python3-myst-parser python3-breathe '
            command -v groff >/dev/null || printf 'groff '
            command -v zsh >/dev/null || printf 'zsh '
            command -v dh >/dev/null || printf 'debhelper '
            command -v dh_python3 >/dev/null || printf 'dh-python '
            command -v chrpath >/dev/null || printf 'chrpath '
            command -v lintian >/dev/null || printf 'lintian '
            command -v mmdebstrap >/dev/null || printf 'mmdebstrap ' ;;
        coverage)
            command -v gcov >/dev/null || printf 'gcc '
            command -v gcovr >/dev/null || printf 'gcovr ' ;;
    esac
}

missing_provers() {
    command -v frama-c >/dev/null || printf 'frama-c-base '
    command -v why3 >/dev/null || printf 'why3 '
    command -v z3 >/dev/null || printf 'z3 '
    command -v cvc4 >/dev/null || printf 'cvc4 '
}

install_packages() {
    line="apt-get install -y --no-install-recommends $*"
    if ! command -v apt-get >/dev/null; then
        die "missing, and no apt-get to install it; on Debian or Ubuntu it would be: sudo $line"
    fi
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        as_root=sudo
    else
        say "dev: these packages are missing, and neither root nor sudo is at hand. Run this once:" >&2
        say "    sudo $line" >&2
        exit 1
    fi
    # shellcheck disable=SC2086 # the line is a list of words
    run_logged "install packages" sh -ec "
        export DEBIAN_FRONTEND=noninteractive
        $as_root apt-get update
        $as_root env DEBIAN_FRONTEND=noninteractive $line" || exit 1
}

# Libraries that the pool is measured against, and their packages.
pool_peers="libtcmalloc_minimal.so.4:libtcmalloc-minimal4 libjemalloc.so.2:libjemalloc2 libmimalloc.so.2:libmimalloc2.0"

# What the pool is measured against, and what counts its instructions. Where they cannot be had those figures are left out.
want_peers() {
    peers=
    for pair in $pool_peers; do
        ls /usr/lib/*/"${pair%%:*}" >/dev/null 2>&1 || peers="$peers ${pair#*:}"
    done
    command -v valgrind >/dev/null || peers="$peers valgrind"
    if [ -n "$peers" ] && command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; then
        # shellcheck disable=SC2086
        (install_packages $peers) || say "    (going on without)"
    fi
}

# PoCL is OpenCL on the processor. The check of our declarations needs the headers.
missing_opencl() {
    ls /etc/OpenCL/vendors/pocl*.icd >/dev/null 2>&1 || printf 'pocl-opencl-icd '
    ls /usr/lib/*/libOpenCL.so.1 >/dev/null 2>&1 || [ -e /usr/lib64/libOpenCL.so.1 ] || printf 'ocl-icd-libopencl1 '
    [ -e /usr/include/CL/cl_ext.h ] || printf 'opencl-headers '
}

# Without it, the tests of OpenCL are skipped.
want_opencl() {
    missing=$(missing_opencl)
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086
    if command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; } && (install_packages $missing); then
        return 0
    fi
    say "    (going on without $missing: tests of OpenCL are skipped)"
}

# Twice, because what clang still needs may be known only once it is there.
need() {
    for _ in 1 2; do
        packages=$(missing_packages "$1")
        [ -n "$packages" ] || return 0
        # shellcheck disable=SC2086
        install_packages $packages
    done
    packages=$(missing_packages "$1")
    [ -z "$packages" ] || die "still missing after installing: $packages"
}

# A machine without a package manager can be given .deb files and wheels in .deb/; they are unpacked, not installed.
unpack_carried() {
    [ -d .deb ] || return 0
    prefix=$root/$build/prefix
    if [ ! -e "$prefix/.done" ]; then
        mkdir -p "$prefix/bin" "$prefix/python"
        for file in .deb/*.deb; do
            [ ! -e "$file" ] || dpkg -x "$file" "$prefix"
        done
        for file in .deb/*.whl; do
            [ ! -e "$file" ] || python3 -m zipfile -e "$file" "$prefix/python"
        done
        find "$prefix" -name '*.pc' -exec sed -i "s#=/usr#=$prefix/usr#" {} +
        if [ -d "$prefix/python/mesonbuild" ]; then
            printf '#!/bin/sh\nexec python3 -m mesonbuild.mesonmain "$@"\n' >"$prefix/bin/meson"
            chmod +x "$prefix/bin/meson"
        fi
        : >"$prefix/.done"
    fi
    triplet=$(cc -dumpmachine)
    export PATH="$prefix/bin:$prefix/usr/bin:$PATH"
    export PKG_CONFIG_PATH="$prefix/usr/lib/$triplet/pkgconfig:$prefix/usr/share/pkgconfig:${PKG_CONFIG_PATH:-}"
    export LD_LIBRARY_PATH="$prefix/usr/lib/$triplet:${LD_LIBRARY_PATH:-}"
    export LIBRARY_PATH="$prefix/usr/lib/$triplet:${LIBRARY_PATH:-}"
    export C_INCLUDE_PATH="$prefix/usr/include:${C_INCLUDE_PATH:-}"
    export PYTHONPATH="$prefix/python:$prefix/usr/lib/python3/dist-packages:${PYTHONPATH:-}"
}

# What a machine without network lacks has to be carried there, in .deb/.
need_for_gpu() {
    packages=$(missing_packages gpu)
    # Without a default route there is no network.
    [ -z "$packages" ] || awk '$2 == "00000000" { found = 1 } END { exit !found }' /proc/net/route || die "missing, and no network to fetch it from: $packages"
    need gpu
}
