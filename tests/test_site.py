"""The site of the documents: its links, and that reading it asks no other server."""

import argparse
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_are_rewritten_for_the_site():
    hooks = load("docs/hooks.py")
    assert hooks.site_link("docs/glossary.md", "README.md", "index.md") == "glossary.md"
    assert hooks.site_link("../../README.md", "docs/how-to/mcp.md", "how-to/mcp.md") == "../index.md"
    assert hooks.site_link("formats.md#files", "docs/reference/a.md", "reference/a.md") == "formats.md#files"
    assert hooks.site_link("../nothing.md", "docs/a.md", "a.md") == "../nothing.md"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://cdn.example/a.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//cdn.example/a.css">'),
        ("a.html", '<pre class="mermaid">graph</pre>'),
        ("a.css", "@font-face { src: url(https://cdn.example/a.woff2) }"),
    ],
)
def test_a_site_that_asks_another_server_is_not_built(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(Exception, match=name):
        load("docs/hooks.py").on_post_build(argparse.Namespace(site_dir=str(tmp_path)))


def test_a_site_with_links_is_built(tmp_path):
    (tmp_path / "a.html").write_text('<a href="https://example.org">there</a><img src="a.png">')
    load("docs/hooks.py").on_post_build(argparse.Namespace(site_dir=str(tmp_path)))
