# SPDX-License-Identifier: MIT
"""Sphinx's configuration of the site that docs/website.py builds."""

import os

project = "Ferry"
author = "the authors of Ferry"
version = release = os.environ["FERRY_SITE_VERSION"]
extensions = ["myst_parser", "breathe"]
if os.environ.get("FERRY_SITE_PYTHON"):
    import sys
    sys.path.insert(0, os.environ["FERRY_SITE_PYTHON"])
    extensions.append("sphinx.ext.autodoc")
    autodoc_typehints = "none"
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
# JSON and C examples in the documents leave parts out with dots.
suppress_warnings = ["misc.highlighting_failure"]
breathe_projects = {"ferry": os.environ["FERRY_SITE_XML"]}
breathe_default_project = "ferry"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_default_members = ("members", "undoc-members")
c_id_attributes = cpp_id_attributes = ["FERRY_API", "FERRY_NODISCARD", "FERRY_INLINE"]
html_theme = "alabaster"
html_theme_options = {"description": "Typed arrays that live on the host and on GPUs at once", "fixed_sidebar": False,
                      "page_width": "60em", "show_powered_by": False}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_copy_source = False
html_last_updated_fmt = None
html_static_path = ["static"]
html_css_files = ["phone.css"]
