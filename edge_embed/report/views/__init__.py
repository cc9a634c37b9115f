"""How results look: on a terminal, in a notebook, as HTML, Markdown, JUnit XML and pictures."""
