"""Sphinx configuration."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

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
html_sidebars = {"**": []}
html_math_renderer = "mathml"
autodoc_typehints = "description"
autodoc_member_order = "bysource"


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Write formulas as MathML, which browsers show by themselves: the pages need no network."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
