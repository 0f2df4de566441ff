"""MkDocs hook: add verify.py, the checker of proof files, to the site from its one place in the package."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

CHECKER = Path(__file__).parents[1] / "src" / "dualgap" / "proof" / "verify.py"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the files of the site with the checker among them."""
    files.append(File.generated(config, CHECKER.name, abs_src_path=str(CHECKER)))
    return files
