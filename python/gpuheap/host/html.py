"""Writes the pages of `gpuheap host`: one HTML file each, from the templates in this folder."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from gpuheap import __version__
from gpuheap.files import replace_file
from gpuheap.running.environment import now, spoken


@dataclass(frozen=True)
class Grid:
    """A table: the heads of its columns, the number of first columns that hold text, and its rows."""

    heads: tuple[str, ...]
    word_columns: int
    rows: tuple[tuple[str, ...], ...]


def write_html(path: Path, template: str, **values: Any) -> Path:
    """Writes a page from a template and its values, and returns the path. Raises UserError if it cannot be written."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("gpuheap.host", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    html = environment.get_template(template).render(
        style=Markup((resources.files("gpuheap.report") / "report.css").read_text(encoding="utf-8")),
        version=__version__,
        date=spoken(now()),
        safe=Markup,
        **values,
    )
    replace_file(path, html, "name another file with -o")
    return path
