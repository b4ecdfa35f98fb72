#!/usr/bin/env python3
"""Writes a page for each file and folder outside docs/ to which a page of the site leads.

Usage: source_pages.py SITE. A file becomes its text with numbered lines, a folder the list of its
files.
"""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

from places import ROOT, relative, source_page

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Baton</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 sans-serif; margin: 1.5rem; }}
pre {{ font: 13px/1.45 monospace; overflow-x: auto; }}
pre a {{ display: inline-block; width: 3rem; color: gray; text-decoration: none; user-select: none; }}
pre span:target {{ background: color-mix(in srgb, gold 40%, transparent); }}
</style>
</head>
<body>
<p><a href="{home}">Baton</a> / {title}</p>
{body}
</body>
</html>
"""


def lines(text):
    shown = html.escape(text).splitlines()
    numbered = (
        f'<span id="L{n}"><a href="#L{n}">{n}</a>{line}</span>' for n, line in enumerate(shown, 1)
    )
    return "<pre>" + "\n".join(numbered) + "</pre>"


def files_below(folder):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", folder],
        cwd=ROOT, check=True, capture_output=True,
    )
    return sorted(name.decode() for name in listed.stdout.split(b"\0") if name)


def listing(folder, page):
    def item(name):
        shown = html.escape(name)
        # A corpus has hundreds of files without a suffix: bytes for programs, not for readers.
        if not Path(name).suffix:
            return f"<li>{shown}</li>"
        return f'<li><a href="{html.escape(relative(source_page(name), page))}">{shown}</a></li>'

    return "<ul>" + "".join(map(item, files_below(folder))) + "</ul>"


def wanted(site):
    """The files to which pages lead, each from the root of the repository."""
    found = set()
    for page in site.rglob("*.html"):
        for link in re.findall(r'href="([^"#]*)', page.read_text()):
            place = os.path.normpath(os.path.join(page.parent.relative_to(site), html.unescape(link)))
            if place.startswith("source/") and place.endswith(".html"):
                found.add(place[len("source/") : -len(".html")])
    return found


def main():
    site = Path(sys.argv[1])
    written = set()
    while missing := wanted(site) - written:
        for name in sorted(missing):
            page = source_page(name)
            path = ROOT / name
            body = listing(name, page) if path.is_dir() else lines(path.read_text(errors="replace"))
            title, home = html.escape(name), relative("index.html", page)
            (site / page).parent.mkdir(parents=True, exist_ok=True)
            (site / page).write_text(PAGE.format(title=title, home=home, body=body))
        written |= missing
    print(f"site: {len(written)} pages of source")


main()
