"""Agent files: the round trip is exact; damaged, edited, newer or foreign files are refused in one line."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from perepisode import agents, cli, metrics
from perepisode.agents import card
from perepisode.agents.export import export
from perepisode.config import ConfigError
from perepisode.environments.reset_pool import action_key, step_key
from perepisode.evaluation import episodes
from perepisode.evaluation.rollout import evaluate
from perepisode.replay.episode import key_of
from perepisode.zoo import agent_file, registry
from perepisode.zoo.agent_file import AgentFile


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    """Commands write their default output here."""
    monkeypatch.chdir(tmp_path)


def refusal(capsys, *arguments) -> str:
    """The one-line error message of a command."""
    with pytest.raises(SystemExit) as end:
        cli.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert end.value.code == 2
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err
    return printed.err


def test_an_exported_agent_is_its_run(folder, agent):
    run, weights = agent.load()
    original, exact = folder.load()
    assert run == original
    assert run.id == agent.metadata["run"]["id"]
    for name in (name for name in exact if not name.startswith("critic")):
        level = np.abs(exact[name]).max(axis=-1, keepdims=True) / 127
        assert (np.abs(weights[name] - exact[name]) <= 0.5 * level * (1 + 1e-5)).all(), name


def test_its_numbers_are_its_tables(folder, agent):
    table = episodes.read(folder.path.parent / "episodes.parquet")
    own = table[table["in_first"]]
    evaluation = agent.metadata["evaluation"]
    assert evaluation["episodes"] == len(own) == 24
    assert evaluation["return"] == pytest.approx(own["return"].mean(), abs=1e-5)
    assert evaluation["cvar"] == pytest.approx(np.sort(own["violations"])[-3:].mean(), abs=1e-5)
    assert evaluation["p_over_1"] == pytest.approx((own["violations"] > 1).mean(), abs=1e-5)
    assert evaluation["protocol"] == {"num_envs": 8, "num_steps": 160, "episodes_per_env": 3, "seed": 0}
    counts = np.repeat(np.arange(len(evaluation["distribution"])), evaluation["distribution"])
    assert metrics.mean(counts) == pytest.approx(evaluation["violations"], abs=1e-5)


def test_its_card_has_its_evaluation_and_its_limitations(agent):
    text = agent.sibling(".md").read_text()
    assert text == card.render(agent)
    evaluation = agent.metadata["evaluation"]
    numbers = f"{evaluation['return']:.2f}", f"{evaluation['cvar']:.2f}"
    for expected in (*numbers, "must not be used", "P(> 1)", agent.path.name):
        assert expected in text
    assert "{" not in text
    assert str(agent.path.parent) not in text  # a local path means nothing to others


def same_json(first: bytes, second: bytes) -> bool:
    try:
        return json.loads(first) == json.loads(second)
    except ValueError:
        return False


def test_a_flipped_byte_anywhere_is_refused(agent):
    random = np.random.default_rng(0)
    for path in (agent.path, agent.sibling(".json")):
        whole = path.read_bytes()
        for index in random.integers(0, len(whole), 40):
            damaged = bytearray(whole)
            damaged[index] ^= 1 << int(random.integers(8))
            path.write_bytes(damaged)
            if path != agent.path and same_json(damaged, whole):
                continue  # only white space changed
            with pytest.raises(ConfigError) as refused:
                AgentFile(agent.path).load()
            assert "\n" not in str(refused.value)
        path.write_bytes(whole)
    AgentFile(agent.path).load()


def test_an_edited_number_is_refused(agent, capsys):
    metadata = json.loads(agent.sibling(".json").read_text())
    metadata["evaluation"]["cvar"] = 0.0
    agent.sibling(".json").write_text(json.dumps(metadata))
    assert "was changed after" in refusal(capsys, "agents", "card", agent.path)


def test_a_truncated_file_and_a_missing_one_are_refused(agent, capsys):
    whole = agent.path.read_bytes()
    agent.path.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in refusal(capsys, "evaluate", agent.path)
    agent.sibling(".json").unlink()
    assert "cannot be read" in refusal(capsys, "evaluate", agent.path)


def rewritten(agent, change):
    """The same agent with other tensors or metadata, and valid digests."""
    from safetensors.numpy import load, save

    metadata, tensors = dict(agent.metadata), load(agent.path.read_bytes())
    change(metadata, tensors)
    metadata["policy"] = {key: value for key, value in metadata["policy"].items() if key != "sha256"}
    content = save(tensors, metadata={"json": agent_file._digest(metadata)})
    metadata["policy"]["sha256"] = agent_file.hashlib.sha256(content).hexdigest()
    agent.path.write_bytes(content)
    agent.sibling(".json").write_text(json.dumps(metadata))


def test_a_newer_format_is_refused(agent, capsys):
    rewritten(agent, lambda metadata, tensors: metadata.update(format=3))
    assert "has format 3, this version reads 1 and 2; update perepisode" in refusal(capsys, "evaluate", agent.path)


def test_a_policy_that_does_not_fit_its_network_is_refused(agent, capsys):
    def narrower(metadata, tensors):
        tensors["actor.2.0"] = np.ascontiguousarray(tensors["actor.2.0"][:, :1])

    rewritten(agent, narrower)
    said = refusal(capsys, "evaluate", agent.path)
    assert "does not fit this network at actor.2.0: it is float32 " in said
    assert ", the network needs float32 " in said


def test_a_run_that_was_edited_is_refused(agent, capsys):
    def cheaper(metadata, tensors):
        metadata["run"] = {**metadata["run"], "seed": 4}

    rewritten(agent, cheaper)
    assert "its configuration gives" in refusal(capsys, "evaluate", agent.path)


def test_a_run_in_an_unknown_environment_is_refused(agent, capsys):
    def elsewhere(metadata, tensors):
        metadata["run"] = {**metadata["run"], "env": "atlantis"}

    rewritten(agent, elsewhere)
    message = refusal(capsys, "evaluate", agent.path)
    assert f"{agent.path.stem}.json: env 'atlantis' is unknown; choose from craftax" in message
    assert "PEREPISODE_PLUGINS=my_module" in message


def test_an_unknown_name_is_refused_with_the_known_ones(capsys):
    message = refusal(capsys, "watch", "no_killing/esr-k9")
    assert "no_killing/esr-k1" in message


def test_a_file_of_another_kind_is_refused(tmp_path, capsys):
    (tmp_path / "x.safetensors").write_bytes(b"\x80\x04\x95cos\nsystem\n")
    (tmp_path / "x.json").write_text("[" * 100_000)
    assert "x.json is damaged" in refusal(capsys, "evaluate", tmp_path / "x.safetensors")


def test_an_export_needs_episodes_and_a_file_name(folder, tmp_path, capsys):
    alone = tmp_path / "alone" / folder.path.name
    shutil.copytree(folder.path, alone)
    assert "perepisode evaluate" in refusal(capsys, "agents", "export", alone, "--out", tmp_path / "a.safetensors")
    assert ".safetensors" in refusal(capsys, "agents", "export", folder.path, "--out", tmp_path / "a.npz")


def test_agents_are_accepted_like_run_folders(folder, agent, tmp_path, monkeypatch, capsys):
    """By file, and by name once bundled: evaluate, report and watch."""
    bundled = tmp_path / "bundled" / "temptation"
    bundled.mkdir(parents=True)
    for path in agent.path.parent.glob("esr-k1.0.*"):
        shutil.copy(path, bundled)
    monkeypatch.setattr(registry, "BUNDLED", bundled.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    registry.bundled.cache_clear()
    assert agents.names() == ("temptation/esr-k1.0",)

    evaluate(
        ["temptation/esr-k1.0"],
        tmp_path / "by_name.parquet",
        num_envs=4,
        num_steps=80,
        episodes_per_env=2,
        log=lambda _: None,
    )
    evaluate(
        [agent.path], tmp_path / "by_file.parquet", num_envs=4, num_steps=80, episodes_per_env=2, log=lambda _: None
    )
    by_name, by_file = (episodes.read(tmp_path / f"by_{how}.parquet") for how in ("name", "file"))
    assert by_name.equals(by_file)
    assert set(by_name["run"]) == {folder.read().id}

    for name in ("temptation/esr-k1.0", str(agent.path)):
        with pytest.raises(SystemExit) as end:
            cli.main(["report", str(tmp_path / "by_name.parquet"), "--runs", name, "--out", str(tmp_path / "report")])
        assert end.value.code == 0
        assert (tmp_path / "report" / "data" / "training_temptation.csv").exists()

    outputs = []
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            cli.main(["watch", "temptation/esr-k1.0", "--worst", "2", "--out", str(tmp_path / "watch")])
        assert end.value.code == 0
        outputs.append(capsys.readouterr().out)
    assert "has not been evaluated on this machine" in outputs[0]
    assert "has not been evaluated" not in outputs[1]
    assert all(output.count("reproduced exactly") == 2 for output in outputs)
    registry.bundled.cache_clear()


def test_a_local_folder_is_not_mistaken_for_a_bundled_agent(folder, tmp_path, monkeypatch):
    shutil.copytree(folder.path, tmp_path / "no_killing" / "esr-k1")
    monkeypatch.chdir(tmp_path)
    assert agents.find_one("no_killing/esr-k1").read() == folder.read()


def test_acting_by_hand_equals_the_evaluation(agent, tmp_path):
    """A user's loop with an episode's own keys takes the actions recorded in the episodes table."""
    evaluate(
        [agent.path], tmp_path / "episodes.parquet", num_envs=3, num_steps=120, episodes_per_env=3, log=lambda _: None
    )
    table = episodes.read(tmp_path / "episodes.parquet")
    played = agents.load(agent.path)
    step = jax.jit(played.env.step)
    for _, row in table.iterrows():
        episode, state, carry = (
            key_of(row, "episode_key"),
            played.env.reset(key_of(row, "reset_key")),
            played.initial_carry(),
        )
        taken, task_return = [], np.float32(0)
        for time in range(row["length"]):
            action, carry = played.act(carry, state, action_key(episode, time))
            state, outcome = step(step_key(episode, time), state, action)
            carry = played.update(carry, outcome)
            taken.append(int(action))
            task_return += np.float32(outcome.task_reward)
        assert bytes(taken) == row["actions"]
        assert task_return == pytest.approx(row["return"])
    assert table["violations"].max() > 0


def test_the_loop_on_its_card_plays_one_whole_episode(agent, monkeypatch, capsys):
    """The card's Python code ends with the episode and prints that episode's totals."""
    monkeypatch.chdir(agent.path.parent)
    block = agent.sibling(".md").read_text().split("```python\n")[1].split("```")[0]
    scope = {}
    exec(block, scope)
    task_return, violations = map(float, capsys.readouterr().out.split())
    assert int(scope["state"].time) == 40
    assert task_return >= 40 * 0.5
    assert violations == int(violations) <= 40


def test_the_loop_in_the_documentation_is_the_cards(agent):
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "bundled-agents.md").read_text()
    texts = guide.replace("no_killing/esr-k1", agent.path.name), agent.sibling(".md").read_text()
    blocks = (text.split("```python\n")[1].split("```")[0] for text in texts)
    ours, cards = ([line.split("#")[0].rstrip() for line in block.splitlines()] for block in blocks)
    assert ours == cards


def test_the_same_run_twice_is_refused(folder, agent, tmp_path, capsys):
    message = refusal(capsys, "evaluate", folder.path, agent.path, "--out", tmp_path / "e.parquet")
    assert f"run {folder.read().id} is given 2 times" in message


def test_an_export_replaces_only_its_own(folder, tmp_path, capsys):
    (tmp_path / "thesis.json").write_text("{}")
    out = tmp_path / "thesis.safetensors"
    assert "exists and belongs to no agent" in refusal(capsys, "agents", "export", folder.path, "--out", out)
    assert (tmp_path / "thesis.json").read_text() == "{}"
    table = folder.path.parent / "episodes.parquet"
    export(folder, table, tmp_path / "mine.safetensors")
    export(folder, table, tmp_path / "mine.safetensors").load()


def test_a_truncated_line_of_metrics_and_the_parent_of_a_run_folder_are_accepted(folder, tmp_path):
    parent = tmp_path / "runs"
    shutil.copytree(folder.path.parent, parent)
    (metrics,) = parent.glob("*/metrics.jsonl")
    whole = metrics.read_text()
    metrics.write_text(whole + whole.splitlines()[0][:12])
    with pytest.raises(SystemExit) as end:
        cli.main(["agents", "export", str(parent), "--out", str(tmp_path / "a.safetensors")])
    assert end.value.code == 0
    kept = [json.loads(line) for line in (tmp_path / "a.metrics.jsonl").read_text().splitlines()]
    assert [row["steps"] for row in kept] == [json.loads(line)["steps"] for line in whole.splitlines()]


def test_an_unwritable_cache_only_disables_caching(agent, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["watch", str(agent.path), "--worst", "1"])
    assert end.value.code == 0
    assert "the cache is not writable" in capsys.readouterr().out


def test_a_run_folder_plays_too(folder):
    played = agents.load(folder.path)
    action, _ = played.act(played.initial_carry(), played.env.reset(jax.random.key(0)), jax.random.key(1))
    assert int(action) in (0, 1)


def test_exporting_twice_gives_the_same_files(folder, agent, tmp_path):
    again = export(folder, folder.path.parent / "episodes.parquet", tmp_path / "again" / agent.path.name)
    assert again.path.read_bytes() == agent.path.read_bytes()
    assert again.sibling(".json").read_bytes() == agent.sibling(".json").read_bytes()
