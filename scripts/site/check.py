#!/usr/bin/env python3
"""Checks a built site: every link and image leads somewhere, and every page can be found.

Usage: check.py SITE. Links within the site must lead to a file of it and to an anchor there; links
to elsewhere need a host, and nothing asks for them. Every page is in the table of contents, or is
the source of something. Exits with 1 and names each fault.
"""

import os
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        for name in ("href", "src"):
            if attributes.get(name) is not None and tag != "base":
                self.links.append(attributes[name])


def fault(site, pages, origin, link):
    """What is wrong with a link, or None."""
    parts = urlsplit(link)
    if parts.scheme in ("http", "https"):
        return None if "." in parts.netloc and " " not in link else "it names no host"
    if parts.scheme or parts.netloc or parts.path.startswith("/"):
        return "it is neither a path of the site nor an http address"
    target = origin
    if parts.path:
        target = os.path.normpath(os.path.join(os.path.dirname(origin), unquote(parts.path)))
    if not (site / target).is_file():
        return "nothing is there"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "the page has no such anchor"
    return None


def main():
    site = Path(sys.argv[1])
    names = [str(path.relative_to(site)) for path in site.rglob("*.html")]
    pages = {name: Page(site / name) for name in names}
    links = [(name, link) for name, page in pages.items() for link in page.links]
    faults = [
        f"{name}: {link}: {what}"
        for name, link in links
        if (what := fault(site, pages, name, link))
    ]
    contents = {urlsplit(link).path for link in pages["toc.html"].links}
    for name in names:
        found = name in contents or name in ("index.html", "toc.html") or name.startswith("source/")
        if not found:
            faults.append(f"{name}: no table of contents leads to it")
    if len(names) < 20 or len(links) < 200:
        faults.append(f"only {len(names)} pages with {len(links)} links: this is not the whole site")
    for line in sorted(set(faults)):
        print(f"site: {line}", file=sys.stderr)
    print(f"site: {len(names)} pages, {len(links)} links, {len(faults)} faults")
    sys.exit(bool(faults))


main()
