"""Links between documents lead to files that are there, and to headings that these have."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def headings(document: Path) -> set[str]:
    """As they stand in an address: in small letters, without what is no letter, with hyphens for spaces."""
    lines = FENCES.sub("", document.read_text(encoding="utf-8")).splitlines()
    found = [line.lstrip("#").strip().lower() for line in lines if re.match(r"#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", words)).replace(" ", "-") for words in found}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_leads_somewhere(document: Path):
    lost = []
    for place, heading in LINK.findall(FENCES.sub("", document.read_text(encoding="utf-8"))):
        target = document.parent / place if place else document
        if not target.exists() or (heading and target.suffix == ".md" and heading not in headings(target)):
            lost.append(f"{place}#{heading}" if heading else place)
    assert lost == []
