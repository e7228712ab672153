# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# Read by `dev`: the stages of `./dev check` and `./dev fuzz`.

# What another device of the same test plays as well is left out of these builds, where all takes longer; --long plays it.
once="--no-suite again"

# whole_or ARGUMENTS-OF-PLAYED...: --long builds all of a folder, where the warnings of its compiler are errors; else only what runs.
whole_or() { [ "$long" = yes ] || printf '%s ' "$@"; }

# By clang and without the toolkit: analysers and fuzzers take this build too, the latter with the counters of its branches.
check_address() {
    suites="unit device buffer exchange process misuse"
    CC=clang played=$(whole_or --suite "$suites" "$once" --folder examples cli tests/fuzz) build_stage "address+undefined" "$checks/address" -Db_sanitize=address,undefined -Db_lundef=false \
        -Dwerror=true -Doptimization=1 -Dcuda=disabled -Dmpi=disabled -Dsundials=disabled -Dfuzz=true \
        -Dc_args="-gline-tables-only -fno-sanitize-recover=all -fno-omit-frame-pointer -fsanitize-coverage=inline-8bit-counters,pc-table" || return 1
    check_analysers "$checks/address"
    # shellcheck disable=SC2086
    test_stage "address+undefined" "$checks/address" "$suites" --setup address $once || true
    beside=
    for target in $fuzz_targets types; do # two at a time
        one_case "fuzz $target" run_fuzzer "$checks/address" "$target" 6 &
        if [ -n "$beside" ]; then wait; beside=; else beside=yes; fi
    done
    wait
}

fuzz_targets="cache element_text environment histories import log npy" # what libFuzzer runs; types are for a program in Python

fuzz_build() {
    # shellcheck disable=SC2086
    CC=clang targets=$(printf 'fuzz_%s ' $fuzz_targets) build_stage "fuzz" "$checks/fuzz" -Dfuzz=true -Dwerror=true \
        -Dexamples=disabled -Dbench=disabled -Dcli=disabled -Dmpi=disabled -Dcuda=disabled -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args="-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -fno-omit-frame-pointer"
}

# run_fuzzer FOLDER TARGET SECONDS: finds go to the build folder; what fails is named, and can be given to the target again.
run_fuzzer() {
    mkdir -p "$1/found/$2"
    if [ "$2" = types ]; then
        "$(find_python jinja2)" tests/fuzz/fuzz_types.py tests/fuzz/corpus/types --seconds "$3" --seed "$(date +%j)" --save "$1"
    else
        "$1/tests/fuzz/fuzz_$2" "$1/found/$2" "tests/fuzz/corpus/$2" -max_total_time="$3" -timeout=25 -max_len=4096 \
            -rss_limit_mb=4096 -artifact_prefix="$1/$2-" -print_final_stats=1
    fi
}

command_fuzz() {
    case ${1:-} in
        '') usage >&2; exit 1 ;;
        types) ;;
        *) case " $fuzz_targets " in *" $1 "*) ;; *) usage >&2; exit 1 ;; esac ;;
    esac
    need check
    fuzz_build || exit 1
    run_fuzzer "$checks/fuzz" "$1" "${2:-60}"
}

# Pools that test themselves at every change, by the tests of pools, histories and misuse; --long plays all.
check_pools() {
    CC=gcc targets=$([ "$long" = yes ] || printf checked) build_stage "checked" "$checks/gcc" -Dwerror=true -Ddebug_checks=true \
        -Dbench=disabled -Dexamples=disabled -Dcli=disabled -Dmpi=disabled -Dpython=disabled -Dcpp=disabled -Dfortran=disabled -Dtoolkit_root=/nowhere || return 1
    test_stage "checked" "$checks/gcc" "$([ "$long" = yes ] || printf checked)" -t 2 --no-suite long
}

check_thread() {
    suites="unit device buffer exchange process threads"
    # Programs of suite same_threads have the same threads over each device.
    left_out="--no-suite lazy --no-suite alone $once $([ "$long" = yes ] || printf '%s' '--no-suite same_threads')"
    CC=clang CXX=clang++ played=$(whole_or --suite "$suites" "$left_out") build_stage "thread" "$checks/thread" -Db_sanitize=thread -Db_lundef=false \
        -Dwerror=true -Doptimization=1 -Dexamples=disabled -Dbench=disabled -Dcli=disabled -Dmpi=disabled -Dpython=disabled -Dtoolkit_root=/nowhere || return 1
    # shellcheck disable=SC2086
    test_stage "thread" "$checks/thread" "$suites" --setup thread $left_out
}

