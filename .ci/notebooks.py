"""Executes every notebook in examples/notebooks and stores its outputs: `make notebooks`."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

for path in sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    language = dict(notebook.metadata.language_info)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=600, record_timing=False, resources=resources).execute()
    notebook.metadata.language_info = language  # without the version of the Python that happened to run it
    nbformat.write(notebook, path)
    print(f"executed {path.name}")
