"""Publishes files outside of docs/ that the pages link to, as plain text below `source/`; orders search results."""

import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
_LATE = ("decisions/", "performance", "release.md", "soak.md", "safety.md", "compatibility.md")
"""Pages that people rarely search for: they come behind the others."""
_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(?:#[^)\s]*)?\)")
_FILE_NAME = re.compile(r"\[((?:docs/)?[\w/-]+\.md)\]\(([\w./-]+\.md)(?=[#)])")
"""A link whose text is the name of a file; readers of the site see the title of the page."""


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links out of docs/ replaced by links to published copies."""
    if page.file.src_uri.startswith(_LATE):
        page.meta["search"] = {"boost": 0.1}
    up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)

    def replaced(link: re.Match[str]) -> str:
        target = (Path(config.docs_dir, page.file.src_uri).parent / link[1]).resolve()
        # Links within docs/ stay; a link to what is not there is left for the strict build to report.
        if target.is_relative_to(config.docs_dir) or not target.is_relative_to(ROOT) or not target.exists():
            return link[0]
        uri = f"source/{target.relative_to(ROOT).as_posix()}.txt"
        if files.get_file_from_path(uri) is None:
            text = "\n".join(sorted(each.name for each in target.iterdir())) if target.is_dir() else target.read_text()
            files.append(File.generated(config, uri, content=text))
        return f"]({up}{uri})"

    def named(link: re.Match[str]) -> str:
        found = (Path(config.docs_dir, page.file.src_uri).parent / link[2]).resolve()
        title = (
            found.read_text().partition("\n")[0].removeprefix("# ").partition(":")[0] if found.is_file() else link[1]
        )
        return f"[{title}]({link[2]}"

    return _FILE_NAME.sub(named, _LINK.sub(replaced, markdown))
