"""Hooks of the site's build: documents from outside docs/, links between them, and a check for foreign requests.

Links in the documents are relative to the repository, so that they work where the files are read. Here they are
rewritten to the pages of the site.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent

_PROGRAMS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").rglob("*.py"))]

OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "measurements.md",
    "memory_core/systems/README.md": "memory-systems-in-python.md",
    "static/chat.png": "static/chat.png",
    "static/icon.svg": "static/icon.svg",
    "examples/README.md": "examples/index.md",
    "examples/reminders_plugin/pyproject.toml": "examples/reminders_plugin/pyproject.toml",
    **{path: path for path in _PROGRAMS},
}
"""Files of the repository that the site shows, by path, with their place in it."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents that stand outside docs/."""
    for path, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links between files of the repository to links between pages of the site."""
    place = page.file.src_uri
    source = next((path for path, shown in OUTSIDE.items() if shown == place), f"docs/{place}")
    return _LINK.sub(lambda link: site_link(link[1], source, place), markdown)


def site_link(link: str, source: str, place: str) -> str:
    """Return the link from a page of the site for one from a file of the repository.

    A link to a file that the site does not have stays as it is, and fails the strict build.
    """
    target = normpath(join(dirname(source), link))
    if target in OUTSIDE:
        found = OUTSIDE[target]
    elif target.startswith("docs/"):
        found = target.removeprefix("docs/")
    else:
        return link
    return relpath(found, dirname(place) or ".")


class _Requests(HTMLParser):
    """Collects what a page makes a browser fetch from another server."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        fetched = [values.get(name) for name in ("src", "srcset", "poster", "data")]
        if tag == "link":
            fetched.append(values.get("href"))
        self.found += [value for value in fetched if value and re.match(r"(https?:)?//", value)]
        if "mermaid" in (values.get("class") or "").split():
            self.found.append("Mermaid, which the theme loads from another server")


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a page or a style sheet of the site would ask another server for something."""
    site = Path(config.site_dir)
    found = []
    for path in site.rglob("*.html"):
        page = _Requests()
        page.feed(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: {request}" for request in page.found]
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(site)}: {url}" for url in re.findall(r"url\([\"']?((?:https?:)?//[^)]*)", text)]
    if found:
        raise PluginError("The site would make requests to other servers:\n" + "\n".join(sorted(found)))
