"""A report as blocks, which become a Markdown file with pictures beside it, or a part of a web page.

A block is Markdown (a heading, a table, or a paragraph in which only `code` is marked) or a picture.
"""

import base64
import dataclasses
import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memory_maze.system.files import replacing


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure with what is to be said of it."""

    name: str
    """Of its file."""
    caption: str
    figure: Any
    """Of matplotlib; None if there is nothing to draw."""


Block = str | Picture
PAPER = "https://arxiv.org/abs/2210.13383"
_PIPE = re.compile(r"(?<!\\)\|")
_INLINE = re.compile(r"\\([!-/:-@\[-`{-~])|`([^`]+)`")
_SHORT = 16  # characters that are kept in one line
_NUMBER = re.compile(r"-|[+-]?[\d,.]+(e[+-]\d+)?( ?([Mk%]|GiB|ms|s|min|h|dB))?( (±|to|of) .*)?( \(.*\))?")


def escape_markdown(text: str) -> str:
    """Text that others wrote, to be read as it is; `tables.markdown` takes care of |."""
    return re.sub(r"([\\`*_{}\[\]<>#!~&])", r"\\\1", text)


def code(text: str) -> str:
    """A command or a file."""
    return escape_markdown(text) if "`" in text else f"`{text}`"


def drop_empty(blocks: Sequence[Block]) -> list[Block]:
    """Without pictures that there is nothing for."""
    return [one for one in blocks if not isinstance(one, Picture) or one.figure is not None]


def write_markdown(page: Path, title: str, blocks: Sequence[Block]) -> list[Path]:
    """Writes a report and the pictures beside it, named after it; returns where they are."""
    parts, written = [f"# {title}"], []
    for one in drop_empty(blocks):
        if isinstance(one, Picture):
            place = page.parent / f"{page.stem}-{one.name}"
            with replacing(place) as path:
                one.figure.savefig(path, format="png")
            written.append(place)
            parts.append(f"![{one.caption}]({place.name})\n\n{one.caption}")
        else:
            parts.append(one.rstrip())
    with replacing(page) as path:
        path.write_text("\n\n".join(parts) + "\n")
    return [page, *written]


def make_html(blocks: Sequence[Block]) -> str:
    """The same for a page, with pictures in it; whatever is no mark of ours is shown as it is written."""
    return "\n".join(
        _picture(one) if isinstance(one, Picture) else _text(part)
        for one in drop_empty(blocks)
        for part in ([one] if isinstance(one, Picture) else re.split(r"\n{2,}", one.strip()))
    )


def _text(part: str) -> str:
    if part.startswith("|"):
        return _table(part.splitlines())
    if part.startswith("## "):
        return f"<h3>{_inline(part[3:])}</h3>"
    return f"<p>{_inline(part)}</p>"


def _picture(one: Picture) -> str:
    file = io.BytesIO()
    one.figure.savefig(file, format="png")
    data = base64.b64encode(file.getvalue()).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{html.escape(one.caption)}">'
    caption = f"<figcaption>{_inline(one.caption)}</figcaption>"
    return f'<figure><div class="scroll" tabindex="0">{image}</div>{caption}</figure>'


def _table(lines: Sequence[str]) -> str:
    header, _, *rows = (_split(line) for line in lines)
    right = [
        all(_NUMBER.fullmatch(row[i]) for row in rows if i < len(row) and row[i]) for i in range(len(header))
    ]

    def cells(row: Sequence[str], tag: str) -> str:
        pairs = zip(right, row, strict=False)
        kinds = (("number" if number else _kind(cell), cell) for number, cell in pairs)
        return "".join(f'<{tag} class="{kind}">{_inline(cell)}</{tag}>' for kind, cell in kinds)

    body = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    head = f"<thead><tr>{cells(header, 'th')}</tr></thead>"
    return f'<div class="scroll" tabindex="0"><table>{head}\n<tbody>\n{body}\n</tbody></table></div>'


def _kind(cell: str) -> str:
    if cell.startswith("`") and cell.endswith("`"):
        return "command"
    return "short" if len(cell) <= _SHORT else "long"


def _split(line: str) -> list[str]:
    """The cells of a line of a table."""
    _, *cells, _ = _PIPE.split(line)
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _inline(text: str) -> str:
    """Escaped; `code`, and characters after a backslash as they are."""
    made, end = [], 0
    for match in _INLINE.finditer(text):
        sign, code = match.groups()
        made.append(html.escape(text[end : match.start()]))
        made.append(html.escape(sign) if code is None else f"<code>{html.escape(code)}</code>")
        end = match.end()
    return "".join([*made, html.escape(text[end:])])


def fill_page(title: str, introduction: str, origin: str, sections: Sequence[tuple[str, str, str]]) -> str:
    """A whole page.

    Args:
        title: Of the page.
        introduction: A paragraph.
        origin: A line about the page itself.
        sections: Of each an anchor, a title, and its HTML.
    """
    links = "\n".join(f'<li><a href="#{anchor}">{html.escape(name)}</a></li>' for anchor, name, _ in sections)
    bodies = "\n".join(
        f'<section id="{anchor}">\n<h2>{html.escape(name)}</h2>\n{body}\n</section>'
        for anchor, name, body in sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>
{_STYLE}</style>
</head>
<body>
<header>
<h1>{html.escape(title)}</h1>
<p>{html.escape(introduction)} The paper: <a href="{PAPER}">Evaluating Long-Term Memory in 3D Mazes</a>.</p>
<p class="origin">{html.escape(origin)}</p>
</header>
<nav aria-label="Contents">
<ul>
{links}
</ul>
</nav>
<main>
{bodies}
</main>
</body>
</html>
"""


