# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# Read by `dev`: the stages that its commands are made of. Each builds a folder, plays tests or runs a command, and prints a line.

# A person sees which stage runs. Its result replaces the line.
announce() { [ ! -t 1 ] || printf '%-34s ...\r' "$1"; }

# run_logged NAME COMMAND...: one line when it works, the end of its log when it does not.
run_logged() {
    stage=$1; shift
    mkdir -p "$logs"
    log=$logs/$(printf '%s' "$stage" | tr -c 'a-zA-Z0-9_\n' '-').log
    began=$(date +%s)
    announce "$stage"
    if "$@" >"$log" 2>&1; then
        printf '%-34s ok  %4d s\n' "$stage" "$(($(date +%s) - began))"
        return 0
    fi
    printf '%-34s FAILED  (%s)\n' "$stage" "$log"
    tail -n 60 "$log" | sed 's/^/    | /'
    return 1
}

# What Meson looks for and can do without: it looks again where this has changed.
found_tools() {
    for tool in clang clang++ cmake doxygen g++ gfortran mpiexec nvcc pytest-3 spin valgrind zsh; do
        command -v "$tool" || true
    done
    pkg-config --list-all 2>/dev/null | sort
    ls -d /usr/include/sundials 2>/dev/null || true
}

# set_up FOLDER MESON-OPTIONS...: configure once; anew when the options change, and again when tools have come.
set_up() {
    folder=$1; shift
    wanted="CC=${CC:-}${CXX:+ CXX=$CXX} $*"
    tools=$(found_tools | cksum)
    if [ -f "$folder/build.ninja" ]; then
        if [ ! -f "$folder/dev-options" ]; then
            return 0
        elif [ "$(cat "$folder/dev-options")" = "$wanted" ]; then
            [ "$(cat "$folder/dev-tools" 2>/dev/null)" != "$tools" ] || return 0
            meson setup --reconfigure "$folder" && printf '%s\n' "$tools" >"$folder/dev-tools"
            return
        fi
        # -rf on nothing but a Meson build folder that this script made.
        [ -d "$folder/meson-private" ] && rm -rf "$folder"
    fi
    mkdir -p "$folder"
    meson setup "$folder" -Dgenerator_python="$(find_python jinja2)" "$@" || return 1
    printf '%s\n' "$wanted" >"$folder/dev-options"
    printf '%s\n' "$tools" >"$folder/dev-tools"
}

build_folder() { # FOLDER MESON-OPTIONS...; all of it, or the $targets alone, or what tests/played.py lists for the options in $played
    set_up "$@" || return 1
    # shellcheck disable=SC2086
    if [ -n "${played-}" ]; then
        files=$(python3 tests/played.py "$1" $played) && ninja -C "$1" $files
    else
        meson compile -C "$1" ${targets-}
    fi
}

# build_stage NAME FOLDER MESON-OPTIONS...
build_stage() {
    name=$1; shift
    run_logged "$name: build" build_folder "$@" || { failed_stages=$((failed_stages + 1)); return 1; }
}

# Emulated memory is filled where it is taken. Given back to the system each time, it would cost more in fresh pages than all tests.
keeping_memory() { MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824 "$@"; }

# test_stage NAME FOLDER SUITES(or "") MESON-TEST-OPTIONS...: prints counts per suite and adds to the sums.
test_stage() {
    name=$1; folder=$2; suites=$3; shift 3
    mkdir -p "$logs"
    log=$logs/$(printf '%s' "$name" | tr -c 'a-zA-Z0-9_\n' '-')-tests.log
    for suite in $suites; do
        set -- "$@" --suite "ferry:$suite"
    done
    announce "$name: tests"
    rm -f "$folder"/meson-logs/testlog*.json # a wrapper's name becomes part of the file's name
    keeping_memory meson test -C "$folder" --no-rebuild "$@" >"$log" 2>&1 || true # the counts below say how it went
    python3 tests/summary.py "$name" "$logs/sums" "$folder"/meson-logs/testlog*.json || {
        say "    (everything: $log)"
        return 1
    }
}

# one_case NAME COMMAND...: a command that counts as one case, or as many as its last line says.
one_case() {
    name=$1; shift
    if run_logged "$name" "$@"; then
        counted=$(tail -n 1 "$log" | sed -n 's/^\([0-9][0-9]*\) passed, 0 failed$/\1/p')
        printf '%d 0\n' "${counted:-1}" >>"$logs/sums"
    else
        printf '0 1\n' >>"$logs/sums"
        return 1
    fi
}

start_sums() { mkdir -p "$logs"; : >"$logs/sums"; }

# The last line of every testing command. A stage that could not even be built is a failure.
finish_sums() {
    while [ "$failed_stages" -gt 0 ]; do
        printf '0 1\n' >>"$logs/sums"
        failed_stages=$((failed_stages - 1))
    done
    awk '{ passed += $1; failed += $2 }
         END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$logs/sums"
}
