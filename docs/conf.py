"""The documentation as a site: `bin/docs` builds it, offline and with warnings as errors."""

from hermes.vocabulary.version import __version__

project = "Hermes"
author = "the Hermes authors"
copyright = author  # noqa: A001 - the name Sphinx reads
release = version = __version__
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "Memory and context for language-model agents", "fixed_sidebar": True}
html_static_path = []
html_show_sourcelink = False
myst_heading_anchors = 3
