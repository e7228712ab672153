#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the recipe for Spack over stand-ins of Spack's modules, because Spack is in no registry of packages.

usage: spack_recipe.py PACKAGE-FILE MESON-OPTIONS TARBALL

Each stand-in takes the arguments of the directive of Spack 1.0 that has its name; the recipe may call no other. Every spec
that its variants allow yields options that meson_options.txt has, with values that fit. The hash is that of the tarball.
"""

import contextlib
import hashlib
import itertools
import pathlib
import re
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "lint"))
from tap import Tap  # noqa: E402

KNOWN = {"c", "cmocka", "meson", "mpi", "py-jinja2", "python"}  # by their names in spack-packages
TYPES = {"build", "link", "run", "test"}
OPTION = re.compile(r"^option\('(\w+)',\s*type: '(\w+)'", re.M)


class Recorder:
    """Directives in the order of the recipe."""

    def __init__(self):
        self.versions, self.variants, self.dependencies, self.conflicts, self.licenses = {}, {}, [], [], []

    def version(self, name, *, sha256=None, branch=None, tag=None, commit=None):
        self.versions[name] = {"sha256": sha256, "branch": branch, "tag": tag, "commit": commit}

    def variant(self, name, *, default, description, values=(True, False), when=None):
        self.variants[name] = values

    def depends_on(self, spec, *, type=("build", "link"), when=None):  # noqa: A002 - as Spack names it
        self.dependencies.append((spec, (type,) if isinstance(type, str) else type))

    def extends(self, spec, *, type=("build", "run"), when=None):  # noqa: A002
        self.dependencies.append((spec, type))

    def conflicts_with(self, spec, *, when=None, msg):
        self.conflicts.append((spec, when, msg))

    def license_of(self, name):
        self.licenses.append(name)

    @contextlib.contextmanager
    def when(self, spec):
        yield


class Spec:
    """One choice of variants."""

    def __init__(self, chosen):
        self.chosen = chosen

    def satisfies(self, text):
        name = text.lstrip("+~")
        if name not in self.chosen:
            raise KeyError(f"the recipe asks for the variant {name}, which it does not declare")
        return self.chosen[name] == text.startswith("+")

    def __getitem__(self, name):
        return types.SimpleNamespace(command=types.SimpleNamespace(path="/usr/bin/" + name))


def load(path):
    recorder = Recorder()
    package = types.ModuleType("spack.package")
    names = {"version": recorder.version, "variant": recorder.variant, "depends_on": recorder.depends_on,
             "extends": recorder.extends, "conflicts": recorder.conflicts_with, "license": recorder.license_of, "when": recorder.when}
    package.__dict__.update(names)
    meson = types.ModuleType("spack_repo.builtin.build_systems.meson")
    meson.MesonPackage = type("MesonPackage", (), {})
    sys.modules["spack.package"] = package
    for name in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[meson.__name__] = meson
    space = {"__name__": "recipe"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)  # noqa: S102 - a file of the project
    return space["Ferry"], recorder


def wrong_options(recipe, recorder, options):
    for values in itertools.product(*recorder.variants.values()):
        for run_tests in (False, True):
            package = recipe()
            package.spec, package.run_tests = Spec(dict(zip(recorder.variants, values))), run_tests
            for word in package.meson_args():
                name, _, value = word[2:].partition("=")
                if not word.startswith("-D") or name not in options:
                    yield f"Meson has no option {word}"
                elif options[name] == "feature" and value not in ("enabled", "disabled", "auto"):
                    yield f"{word}: {name} is a feature"


def main():
    path, option_file, tarball = map(pathlib.Path, sys.argv[1:])
    recipe, recorder = load(path)
    options = dict(OPTION.findall(option_file.read_text(encoding="utf-8")))
    tap = Tap()
    release = tarball.name.removeprefix("ferry-").removesuffix(".tar.xz")
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    tap.case("names the release and its hash", [] if recorder.versions.get(release, {}).get("sha256") == digest else
             [f"{recorder.versions}"])
    tap.case("the address ends in the tarball's name", [] if recipe.url.endswith("/" + tarball.name) else [recipe.url])
    tap.case("has a licence and a description", [] if recorder.licenses == ["MIT"] and recipe.__doc__ else [str(recorder.licenses)])
    tap.case("depends on packages that Spack has", [spec for spec, _ in recorder.dependencies if re.split("[@+~]", spec)[0] not in KNOWN])
    tap.case("types of dependencies", [f"{spec}: {kinds}" for spec, kinds in recorder.dependencies if not set(kinds) <= TYPES])
    tap.case("options of every spec are Meson's", sorted(set(wrong_options(recipe, recorder, options))))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
