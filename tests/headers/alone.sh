#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header, included twice and without others, compiles without warnings under the given standard.
# usage: alone.sh STANDARD INCLUDE-FOLDER INCLUDE-FOLDER -- COMPILER...
standard=$1 source=$2 built=$3
shift 4

case $standard in
    c++*) language=c++ extra= ;;
    *) language=c extra='-Wstrict-prototypes -Wmissing-prototypes' ;;
esac

count=0 failed=0
for header in "$source"/ferry/*.h "$built"/ferry/*.h; do
    [ -e "$header" ] || continue
    name=$(basename "$header")
    count=$((count + 1))
    # shellcheck disable=SC2086 # a list of flags
    if complaints=$(printf '#include <ferry/%s>\n#include <ferry/%s>\nextern int used;\n' "$name" "$name" |
        "$@" -x "$language" -std="$standard" -Wall -Wextra -Wpedantic -Wshadow $extra -Werror \
            -I "$source" -I "$built" -fsyntax-only - 2>&1); then
        echo "ok $count - $name"
    else
        echo "not ok $count - $name"
        printf '%s\n' "$complaints" | sed 's/^/# /'
        failed=1
    fi
done
echo "1..$count"
[ "$count" -gt 10 ] && [ "$failed" -eq 0 ]
