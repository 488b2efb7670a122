"""The documentation as a site: `bin/docs` builds it, offline and with warnings as errors."""

from hermes.base.version import __version__

project = "Hermes"
author = "the Hermes authors"
copyright = author  # noqa: A001 - the name Sphinx reads
release = version = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_build", "diagrams"]
html_theme = "furo"
html_title = f"Hermes {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
myst_heading_anchors = 3
copybutton_prompt_text = "$ "  # in `console` blocks only what was typed is copied
copybutton_exclude = ".linenos, .gp, .go"
