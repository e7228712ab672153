# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# Read by `dev`: which packages a command needs, and how a machine gets them.

# Purposes, what is looked for, and Debian's packages that have it. A letter says how it is looked for: c is a command, p
# a module of pkg-config, y modules that one Python has, f a file, h the headers of Python, s clang's sanitizers; | is "or".
# Without dpkg-dev, which it only recommends, Meson installs libraries where Debian does not look for them.
cc=${CC:-cc}
dem=/usr/share/matplotlib/mpl-data/sample_data/jacksboro_fault_dem.npz
needed="
base c:meson meson dpkg-dev; c:ninja ninja-build; c:${cc%% *} gcc libc6-dev; c:pkg-config pkg-config; p:cmocka libcmocka-dev
base y:jinja2 python3 python3-jinja2
demo f:$dem python-matplotlib-data
demo,test,check p:libpng libpng-dev; y:numpy python3-numpy
bench y:numpy python3-numpy; c:g++ g++; f:/usr/include/opencv4/opencv2/core.hpp libopencv-core-dev
check c:gcc gcc; c:g++ g++; c:clang clang; c:gfortran gfortran; c:cmake cmake; c:mpicc libopenmpi-dev; c:mpiexec openmpi-bin
check p:fftw3 libfftw3-dev; p:openblas libopenblas-dev; p:lapacke liblapacke-dev; p:gsl libgsl-dev; c:abidw abigail-tools; c:spin spin
check f:/usr/include/sundials/sundials_nvector.h libsundials-dev; y:clang.cindex python3-clang; y:pytest python3-pytest; h: python3-dev
check y:ensurepip python3-venv; y:jsonschema python3-jsonschema; c:valgrind valgrind; c:clang-tidy clang-tidy; c:cppcheck cppcheck; s: clang-rt
check c:aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
long c:x86_64-linux-musl-gcc musl-tools; c:qemu-aarch64 qemu-user
long c:chromium|google-chrome|firefox|firefox-esr chromium; c:doxygen doxygen; c:groff groff; c:zsh zsh; c:dh debhelper; c:dh_python3 dh-python
long y:sphinx,myst_parser,breathe python3-sphinx python3-myst-parser python3-breathe; c:chrpath chrpath; c:lintian lintian
long c:mmdebstrap mmdebstrap; c:clang-14 clang-14; c:llvm-spirv-14 llvm-spirv-14
coverage c:gcov gcc; c:gcovr gcovr
prove c:frama-c frama-c-base; c:why3 why3; c:z3 z3; c:cvc4 cvc4
opencl f:/etc/OpenCL/vendors/pocl*.icd pocl-opencl-icd; f:/usr/lib/*/libOpenCL.so.1|/usr/lib64/libOpenCL.so.1 ocl-icd-libopencl1; f:/usr/include/CL/cl_ext.h opencl-headers
peers f:/usr/lib/*/libtcmalloc_minimal.so.4 libtcmalloc-minimal4; f:/usr/lib/*/libjemalloc.so.2 libjemalloc2
peers f:/usr/lib/*/libmimalloc.so.2 libmimalloc2.0; c:valgrind valgrind"

find_python() { # MODULES, with commas between them
    for candidate in ${FERRY_PYTHON:-} python3 /usr/bin/python3; do
        ! "$candidate" -c "import $1" >/dev/null 2>&1 || { printf '%s\n' "$candidate"; return 0; }
    done
    return 1
}

is_there() { # WHAT, as above
    case $1 in
        *\|*) is_there "${1%%:*}:${1##*|}" || is_there "${1%|*}" ;;
        c:*) command -v "${1#c:}" >/dev/null ;;
        p:*) pkg-config --exists "${1#p:}" 2>/dev/null ;;
        y:*) find_python "${1#y:}" >/dev/null ;;
        f:*) # shellcheck disable=SC2086 # a pattern
            ls ${1#f:} >/dev/null 2>&1 ;;
        h:) find_python "sysconfig, os; os.stat(sysconfig.get_path('include') + '/Python.h')" >/dev/null ;;
        s:) printf 'int main(void) { return 0; }\n' | clang -x c - -fsanitize=address,undefined -o /dev/null >/dev/null 2>&1 ;;
    esac
}

missing_packages() { # PURPOSE...
    for purpose in "$@"; do
        printf '%s\n' "$needed" | grep -E "^[a-z,]*\b$purpose\b[a-z,]* " | sed 's/^[^ ]* //' | tr ';' '\n'
    done | while read -r what packages; do
        is_there "$what" || printf '%s ' "$packages"
    done | if command -v clang >/dev/null; then sed "s/clang-rt/libclang-rt-$(clang -dumpversion | sed 's/\..*//')-dev/"; else sed 's/clang-rt//'; fi
}

can_install() { command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || { command -v sudo >/dev/null && [ -t 0 ]; }; }; }

install_packages() {
    as_root=$([ "$(id -u)" -eq 0 ] || echo sudo)
    can_install || die "these packages are missing. Where there is apt-get, run this once: sudo apt-get install -y --no-install-recommends $*"
    run_logged "install packages" sh -ec "$as_root apt-get update
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $*" || exit 1
}

# need PURPOSE. Twice, because what clang still needs is known only once it is there.
need() {
    for try in 1 2 3; do
        packages=$(missing_packages base "$1")
        [ -n "$packages" ] || return 0
        [ $try -lt 3 ] || die "still missing after installing: $packages"
        # shellcheck disable=SC2086
        install_packages $packages
    done
}

# want PURPOSE WHAT: where it cannot be had, WHAT is left out.
want() {
    packages=$(missing_packages "$1")
    # shellcheck disable=SC2086
    [ -z "$packages" ] || { can_install && (install_packages $packages); } || say "    (going on without $packages: $2)"
}

# A machine without a package manager can be given .deb files and wheels in .deb/; they are unpacked, not installed.
unpack_carried() {
    [ -d .deb ] || return 0
    prefix=$root/$build/prefix
    if [ ! -e "$prefix/.done" ]; then
        mkdir -p "$prefix/bin" "$prefix/python"
        find .deb -name '*.deb' -exec dpkg -x {} "$prefix" \;
        find .deb -name '*.whl' -exec python3 -m zipfile -e {} "$prefix/python" \;
        find "$prefix" -name '*.pc' -exec sed -i "s#=/usr#=$prefix/usr#" {} +
        printf '#!/bin/sh\nexec python3 -m mesonbuild.mesonmain "$@"\n' >"$prefix/bin/meson"
        [ ! -d "$prefix/python/mesonbuild" ] || chmod +x "$prefix/bin/meson"
        : >"$prefix/.done"
    fi
    triplet=$(cc -dumpmachine)
    export PATH="$prefix/bin:$prefix/usr/bin:$PATH"
    export PKG_CONFIG_PATH="$prefix/usr/lib/$triplet/pkgconfig:$prefix/usr/share/pkgconfig:${PKG_CONFIG_PATH:-}"
    export LD_LIBRARY_PATH="$prefix/usr/lib/$triplet:${LD_LIBRARY_PATH:-}" LIBRARY_PATH="$prefix/usr/lib/$triplet:${LIBRARY_PATH:-}"
    export C_INCLUDE_PATH="$prefix/usr/include:${C_INCLUDE_PATH:-}"
    export PYTHONPATH="$prefix/python:$prefix/usr/lib/python3/dist-packages:${PYTHONPATH:-}"
}
