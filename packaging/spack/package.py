# SPDX-License-Identifier: MIT
# packaging/make-dist.sh fills in the version and the hash of a release.
from spack_repo.builtin.build_systems.meson import MesonPackage

from spack.package import *


class Ferry(MesonPackage):
    """Typed arrays that live on the host and on GPUs at once. Ferry copies only what one side needs and the other one
    changed. It loads the driver of the GPU at run time, and works without one."""

    homepage = "https://example.org/ferry"
    url = "https://example.org/ferry/releases/ferry-@VERSION@.tar.xz"
    git = "https://example.org/ferry.git"

    license("MIT")

    version("main", branch="main")
    version("@VERSION@", sha256="@SHA256@")

    variant("cli", default=True, description="Install the command ferry")
    variant("mpi", default=False, description="Install ferry-mpi, messages of MPI from and into buffers")
    variant("python", default=False, description="Install the Python package")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    # ferry-gen is installed, and programs run it when they are built.
    depends_on("python@3.8:", type=("build", "run"))
    depends_on("py-jinja2", type=("build", "run"))
    depends_on("cmocka", type="test")
    depends_on("mpi", when="+mpi")
    with when("+python"):
        extends("python")
        depends_on("python@3.11:", type=("build", "link", "run"))

    conflicts("platform=darwin", msg="Ferry is for Linux")
    conflicts("platform=windows", msg="Ferry is for Linux")
    conflicts("default_library=static", when="+python", msg="the Python package needs the shared library")

    def meson_args(self):
        def feature(name, wanted):
            return f"-D{name}={'enabled' if wanted else 'disabled'}"

        return [
            feature("cli", self.spec.satisfies("+cli")),
            feature("mpi", self.spec.satisfies("+mpi")),
            feature("python", self.spec.satisfies("+python")),
            feature("tests", self.run_tests),
            *(feature(name, False) for name in ("examples", "bench", "cpp", "fortran", "cuda", "docs")),
            f"-Dgenerator_python={self.spec['python'].command.path}",
        ]

    def check(self):
        # Other suites measure time, or build programs with what else the machine has.
        meson("test", "-C", self.build_directory, "--suite", "unit", "--suite", "device")

    def setup_dependent_build_environment(self, env, dependent_spec):
        env.prepend_path("PATH", self.prefix.bin)
