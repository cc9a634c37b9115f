"""Docstrings are plain text with Google's sections: stars and bars in shapes and formulas are no markup."""

import re

from sphinx.application import Sphinx

_MARKUP = re.compile(r"(``.*?``|`[^`]*`)|([*|])")


def escape(app: Sphinx, what: str, name: str, parent: object, options: object, lines: list[str]) -> None:
    """Escape stars and bars outside of code, in place, before the sections are read."""
    lines[:] = [_MARKUP.sub(lambda found: found[1] or f"\\{found[2]}", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Call `escape` before other extensions see a docstring."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", escape, priority=100)
    return {"parallel_read_safe": True}
