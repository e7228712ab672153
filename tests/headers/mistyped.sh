#!/bin/sh
# SPDX-License-Identifier: MIT
# Calls with the wrong element type do not compile; the same calls with the right type do. All right ones are one program and all
# wrong ones another, in which each needs an error in its own line.
# usage: mistyped.sh STANDARD INCLUDE-FOLDER INCLUDE-FOLDER -- COMPILER...
standard=$1 source=$2 built=$3
shift 4

case $standard in
    c++*) language=c++ ;;
    *) language=c ;;
esac

calls=$(cat <<'END'
ferry_float_create(context, 1, 0, &f)|ferry_float_create(context, 1, 0, &n)
ferry_float_copy_from(f, 0, 1, fs, NULL)|ferry_float_copy_from(n, 0, 1, fs, NULL)
ferry_float_copy_from(f, 0, 1, fs, NULL)|ferry_float_copy_from(f, 0, 1, ns, NULL)
ferry_float_copy_to(f, 0, 1, fs, NULL)|ferry_float_copy_to(f, 0, 1, ds, NULL)
ferry_float_copy_to(f, 0, 1, fs, NULL)|ferry_float_copy_to(f, 0, 1, cfs, NULL)
ferry_float_copy(f, 0, f, 0, 1, NULL)|ferry_float_copy(f, 0, n, 0, 1, NULL)
ferry_float_overwrite_host(f, scope, &fs)|ferry_float_overwrite_host(f, scope, &ns)
ferry_float_read_host(f, scope, &cfs)|ferry_float_read_host(f, scope, &ds)
ferry_float_copy_from_double(f, 0, 1, ds, FERRY_CONVERT_CHECK, NULL)|ferry_float_copy_from_double(f, 0, 1, ns, FERRY_CONVERT_CHECK, NULL)
ferry_float_copy_from_double(f, 0, 1, ds, FERRY_CONVERT_CHECK, NULL)|ferry_float_copy_from_double(d, 0, 1, ds, FERRY_CONVERT_CHECK, NULL)
ferry_double_copy_to_int(d, 0, 1, ns, FERRY_CONVERT_CHECK, NULL)|ferry_double_copy_to_int(d, 0, 1, fs, FERRY_CONVERT_CHECK, NULL)
ferry_int_convert_from_float(n, 0, f, 0, 1, FERRY_CONVERT_CHECK, NULL)|ferry_int_convert_from_float(f, 0, n, 0, 1, FERRY_CONVERT_CHECK, NULL)
ferry_convert_int_to_float(fs, ns, 1, FERRY_CONVERT_CHECK)|ferry_convert_int_to_float(ns, fs, 1, FERRY_CONVERT_CHECK)
END
)

HEAD='#include <ferry/float_convert.h>
#include <ferry/int_convert.h>
#include <ferry/double_convert.h>
void call(ferry_status *done, ferry_float_buffer f, ferry_int_buffer n, ferry_double_buffer d, float *fs, const float *cfs, int32_t *ns,
          double *ds, ferry_scope *scope, ferry_context *context);
void call(ferry_status *done, ferry_float_buffer f, ferry_int_buffer n, ferry_double_buffer d, float *fs, const float *cfs, int32_t *ns,
          double *ds, ferry_scope *scope, ferry_context *context)
{
    (void)done, (void)f, (void)n, (void)d, (void)fs, (void)cfs, (void)ns, (void)ds, (void)scope, (void)context;'
first=$(($(printf '%s\n' "$HEAD" | wc -l) + 1))

# compile COLUMN COMPILER...: prints what the compiler says of the program with this column's calls.
compile() {
    column=$1
    shift
    { printf '%s\n' "$HEAD"; printf '%s\n' "$calls" | cut -d'|' -f"$column" | sed 's/.*/    *done = &;/'; echo '}'; } |
        LC_ALL=C "$@" -x "$language" -std="$standard" -pedantic-errors -I "$source" -I "$built" -fsyntax-only - 2>&1
}

count=0 failed=0
report() { # GOOD NAME
    count=$((count + 1))
    if [ "$1" = yes ]; then echo "ok $count - $2"; else echo "not ok $count - $2"; failed=1; fi
}

right=yes
said=$(compile 1 "$@") || right=no
report "$right" "the right calls compile"
[ "$right" = yes ] || printf '%s\n' "$said" | sed 's/^/# /'
said=$(compile 2 "$@")
line=$first
while IFS='|' read -r _ wrong; do
    if printf '%s\n' "$said" | grep -q "^<stdin>:$line:[0-9]*: error:"; then report yes "$wrong"; else report no "$wrong: compiles"; fi
    line=$((line + 1))
done <<END
$calls
END
echo "1..$count"
[ "$count" -gt 10 ] && [ "$failed" -eq 0 ]
