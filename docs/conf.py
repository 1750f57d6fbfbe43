"""Sphinx configuration."""

from semiope import __version__

project = "semiope"
author = "The semiope developers"
project_copyright = "2026, The semiope developers"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "amsmath"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = f"semiope {__version__}"
html_show_sourcelink = False
autodoc_typehints = "description"
autodoc_member_order = "bysource"
