#!/usr/bin/env python3
"""A preprocessor of mdBook: leads links that leave docs/ to pages of the site.

mdBook hands the book over as JSON on stdin and reads it back from stdout. Chapters outside docs/
(SUMMARY.md has a few, such as ../ARCHITECTURE.md) move to a place inside the site. A link to any
other file of the repository leads to a page that source_pages.py writes after the build; if the
link's title is the name of a test, to the line of that test.
"""

import json
import os
import re
import sys

from places import DOCS, ROOT, chapter, relative, source_page

# A link or image of Markdown: its path, its anchor, its title.
LINK = re.compile(r'\]\(([^)\s#]*)(#[^)\s]*)?(?: "([^"]*)")?\)')


def chapters(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def line_of_test(path, test):
    lines = (ROOT / path).read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if f"fn {test}(" in line:
            return f"#L{number}"
    raise SystemExit(f"site: {path} has no test {test}")


def rewritten(match, origin, page, documents):
    """A link of the document `origin`, which is on the page `page`."""
    path, anchor, title = match[1], match[2] or "", match[3] or ""
    if not path or "://" in path or path.startswith("mailto:"):
        return match[0]
    target = os.path.normpath(os.path.join(os.path.dirname(origin), path))
    if not (ROOT / target).exists():
        raise SystemExit(f"site: {origin} links to {path}, which is not there")
    if target in documents:
        return f"]({relative(chapter(target), page)}{anchor})"
    if target.endswith(".md"):
        raise SystemExit(f"site: {origin} links to {path}, which is not in docs/SUMMARY.md")
    # mdBook copies pictures and the like.
    if target.startswith(DOCS + "/"):
        return f"]({relative(target[len(DOCS) + 1 :], page)})"
    if title:
        anchor = line_of_test(target, title)
    return f"]({relative(source_page(target), page)}{anchor})"


def main():
    if sys.argv[1:2] == ["supports"]:
        sys.exit(sys.argv[2] != "html")
    _, book = json.load(sys.stdin)
    pages = [page for page in chapters(book["items"]) if page["path"]]
    origins = [os.path.normpath(os.path.join(DOCS, page["path"])) for page in pages]
    for page, origin in zip(pages, origins):
        page["path"] = chapter(origin)
        replace = lambda match: rewritten(match, origin, page["path"], origins)
        page["content"] = LINK.sub(replace, page["content"])
    json.dump(book, sys.stdout)


main()