# hide_optional FOLDER: hides the tools, libraries and modules that Ferry can do without, for the rest of this shell. The new PATH has
# links to all other programs. Libraries and modules are hidden by files of their names that come first and cannot be loaded.
hide_optional() {
    # -rf on nothing but what this function made.
    [ ! -e "$1/.hidden" ] || rm -rf "$1"
    mkdir -p "$1/bin" "$1/lib" "$1/modules" "$1/pkgconfig"
    : >"$1/.hidden"
    printf '%s\n' "$PATH" | tr : '\n' | while read -r programs; do
        # A compiler that is a link to ccache looks for the real one on the PATH. Of two programs of one name the first stays.
        case $programs in */ccache) ;; /*) ln -s "$programs"/* "$1/bin" 2>/dev/null || true ;; esac
    done
    (cd "$1/bin" && rm -f clang clang[+-]* c++ ./*g++ ./*g++-[0-9]* ./*gfortran* cmake nvcc spin valgrind ./mpi* ./ompi* ./orte*)
    for peer in tcmalloc_minimal.so.4 jemalloc.so.2 mimalloc.so.2; do : >"$1/lib/lib$peer"; done
    for module in numpy jsonschema pytest; do printf 'raise ImportError("hidden")\n' >"$1/modules/$module.py"; done
    # pkg-config knows cmocka alone: no libpng.
    ln -s "$(pkg-config --variable=pcfiledir cmocka)/cmocka.pc" "$1/pkgconfig"
    unset CXX PKG_CONFIG_PATH
    export PATH="$1/bin" LD_LIBRARY_PATH="$1/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PKG_CONFIG_LIBDIR="$1/pkgconfig"
    export PYTHONPATH="$1/modules${PYTHONPATH:+:$PYTHONPATH}" FERRY_NVRTC_LIBRARY=/nowhere
}

# A static release for a machine without anything optional, in a subshell, because what is hidden stays hidden.
check_static() (
    hide_optional "$root/$checks/hidden"
    suites="unit gen gpu headers lint cli examples python"
    left_out="--no-suite alone --no-suite more"
    if CC=gcc played=$(whole_or --suite "$suites" "$left_out" --installed) build_stage "release, static, nothing optional" "$checks/static" -Dwerror=true -Dbuildtype=release -Ddefault_library=static -Dsundials=disabled -Dvalgrind=disabled \
        -Dtoolkit_root=/nowhere -Dbench=disabled; then
        # shellcheck disable=SC2086
        test_stage "release, static, nothing optional" "$checks/static" "$suites" $left_out || true
        one_case "static: installed" sh tests/installed.sh "$checks/static" --static || true
    else
        printf '0 1\n' >>"$logs/sums"
    fi
)

# Ten million steps over all kinds of devices, from a seed of the day.
long_histories() {
    keeping_memory "$checks/static/tests/histories/histories" --operations 10000000 --seed "$(date +%Y%m%d)0000"
}

# What the compiler's own warnings do not see. The folder is built: headers are generated, and Meson noted the commands.
# The paths that the analysers of clang and gcc follow take minutes.
check_analysers() { # FOLDER
    one_case "cppcheck" python3 tests/analysis/analyse.py cppcheck "$1" || true
    one_case "clang-tidy" python3 tests/analysis/analyse.py clang-tidy "$1" '--checks=-clang-analyzer-*' || true
    [ "$long" = no ] || one_case "clang-tidy, all paths" python3 tests/analysis/analyse.py clang-tidy "$1" || true
}

# cmocka is not built for it, but hands over no memory that tests look into. The origin of a value is reported by a build with -fsanitize=memory and -fsanitize-memory-track-origins in c_args; the second alone makes Meson's checks of the compiler fail.
check_memory() {
    CC=clang CXX=clang++ build_stage "memory" "$checks/memory" -Db_sanitize=memory -Db_lundef=false -Dwerror=true \
        -Dexamples=disabled -Dbench=disabled -Dcli=disabled -Dmpi=disabled -Dpython=disabled -Dcuda=disabled \
        -Dc_args=-fno-omit-frame-pointer || return 1
    test_stage "memory" "$checks/memory" "unit device buffer" --setup memory
}

# The library on another C library and on another processor, which qemu emulates.
check_cross() {
    if sh tests/cross.sh fetch "$checks/cross" >"$logs/cross-fetch.log" 2>&1; then
        one_case "musl" sh tests/cross.sh x86_64-linux-musl "$checks/cross" || true
        one_case "aarch64" sh tests/cross.sh aarch64-linux-gnu "$checks/cross" || true
    else
        say "musl, aarch64                      skipped: the source of cmocka cannot be fetched ($logs/cross-fetch.log)"
    fi
}

# OpenCL with the drivers of others.
check_opencl() {
    for driver in intel pocl; do
        if sh tests/opencl.sh fetch "$driver" "$checks/opencl-$driver" >"$logs/opencl-$driver-fetch.log" 2>&1; then
            one_case "OpenCL, $driver" sh tests/opencl.sh "$driver" "$checks/opencl-$driver" "$build" || true
        else
            say "OpenCL, $driver                     skipped: the driver cannot be fetched ($logs/opencl-$driver-fetch.log)"
        fi
    done
}

check_long() {
    if command -v frama-c >/dev/null && command -v why3 >/dev/null; then
        one_case "proof" "$root/dev" prove || true
    fi
    [ ! -x "$checks/static/tests/histories/histories" ] || one_case "ten million steps" long_histories || true
    one_case "wheel" sh tests/python/wheel.sh "$(find_python ensurepip)" || true
    one_case "manylinux wheel" sh python/manylinux.sh "$checks/wheel" "$(find_python ensurepip)" || true
    one_case "dist" sh packaging/try-dist.sh "$checks/dist" || true
    one_case "recipes" sh packaging/check-recipes.sh "$checks/recipes" "$(find_python ensurepip)" || true
    # A chroot needs root. The tests of the library ran before.
    [ "$(id -u)" -ne 0 ] || one_case "Debian packages" env DEB_BUILD_OPTIONS=nocheck sh packaging/try-debian.sh "$checks/debian" || true
    for sanitizer in address thread; do
        one_case "Python, $sanitizer" sh tests/python/sanitized.sh "$checks/python-$sanitizer" "$sanitizer" "$(find_python pytest)" || true
    done
    one_case "random calls in Python" env PYTHONPATH="$build/python" FERRY_CACHE_DIR= FERRY_PYTHON_FUZZ_SECONDS=240 \
        "$(find_python pytest)" tests/python/run.py tests/python/test_fuzz.py || true
    one_case "consumers in Python" sh tests/python/consumers.sh "$build" "$(find_python ensurepip)" || true
    FERRY_LONG=1 test_stage "protocols of Python" "$build" "" -t 10 "everything of the package" || true
    one_case "headers of CUDA" python3 tests/analysis/cuda_headers.py "$checks/cuda-headers" || true
    one_case "PTX for every architecture" python3 tests/analysis/cuda_ptx.py "$build" || true
    check_memory || true
    check_cross
    [ -n "$no_opencl" ] || check_opencl
    test_stage "valgrind" "$build" "unit" --setup valgrind --no-suite faulting || true
    FERRY_LONG=1 test_stage "every float" "$build" "" -t 60 every_float convert convert_device || true
    test_stage "valgrind process" "$build" "process" --setup valgrind_process || true
    test_stage "five times" "$build" "unit device buffer" -t 30 --repeat 5 || true
    FERRY_LONG=1 test_stage "long process" "$build" "process" -t 30 || true
    test_stage "what only --long plays" "$build" "long" -t 10 || true
}

command_check() {
    case ${1:-} in
        --long) long=yes; once= ;;
        '') ;;
        *) usage >&2; exit 1 ;;
    esac
    need check
    [ "$long" = no ] || need long
    want opencl "tests of OpenCL are skipped" # PoCL is OpenCL on the processor; a check of declarations needs the headers
    no_opencl=$([ -z "$(missing_packages opencl)" ] || printf '%s' '--no-suite opencl')
    start_sums
    if build_stage "test" "$build"; then
        # shellcheck disable=SC2086
        test_stage "generators, models, bindings" "$build" "more" $no_opencl || true
        test_stage "clients" "$build" "clients" || true
        [ "$long" = no ] || [ -n "$no_opencl" ] || test_stage "OpenCL, everything" "$build" "opencl-long" || true
        [ "$long" = no ] || one_case "gcc -fanalyzer" python3 tests/analysis/analyse.py gcc "$build" || true
        one_case "exports and layouts" python3 tests/abi/abi.py "$build/src/libferry.so" include/ferry || true
        one_case "shared: installed" sh tests/installed.sh "$build" || true
    fi
    check_pools || true
    check_address || true
    check_thread || true
    check_static
    one_case "gpu over fakecuda" "$root/dev" gpu --fake || true
    one_case "consumers" sh tests/consumer/run.sh "$build" || true
    one_case "wraps" sh tests/wraps.sh || true
    # Lines for other processors, which no other stage compiles.
    [ "$long" = yes ] || one_case "library for aarch64" sh tests/cross.sh library aarch64-linux-gnu "$checks/cross" || true
    for model in protocol order lifetime shortages; do
        [ "$long" = no ] || ! command -v spin >/dev/null || one_case "model $model" python3 tests/model/run.py "$model" --large || true
    done
    [ "$long" = no ] || check_long
    finish_sums
}
