"""Every file that the program reads may come from anybody: each either works or is refused in one line.

Nothing in one is run, and no name in one leads to another file.
"""

import copy
import json
import math
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.boundary.conftest import RUN, UTILITY, policy
from tests.boundary.saying import answer, is_one_line, refused, works, works_or_one_line

from perepisode import safe_io
from perepisode.agents import card
from perepisode.config import ConfigError
from perepisode.methods import esr_distilled
from perepisode.report import links, page
from perepisode.report.statistics import curves, distilled
from perepisode.runs import RunFolder
from perepisode.study import packing, plan, slurm, state
from perepisode.training.checkpoints import Checkpoints
from perepisode.zoo import agent_file

WRONG = (
    None, True, -1, 0, 1.5, 10**400, math.nan, math.inf, -1e308, "", "x", "../../etc/passwd", "\x1b[31mred", "a\nb",
    "<script>alert(1)</script>", "os:system", "$(touch pwned)", [], [[]], {}, {"a": {}}, [1] * 5000,
)  # fmt: skip


def places(plain: Any, path: tuple = ()) -> Iterator[tuple]:
    """The way to everything in a JSON value, of a list its first two entries."""
    yield path
    inside = plain.items() if isinstance(plain, dict) else enumerate(plain[:2]) if isinstance(plain, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


def changed(plain: Any, path: tuple, value: Any) -> Any:
    if not path:
        return value
    made = copy.deepcopy(plain)
    *way, last = path
    at = made
    for key in way:
        at = at[key]
    at[last] = value
    return made


def mutants(plain: Any) -> Iterator[str]:
    """Texts of what this JSON could have been: each place with each wrong value or left out; cut short; too deep."""
    for path in places(plain):
        for value in WRONG:
            yield json.dumps(changed(plain, path, value))
        if path and isinstance(path[-1], str):
            without = changed(plain, path, None)
            at = without
            for key in path[:-1]:
                at = at[key]
            del at[path[-1]]
            yield json.dumps(without)
    whole = json.dumps(plain)
    yield from (whole[:cut] for cut in range(0, len(whole), max(1, len(whole) // 7)))
    yield from ("[" * 100_000, '{"a":' * 50_000, "1" * 5000, "\x00", "\ufeff" + whole, "nul", whole + whole)


def tried(path: Path, plain: Any, function, *given) -> tuple[int, int]:
    """(worked, refused) of all mutants of a file."""
    found = [path.write_text(text, errors="surrogatepass") and works(function, *given) for text in mutants(plain)]
    for bad in (b"\xff\xfe" + json.dumps(plain).encode("utf-16-le"), b"\x80\x81", os.urandom(64)):
        path.write_bytes(bad)
        assert not works(function, *given)
    path.unlink()
    os.mkfifo(path)  # which would wait for ever to be read
    assert not works(function, *given)
    path.unlink()
    path.symlink_to("/dev/zero")
    assert not works(function, *given)
    return sum(found), len(found) - sum(found)


def test_run_json(folder):
    path = folder.path / "run.json"
    whole = json.loads(path.read_text())

    def loaded():
        run, _ = folder.load()
        assert run.to_json() == RUN.to_json()  # what may differ decides no result: versions, device, label

    _, not_ = tried(path, whole, loaded)
    assert not_ > 500


def test_policy(folder):
    path, about = folder.path / "policy.safetensors", folder.path / "policy.json"
    whole, told = path.read_bytes(), json.loads(about.read_text())
    for cut in range(0, len(whole), len(whole) // 10):
        path.write_bytes(whole[:cut])
        assert not works(folder.load)
    path.write_bytes(whole)
    tried(about, told, folder.load)


HEADERS = (
    b"{}", b"[]", b"null", b'{"a":{"dtype":"F32","shape":[9999999999],"data_offsets":[0,4]}}', b"[" * 50_000,
    b'{"a":{"dtype":"XX","shape":[1],"data_offsets":[0,4]}}',
)  # fmt: skip


@pytest.mark.parametrize("header", HEADERS)
def test_a_policy_that_vouches_for_itself_is_refused_all_the_same(folder, header):
    import hashlib

    content = len(header).to_bytes(8, "little") + header + b"\0\0\0\0"
    (folder.path / "policy.safetensors").write_bytes(content)
    (folder.path / "policy.json").write_text(json.dumps({"sha256": hashlib.sha256(content).hexdigest()}))
    assert "Traceback" not in refused("evaluate", folder.path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_policy_that_is_not_finite_is_refused(folder, value):
    from perepisode.runs import save_policy

    save_policy(folder.path, RUN, {name: np.full_like(x, value) for name, x in policy().items()})
    assert "non-finite values" in refused("evaluate", folder.path)


def test_utilities(tmp_path):
    path = tmp_path / "utility.json"
    for function in (lambda path: esr_distilled.read(safe_io.read_bytes(path, "")), distilled.read):
        worked, not_ = tried(path, UTILITY, function, path)
        path.unlink()
        assert not_ > 300
        assert worked < not_ / 5  # another whole number, and what it is called


def test_study_json_and_its_tasks(study):
    path = study / "study.json"
    whole = json.loads(path.read_text())
    whole["tasks"] = [*whole["tasks"][:1], *whole["tasks"][-2:]]
    whole["tasks"][0]["members"] = whole["tasks"][0]["members"][:1]
    whole["tasks"][-1]["after"] = ["train-01"]
    path.write_text(json.dumps(whole))
    assert works_or_one_line("study", "status", "--out", study)

    def looked_at():
        found = plan.load(study)
        state.read(found, study)

    worked, not_ = tried(path, whole, looked_at)
    assert not_ > 200
    assert worked  # the run's own values are not needed to look on


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tasks", 0, "name"), "../../../tmp/x"),
        (("tasks", 0, "name"), "train-01$(touch pwned)"),
        (("tasks", 0, "name"), "train-01; touch pwned"),
        (("tasks", 0, "name"), "-rf"),
        (("tasks", 0, "members", 0, "folder"), "../../other"),
        (("tasks", 0, "members", 0, "folder"), "/etc"),
        (("tasks", 0, "members", 0, "folder"), ".."),
        (("tasks", 0, "dilemma"), "../x"),
        (("tasks", 0, "kind"), "system"),
        (("tasks", 1, "name"), "train-01"),
        (("tasks", 0, "after"), ["report"]),
    ],
)
def test_names_in_a_study_are_names_and_nothing_else(study, place, value):
    """They become names of files and words of a script that a cluster runs."""
    path = study / "study.json"
    path.write_text(json.dumps(changed(json.loads(path.read_text()), place, value)))
    for command in ("status", "submit"):
        extra = ["--env", "temptation", "--seeds", "7", "--dry-run"] if command == "submit" else []
        assert "describes no study" in refused("study", command, "--out", study, *extra)
    assert not list(study.parent.glob("**/pwned"))


@pytest.mark.parametrize("name", ["done", "failed", "beat", "log"])
def test_what_a_task_leaves(study, name):
    """Looked at while anybody may write there."""
    path = study / "tasks" / "train-02" / name
    path.parent.mkdir(parents=True)
    about = {"host": "elsewhere", "pid": 3, "time": 1e12, "job": None, "reason": "x", "after": ["exact"]}
    found = plan.load(study)
    for text in mutants(about):
        path.write_text(text, errors="surrogatepass")
        state.read(found, study)
    path.write_text(json.dumps({**about, "reason": "\x1b[2Jgone"}) if name != "log" else "\x1b[2Jgone")
    _, out, _ = answer("study", "status", "--out", study)
    assert "\x1b" not in out


def test_metrics(folder):
    row = {"update": 1, "steps": 320, "return": 1.0, "violations": 0.5, "lambda": 0.1, "clock": {"steps_per_second": 9}}
    task = plan.Task("train-01", "train", members=(plan.Member.of(RUN),))
    for text in mutants(row):
        lines = (json.dumps(row), text, json.dumps({**row, "steps": 640}))
        folder.metrics.write_text("\n".join(lines), errors="surrogatepass")
        assert works(curves.read, [folder.path]) or "\x00" in text
        state.progress(task, folder.path.parents[1])
        folder.truncate_metrics(1)
    folder.metrics.write_bytes(b"\xff\xfe\x00")
    assert not works(curves.read, [folder.path])


def test_titles_optima_benchmarks_and_jobs(tmp_path, monkeypatch):
    optimum = {"label": "k=1", "kind": "esr", "return": 1.0, "mean_violations": 0.5, "cvar": 1.0, "p_over": 0.1,
               "distribution": [0.5, 0.5]}  # fmt: skip
    row = {"num_envs": 16, "hidden_size": 8, "runs": 3, "steps_per_second": 1e5, "peak_bytes": 1e6}
    monkeypatch.setattr(slurm.subprocess, "run", lambda words, **_: _no_job(words))
    (tmp_path / "slurm").mkdir()
    for name, plain, function, given in (
        (links.TITLES, ["a", "b"], links.titles, tmp_path),
        ("exact.json", [optimum], page._read_exact, [tmp_path / "exact.json"]),
        ("bench.json", {"training": [row]}, lambda path: packing.bench_of(path, RUN), tmp_path / "bench.json"),
        ("slurm/jobs.json", {"train": "17"}, slurm.queued, tmp_path),
    ):
        _, not_ = tried(tmp_path / name, plain, function, given)
        assert not_ > 20, name


def _no_job(words):
    assert all(isinstance(word, str) for word in words)
    return type("Answer", (), {"returncode": 1, "stdout": ""})


def rewritten(agent: agent_file.AgentFile, about: dict) -> None:
    """Other words, each file vouching for the other again."""
    from safetensors.numpy import load, save

    content = save(load(agent.path.read_bytes()), metadata={"json": agent_file._digest(about)})
    about["policy"]["sha256"] = agent_file.hashlib.sha256(content).hexdigest()
    agent.path.write_bytes(content)
    agent.sibling(".json").write_text(json.dumps(about))


def test_agent_files_that_vouch_for_themselves(agent):
    """Not damaged but made up: the digests of both files are right."""
    whole, worked = json.loads(agent.sibling(".json").read_text()), 0
    for path in places(whole):
        for value in (None, -1, math.nan, "x", "\x1b]0;title\x07", [], {}):
            about = changed(whole, path, value)
            if not isinstance(about, dict) or not isinstance(about.get("policy"), dict) or path == ("policy", "sha256"):
                continue
            try:
                rewritten(agent, about)
            except ValueError:
                continue  # what JSON cannot say
            if works(card.render, agent_file.AgentFile(agent.path)):
                assert "\x1b" not in card.render(agent_file.AgentFile(agent.path))
                worked += 1
    assert worked


def test_agent_files_that_are_no_json(agent):
    for text in ("[" * 100_000, "", "null", "[]", '{"format": 1}', "{" + '"a":{' * 9999):
        agent.sibling(".json").write_text(text)
        refused("agents", "card", agent.path)


def test_a_run_that_names_somebody_elses_class_imports_nothing(folder, agent, monkeypatch):
    """Even if the module lies where one stands, and the id is right: `module:Class` is for command lines alone."""
    monkeypatch.chdir(folder.path.parent)
    Path("evil.py").write_text("open('pwned', 'w')")
    path = folder.path / "run.json"
    whole = json.loads(path.read_text())
    for key in ("env", "method"):
        path.write_text(json.dumps({**whole, key: "evil:World"}))
        said = refused("evaluate", folder.path)
        assert "evil:World" in said
        assert "PEREPISODE_PLUGINS" in said
        about = json.loads(agent.sibling(".json").read_text())
        rewritten(agent, {**about, "run": {**about["run"], key: "evil:World"}})
        assert "evil:World" in refused("evaluate", agent.path)
        rewritten(agent, about)
    assert "evil" not in sys.modules
    assert not Path("pwned").exists()


def test_workers_take_no_module_from_where_one_stands(tmp_path, monkeypatch):
    """A study's folder may hold a `json.py`; processes that are started do not look there."""
    import subprocess

    from perepisode.study.local import WORKER

    (tmp_path / "json.py").write_text("open('pwned', 'w')")
    ended = subprocess.run([*WORKER, str(tmp_path), "x"], cwd=tmp_path, capture_output=True, text=True)
    assert "holds no study" in ended.stdout + ended.stderr
    assert not (tmp_path / "pwned").exists()


def test_links_do_not_lead_out_of_a_run_folder(folder, tmp_path):
    (tmp_path / "secret").write_text("the secret")
    for name in ("run.json", "utility.json", "policy.safetensors", "failed"):
        path, kept = folder.path / name, tmp_path / f"kept-{name}"
        if path.exists():
            shutil.move(path, kept)
        path.symlink_to(tmp_path / "secret")
        (folder.path / "done").rename(tmp_path / "done")
        _, out, err = answer("evaluate", folder.path)
        (tmp_path / "done").rename(folder.path / "done")
        if name != "utility.json":
            assert is_one_line(err)
        assert "the secret" not in out + err
        with pytest.raises(ConfigError, match="is a link out of its folder"):
            _ = RunFolder(folder.path)._file(name)
        path.unlink()
        if kept.exists():
            shutil.move(kept, path)


def test_a_name_with_escape_codes_is_shown_as_it_is(tmp_path):
    for name in ("\x1b[31mred", "a\rb", "a\nb", "\u202egpj"):
        said = refused("evaluate", tmp_path / name)
        assert "does not exist" in said
    assert "\\x1b[31mred" in refused("report", tmp_path / "\x1b[31mred.csv")


@pytest.mark.parametrize("title", ["k ≤ 1 … †", "💥 C:\\build\\run", "a\tb", "2\u2009000\u202fsteps", "<b>\n"])
def test_ordinary_text_is_no_control_character(tmp_path, title):
    (tmp_path / links.TITLES).write_text(json.dumps([title]))
    assert links.titles(tmp_path) == [title]
    (tmp_path / links.TITLES).write_text(json.dumps([title], ensure_ascii=False))
    assert links.titles(tmp_path) == [title]


@pytest.mark.parametrize("title", ["\x1b[31m", "a\rb", "\x9b1m", "\u202eabc", "\ud800", "\x07", "\x7f"])
def test_what_steers_a_terminal_is_refused_wherever_it_stands(tmp_path, title):
    path = tmp_path / "any.json"
    for plain in ({title: 1}, {"a": [{"b": title}]}):
        path.write_text(json.dumps(plain))
        with pytest.raises(ConfigError, match="control characters"):
            safe_io.read_json(path, "")


def test_checkpoints(tmp_path):
    """Whatever is cut or changed in the newest, training goes on from it if it is whole, or from the one before."""
    like = {"weights": np.arange(60.0), "update": np.int32(3)}
    saved = Checkpoints(tmp_path / "whole")
    for update in (1, 2):
        saved.save(update, {**like, "update": np.int32(update)})
        saved.wait()
    saved.close()
    random, found = np.random.default_rng(0), set()
    inside = sorted(path for path in (tmp_path / "whole" / "2").rglob("*") if path.is_file())
    for number, name in enumerate(path.relative_to(tmp_path / "whole") for path in inside):
        shutil.copytree(tmp_path / "whole", again := tmp_path / str(number))
        content = bytearray((again / name).read_bytes())
        (again / name).write_bytes(content[: int(random.integers(0, max(1, len(content))))])
        checkpoints = Checkpoints(again)
        restored = checkpoints.restore(like, lambda _: None)
        checkpoints.close()
        found.add(int(restored["update"]))
        np.testing.assert_array_equal(restored["weights"], like["weights"])
    assert found == {1, 2}
