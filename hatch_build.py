"""Build hook: the README as the page of a package index, which has none of this repository's files.

Links and images with an address of their own stay.  Relative ones lead to the version's tag in the repository that
`[project.urls]` names.  While it names none, a link is followed by its path in the source distribution, and an image
is left out.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = r"\((?![a-z][a-z0-9+.-]*:|#)([^)\s#]+)(#[^)\s]*)?\)"
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
IMAGE = re.compile(rf"!\[([^\]]*)\]{RELATIVE}")
LINK = re.compile(rf"(?<!!)\[([^\]]+)\]{RELATIVE}")


def package_page(readme: str, repository: str | None, version: str) -> str:
    """The README with absolute addresses, or with paths in place of links; code is left as it is."""
    at = f"{repository}/{{kind}}/v{version}/".format
    image = rf"![\1]({at(kind='raw')}\2)" if repository else ""
    link = rf"[\1]({at(kind='blob')}\2\3)" if repository else r"\1 (`\2`)"
    parts = CODE.split(readme)
    parts[::2] = [LINK.sub(link, IMAGE.sub(image, text)) for text in parts[::2]]
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


class PackagePage(MetadataHookInterface):
    """Fills the `readme` that pyproject.toml declares as dynamic."""

    def update(self, metadata: dict) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = package_page(readme, metadata.get("urls", {}).get("Repository"), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
