"""Settings of the documentation site: `make docs` builds it into build/docs."""

import sys
from pathlib import Path

import edge_embed

sys.path.insert(0, str(Path(__file__).parent))  # docstrings, operator_tables

project = "edge-embed"
author = copyright = "edge-embed authors"
version = release = edge_embed.__version__

default_role = "literal"  # docstrings write names in single backticks
extensions = [
    "docstrings",
    "myst_parser",
    "operator_tables",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
]
html_theme = "furo"
html_title = f"edge-embed {version}"
html_show_sourcelink = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_custom_sections = ["Shape"]
napoleon_use_ivar = True  # attributes of a dataclass are described once
python_use_unqualified_type_names = True
