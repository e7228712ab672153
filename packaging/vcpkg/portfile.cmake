# SPDX-License-Identifier: MIT
# packaging/make-dist.sh fills in the hash of the release.
vcpkg_download_distfile(ARCHIVE
    URLS "https://example.org/ferry/releases/ferry-${VERSION}.tar.xz"
    FILENAME "ferry-${VERSION}.tar.xz"
    SHA512 @SHA512@
)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

vcpkg_find_acquire_program(PYTHON3)
x_vcpkg_get_python_packages(
    PYTHON_VERSION 3
    PYTHON_EXECUTABLE "${PYTHON3}"
    OUT_PYTHON_VAR PYTHON_WITH_JINJA2
    PACKAGES jinja2
)

vcpkg_configure_meson(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        "-Dgenerator_python=${PYTHON_WITH_JINJA2}"
        -Dtests=disabled
        -Dexamples=disabled
        -Dbench=disabled
        -Dcli=disabled
        -Dcpp=disabled
        -Dfortran=disabled
        -Dmpi=disabled
        -Dpython=disabled
        -Dcuda=disabled
        -Ddocs=disabled
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()

# The Python that made the headers is not part of the package.
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/bin/ferry-gen" "#!${PYTHON_WITH_JINJA2}" "#!/usr/bin/env python3")

# The files of CMake find the library and ferry-gen from where they lie, so they stay in lib/cmake and ferry-gen in bin.
set(VCPKG_POLICY_SKIP_MISPLACED_CMAKE_FILES_CHECK enabled)
set(VCPKG_POLICY_SKIP_LIB_CMAKE_MERGE_CHECK enabled)
set(VCPKG_POLICY_ALLOW_EXES_IN_BIN enabled)
file(REMOVE_RECURSE
    "${CURRENT_PACKAGES_DIR}/debug/bin"
    "${CURRENT_PACKAGES_DIR}/debug/include"
    "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/debug/lib/cmake"
)

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
