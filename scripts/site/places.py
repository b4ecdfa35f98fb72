"""Where a file of the repository is on the site.

Documents are written for a code host: a link names a file of the repository. On the site, docs/ is
the root; other documents are chapters below project/, and other files are pages below source/.
"""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs"


def chapter(path):
    """The place of a document, from the root of the repository, as a Markdown file of the book."""
    if path.startswith(DOCS + "/"):
        # The README of a folder is what a code host and a web server show for the folder.
        return re.sub(r"(^|/)README\.md$", r"\1index.md", path[len(DOCS) + 1 :])
    # All of these are in one folder, so each needs a name of its own.
    name = {"README.md": "overview.md"}.get(path, path.replace("/README.md", ".md"))
    return "project/" + name.lower().replace("/", "-")


def source_page(path):
    """The place of a file or folder that is no document."""
    return f"source/{path}.html"


def relative(place, page):
    """A link to a place of the site from a page of it."""
    return os.path.relpath(place, os.path.dirname(page) or ".")
