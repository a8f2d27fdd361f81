"""How Sphinx builds the site of docs/. scripts/docs.sh calls it and says where the parts are that it needs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "docs" / "_site"))

project = "gpuheap"
author = "The gpuheap authors"
copyright = author
numbers = re.findall(r"#define GPUHEAP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (root / "include/gpuheap/version.hpp").read_text())
release = ".".join(numbers)

extensions = ["myst_parser", "breathe", "repository_links", "command_help"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_site", "requirements.txt"]
# Programs in the languages that the pages show; a page names no language that has no lexer.
highlight_language = "none"
smartquotes = False  # `--help` keeps its two dashes

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

breathe_projects = {"gpuheap": os.environ.get("GPUHEAP_DOXYGEN_XML", str(root / "build/docs/doxygen/xml"))}
breathe_default_project = "gpuheap"
breathe_default_members = ("members",)
# Words of the sources before which declarations stand, for Sphinx's parser of C++.
cpp_id_attributes = ["GPUHEAP_FN", "GPUHEAP_HD", "GPUHEAP_COLD", "GPUHEAP_PRIMITIVE"]
primary_domain = "cpp"

html_theme = "furo"
html_title = f"gpuheap {release}"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
