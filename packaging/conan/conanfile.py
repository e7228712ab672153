# SPDX-License-Identifier: MIT
"""Ferry for Conan 2, from the sources that this file lies in.

Meson, Ninja and a python3 with Jinja2 are those of the machine. A profile can bring Meson and Ninja in its tool_requires.
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, load, rmdir
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain

required_conan_version = ">=2.0"
UNUSED = ("tests", "examples", "bench", "cpp", "fortran", "mpi", "python", "cuda", "docs")


class FerryConan(ConanFile):
    name = "ferry"
    description = "Typed arrays that live on the host and on GPUs at once"
    homepage = "https://example.org/ferry"
    url = "https://example.org/ferry"
    license = "MIT"
    topics = ("gpu", "cuda", "memory", "arrays")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "cli": [True, False]}
    default_options = {"shared": True, "fPIC": True, "cli": True}
    implements = ["auto_shared_fpic"]
    languages = "C"

    @property
    def sources_root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        found = re.search(r"^  version: '(.*)',$", load(self, os.path.join(self.sources_root, "meson.build")), re.M)
        self.version = found.group(1)

    def export_sources(self):
        copy(self, "*", self.sources_root, self.export_sources_folder, excludes=("build*", ".git*", "subprojects/*/*"))

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("Ferry is for Linux")

    def layout(self):
        basic_layout(self)

    def generate(self):
        toolchain = MesonToolchain(self)
        for option in UNUSED:
            toolchain.project_options[option] = "disabled"
        toolchain.project_options["cli"] = "enabled" if self.options.cli else "disabled"
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        Meson(self).install()
        # PkgConfigDeps writes this one for the consumer. The files of CMake stay, because they bring ferry_generate().
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))

    def package_info(self):
        self.cpp_info.libs = ["ferry"]
        self.cpp_info.system_libs = ["pthread", "dl", "m"]
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "ferry")]
        self.cpp_info.set_property("pkg_config_name", "ferry")
        self.cpp_info.set_property("pkg_config_custom_content", "ferry_gen=${prefix}/bin/ferry-gen")
        self.runenv_info.prepend_path("PATH", os.path.join(self.package_folder, "bin"))
