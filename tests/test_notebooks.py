"""The notebooks of examples/notebooks run from top to bottom, and their committed outputs come from such a run."""

import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

HOME = Path(__file__).parents[1] / "examples" / "notebooks"
LIGHT, TRAINED = "judge_your_agents", "train_with_a_budget"


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook) -> list[str]:
    """The output of every cell that is text, tables included."""
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    data = [output.get("data", {"text/plain": output.get("text", "")}) for output in outputs]
    return [output["text/plain"] for output in data if not any(kind.startswith("image/") for kind in output)]


def execute(name: str, folder: Path, *more: str):
    """The notebook after a run in an empty folder, with further cells at its end."""
    notebook = nbformat.read(shutil.copy(HOME / f"{name}.ipynb", folder), as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in more]
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=300, resources=resources).execute()


def test_every_notebook_is_tested():
    assert {path.stem for path in HOME.glob("*.ipynb")} == {LIGHT, TRAINED}


@pytest.mark.parametrize("name", [LIGHT, TRAINED])
def test_committed_outputs_come_from_one_run_from_top_to_bottom(name):
    notebook = nbformat.read(HOME / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run `make notebooks`"
    kinds = {kind for cell in cells for output in cell.outputs for kind in output.get("data", [output.output_type])}
    assert "text/html" in kinds
    shown = [str(output.get("data", "")) for cell in cells for output in cell.outputs]
    assert any("<svg" in data for data in shown)  # a figure, alone or in the page's first screen
    assert not kinds & {"error", "stream"}


def test_evaluating_agents_needs_no_jax_and_gives_the_committed_outputs(tmp_path):
    executed = execute(LIGHT, tmp_path, 'import sys\nassert "jax" not in sys.modules')
    assert texts(executed) == texts(nbformat.read(HOME / f"{LIGHT}.ipynb", as_version=4)), "run `make notebooks`"


def test_an_agent_with_a_budget_is_trained_and_has_the_lighter_tail(tmp_path):
    """Another version of JAX rounds differently, so that only the finding is compared."""
    finding = (
        "cvar = episodes.groupby('method')['violations'].agg(perepisode.metrics.cvar)\nassert cvar.ser > 1.5 * cvar.esr"
    )
    execute(TRAINED, tmp_path, finding)
