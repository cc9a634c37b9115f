"""Views of results: terminal, notebook, HTML, Markdown, JUnit XML and pictures."""