# Whatever slips into the page, it neither runs nor loads anything.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """\
:root { color-scheme: light; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 68rem; background: #fff; color: #1c1c1c;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0 0 .6rem; font-size: 1.9rem; line-height: 1.2; }
h2 { margin: 3rem 0 1rem; padding-top: .9rem; border-top: 2px solid #1c1c1c; font-size: 1.45rem;
  line-height: 1.25; }
h3 { margin: 2rem 0 .6rem; font-size: 1.1rem; }
p { margin: .7rem 0; max-width: 52rem; overflow-wrap: anywhere; }
a { color: #0a58a8; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: #f3f3f3;
  padding: .08em .3em; border-radius: 3px; overflow-wrap: anywhere; }
.origin { color: #555; font-size: .9rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .45rem; margin: 1.2rem 0 0; padding: 0; list-style: none; }
nav a { display: block; padding: .3rem .7rem; border: 1px solid #ccc; border-radius: 1rem;
  text-decoration: none; }
nav a:hover, nav a:focus { border-color: #0a58a8; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; margin: .4rem 0; font-size: .88rem; line-height: 1.4; }
th, td { padding: .32rem .65rem; border-bottom: 1px solid #e2e2e2; text-align: left; vertical-align: top; }
th { border-bottom: 1.5px solid #1c1c1c; font-weight: 600; vertical-align: bottom; }
.long { min-width: 9rem; }
.command { min-width: 18rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number, td.short { white-space: nowrap; }
td code { background: none; padding: 0; }
tbody tr:hover { background: #f7f9fb; }
figure { margin: 1.6rem 0; }
img { display: block; width: 100%; height: auto; }
figcaption { margin-top: .4rem; color: #444; font-size: .92rem; max-width: 52rem; }
@media (max-width: 44rem) {
  body { padding: 1rem .9rem 3rem; }
  h1 { font-size: 1.5rem; }
  figure img { width: 38rem; max-width: none; }
}
@media print {
  @page { margin: 14mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  h2 { margin-top: 1.6rem; }
  figure, tr { break-inside: avoid; }
  figure img { width: 100%; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; }
  th, td { padding: .2rem .35rem; }
  .long, .command { min-width: 0; }
}
"""
