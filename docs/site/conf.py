"""Sphinx's settings for the site. stage.py makes the pages that it reads; `make docs` runs both."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the extension below
PROJECT = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]

project = PROJECT["name"]
author = copyright = PROJECT["authors"][0]["name"]
version = release = PROJECT["version"]
root_doc = "index"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "code_links"]

# Pages: Markdown with GitHub's anchors; notebooks run here and must not fail.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 6
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parents[1] / "out" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 120  # seconds for a cell
nb_merge_streams = True
suppress_warnings = ["myst.header"]  # pages for GitHub may skip a level
highlight_language = "none"

# The API: docstrings say `name` for code, as the pages do.
default_role = "literal"
autodoc_default_options = {"members": True, "show-inheritance": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Array": "Array"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
nitpicky = True

html_theme = "furo"
pygments_dark_style = "github-dark"  # the theme's own underlines names of modules
html_title = f"bdqn {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
