#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the release tarball of the committed sources with `meson dist`, and fills its version and hashes into the wrap and the
# recipes for Spack and vcpkg, which name the tarball. They go to OUTPUT-FOLDER/ferry.wrap and OUTPUT-FOLDER/recipes.
# usage: make-dist.sh OUTPUT-FOLDER
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$root/meson.build")
name=ferry-$version
tarball=$out/$name.tar.xz

# shellcheck source=packaging/steps.sh
. "$root/packaging/steps.sh"
log=$out/$(basename "$0" .sh).log

# The build folder that makes the tarball builds nothing.
rm -rf "$out/configured" "$out/recipes"
run meson setup "$out/configured" "$root" -Dtests=disabled -Dexamples=disabled -Dbench=disabled -Dcli=disabled -Dmpi=disabled \
    -Dpython=disabled -Dcpp=disabled -Dfortran=disabled -Dcuda=disabled ${FERRY_GENERATOR_PYTHON:+-Dgenerator_python="$FERRY_GENERATOR_PYTHON"}
run meson dist -C "$out/configured" --no-tests --allow-dirty --formats xztar
cp "$out/configured/meson-dist/$name.tar.xz" "$out/configured/meson-dist/$name.tar.xz.sha256sum" "$out"
rm -rf "$out/configured"
(cd "$out" && run sha256sum --check "$name.tar.xz.sha256sum")

# The tarball holds the tracked files, no more and no less.
git -C "$root" ls-tree -r --name-only HEAD | sort >"$out/tracked"
tar -tf "$tarball" | sed -n "s|^$name/\(.*[^/]\)$|\1|p" | sort >"$out/packed"
run diff "$out/tracked" "$out/packed"

sum() { "$1" "$tarball" | cut -d ' ' -f 1; }
fill() { # FILE TARGET
    mkdir -p "$(dirname "$2")"
    sed -e "s/@VERSION@/$version/g" -e "s/@SHA256@/$(sum sha256sum)/g" -e "s/@SHA512@/$(sum sha512sum)/g" -e '/^# packaging\/make-dist/d' \
        "$root/packaging/$1" >"$2"
    ! grep -n '@[A-Z0-9]*@' "$2" || die "packaging/$1 has a field that is not filled in"
}
fill ferry.wrap "$out/ferry.wrap"
fill spack/package.py "$out/recipes/spack/ferry/package.py"
for file in portfile.cmake vcpkg.json usage; do
    fill "vcpkg/$file" "$out/recipes/vcpkg/ferry/$file"
done
echo "dist: $name.tar.xz holds the tracked files"
