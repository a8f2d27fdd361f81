"""Makes matplotlib's SVG fit for a page or a file: no metadata, no outside references, names on series, tooltips on marks."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
ET.register_namespace("", SVG)
ET.register_namespace("xlink", XLINK)


def clean(text: str, titles: Mapping[str, Sequence[str]], label: str) -> ET.Element:
    """Drops metadata, size and the ids that nothing refers to, and names the picture.

    `titles` gives, for the id of a group of marks, the tooltip of each mark in order. `<allocator>--...` becomes the class `s-<allocator>`.
    """
    root = ET.fromstring(text)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for group in root.iter(f"{{{SVG}}}g"):
        name = group.attrib.pop("id", "")
        if name in titles:
            group.set("class", f"series s-{name.split('--')[0]}")
            marks = list(group.iter(f"{{{SVG}}}use"))
            for use, words in zip(marks, titles[name], strict=False):
                ET.SubElement(use, f"{{{SVG}}}title").text = words
            # The attributes that all marks of a group share are written once.
            styles = {use.get("style") for use in marks}
            if len(styles) == 1 and None not in styles:
                group.set("style", styles.pop() or "")
                for use in marks:
                    del use.attrib["style"]
    root.attrib.pop("width", None)
    root.attrib.pop("height", None)
    root.set("role", "img")
    root.set("aria-label", label)
    return root


def inline(root: ET.Element, colours: Mapping[str, str]) -> str:
    """Prepares an SVG for a page: without namespaces, which HTML does not need, and with the given colours replaced, for example by CSS variables."""
    text = ET.tostring(root, encoding="unicode")
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    for old, new in colours.items():
        text = text.replace(old, new)
    return _shortened(re.sub(r">\s+<", "><", text))


def alone(picture: str, colours: Mapping[str, str], text: str) -> str:
    """Makes a file from the result of inline(): with a size, and with `colours` replaced; `text` is the colour of text."""
    for old, new in colours.items():
        picture = picture.replace(old, new)
    corner = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)
    size = f' width="{float(corner[1]):.0f}" height="{float(corner[2]):.0f}"' if corner else ""
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + picture.replace("<svg ", f'<svg xmlns="{SVG}" fill="{text}"{size} ', 1) + "\n"


def standalone(root: ET.Element, width: float, height: float) -> str:
    """Prepares an SVG for a file: with its size in pixels."""
    root.set("width", f"{width:.0f}")
    root.set("height", f"{height:.0f}")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _shortened(re.sub(r">\s+<", ">\n<", ET.tostring(root, encoding="unicode"))) + "\n"


def _shortened(text: str) -> str:
    """Rounds coordinates to a hundredth of a point, which is too fine to be seen."""
    return re.sub(r' (?:x|y|d)="[^"]*"', lambda attribute: re.sub(r"(\.\d\d)\d+", r"\1", attribute[0]), text)
