"""A site's links are checked as a browser would follow them."""

from __future__ import annotations

from pathlib import Path

from testing.site.check import broken_links

PAGE = '<html><body><h1 id="top">x</h1>{}</body></html>'


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "picture.png").touch()
    good = '<a href="deep/b.html#top"></a><img src="picture.png"><a href="#top"></a>'
    good += '<a href="https://example.org/none"></a><a href="deep/b.html?q=1"></a><a href="."></a>'
    (tmp_path / "index.html").write_text(PAGE.format(good))
    (tmp_path / "404.html").write_text(PAGE.format('<a href="/nowhere"></a>'))
    bad = '<a href="../none.html"></a><img src="none.png"><a href="../index.html#none"></a>'
    (tmp_path / "deep" / "b.html").write_text(PAGE.format(bad))
    assert broken_links(tmp_path) == [
        "deep/b.html: ../index.html#none",
        "deep/b.html: ../none.html",
        "deep/b.html: none.png",
    ]
