"""Links of the pages to files of the repository.

The pages are read on a code host too, where `../include/gpuheap/heap.hpp` is a link into the repository. The site opens from the file
system, without the repository beside it: such a link becomes a copy of the file, shown as text, and a link to a folder becomes the
folder's name. A link to nothing is a warning, and so an error.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
# Pages of the repository outside of docs/ that the site has under a name of its own.
FOLDER = "files"


class RepositoryLinks(SphinxTransform):
    """Runs before MyST's links are resolved."""

    default_priority = 5

    def apply(self, **kwargs: object) -> None:
        page = Path(self.env.doc2path(self.env.docname)).parent
        for link in list(self.document.findall(lambda node: isinstance(node, nodes.Element) and self.target(node) is not None)):
            path = self.target(link)
            there = (page / path).resolve()
            inner = [child.deepcopy() for child in link.children]
            if there.is_dir() and ROOT in there.parents:
                link.replace_self(nodes.inline("", "", *inner, classes=["repository-folder"]))
            elif there.is_file() and ROOT in there.parents:
                self.env.gpuheap_files.add(there.relative_to(ROOT))
                up = "../" * self.env.docname.count("/")
                made = nodes.reference("", "", *inner, refuri=f"{up}{FOLDER}/{there.relative_to(ROOT)}.txt", internal=True)
                link.replace_self(made)
            else:
                logger.warning("the link %s leads to nothing", path, location=link, type="repository", subtype="link")

    def target(self, node: nodes.Element) -> str | None:
        """The path of a link of MyST's to a file or folder that is no page of the site; None for every other node."""
        target = str(node.get("reftarget", ""))
        if node.tagname == "download_reference":
            return target
        if node.tagname != "pending_xref" or not target:
            return None
        if node.get("refdomain") == "doc":  # a page in Markdown; one outside of docs/ has an absolute path
            return f"{target}.md" if target.startswith("/") else None
        if node.get("reftype") == "myst" and not target.startswith("#"):
            return target.partition("#")[0]
        return None


def copy_files(app: Sphinx, failed: Exception | None) -> None:
    if failed is not None or app.builder.format != "html":
        return
    for path in sorted(app.env.gpuheap_files):
        there = Path(app.outdir) / FOLDER / f"{path}.txt"
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, there)
        os.chmod(there, 0o644)


def begin(app: Sphinx) -> None:
    app.env.gpuheap_files = getattr(app.env, "gpuheap_files", set())


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("builder-inited", begin)
    app.connect("build-finished", copy_files)
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": False}
