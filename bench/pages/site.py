"""The site's hooks (mkdocs.yml): pages that lie outside of docs/, and links as they are there and on the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "README.md": "index.md",
    "bus/PROTOCOL.md": "protocol.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    **{f"bench/results/{name}.md": f"internals/{name}.md" for name in ("drills", "memory", "speed")},
}
"""File of the project -> page of the site."""
_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # noqa: PLC0415 - of the extra `docs`, which tests go without

    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Have links lead to pages; what is no page, a file of the source, is named and not linked."""
    uri = page.file.src_uri
    here = posixpath.dirname(next((path for path, known in OUTSIDE.items() if known == uri), f"docs/{uri}"))

    def led(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(here, target))
        known = OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if known is None:
            return f"`{path}`" if posixpath.basename(path) in text else text
        return f"[{text}]({posixpath.relpath(known, posixpath.dirname(uri) or '.')}{anchor})"

    return _LINK.sub(led, markdown)
