"""What README.md and the pages of docs/ tell their readers to type works."""

import shutil

import pytest
from referee import documents, java

DOCUMENTS = ["README.md", "docs/clients.md", "docs/operations.md", "docs/sql.md"]
# Languages whose programs are not run everywhere; each has a test of its own.
APART = {"java": lambda: java.driver(), "go": lambda: shutil.which("go")}


def marked(name):
    found = documents.blocks(documents.REPOSITORY / name)
    assert any(b.kind == "run" for b in found), f"{name} marks no block to run"
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_readme(binary, tmp_path, name):
    documents.play([b for b in marked(name) if b.program not in APART], binary, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", APART)
def test_programs(binary, tmp_path, language):
    """The programs in Java and Go of docs/clients.md."""
    some = [b for b in marked("docs/clients.md") if b.kind == "serve" or b.program == language]
    assert any(b.kind == "run" for b in some), f"no program in {language}"
    if not APART[language]():
        pytest.skip(java.MISSING if language == "java" else "needs go")
    documents.play(some, binary, tmp_path)
