"""``report.html``: the Markdown report as one self-contained page, images inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping

from markdown_it import MarkdownIt

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 75rem; margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1.05rem; }
.wide { overflow-x: auto; }
.wide table:has(th:nth-child(8)) { min-width: 62rem; }
table { border-collapse: collapse; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.45rem; border-bottom: 1px solid #ddd; vertical-align: top; }
thead th { border-bottom: 2px solid #444; text-align: left; }
code { font-size: 0.85em; background: #f3f3f3; padding: 0.1em 0.25em; overflow-wrap: anywhere; }
img { max-width: 100%; width: 42rem; height: auto; }
@media print { body { margin: 0; font-size: 10pt; } .wide { overflow: visible; }
               .wide table:has(th:nth-child(8)) { min-width: 0; } }
"""


def render(markdown: str, images: Mapping[str, bytes], title: str) -> str:
    """``markdown`` as a page; ``images``: path as written in it → PNG bytes.

    Text from prompts or errors cannot inject markup: raw HTML in the Markdown is shown as text.
    """
    body: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    for path, data in images.items():
        embedded = "data:image/png;base64," + base64.b64encode(data).decode("ascii")
        body = body.replace(f'src="{path}"', f'src="{embedded}"')
    # A box of its own for each, so that not the page scrolls sideways; the keyboard reaches it too.
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>')
    body = body.replace("</table>", "</table></div>")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}</body>\n</html>\n"
    )
