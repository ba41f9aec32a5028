"""Replays reproduce the table exactly, or report every difference."""

import io
import json
import shutil
from dataclasses import dataclass, replace

import jax
import numpy as np
import pandas as pd
import pytest
from tests.browser import CHROMIUM, DRIVER

from perepisode import environments
from perepisode.config import ConfigError
from perepisode.environments.temptation import TEMPTATION_PPO, Temptation
from perepisode.evaluation import episodes
from perepisode.evaluation.rollout import evaluate
from perepisode.replay import episode as replaying
from perepisode.replay import frames
from perepisode.replay import page as shown_page
from perepisode.replay.episode import differences, replay
from perepisode.replay.penalty_trace import penalty_trace
from perepisode.replay.selection import CANDIDATES, SelectedEpisode, long_with_one, select, worst_first
from perepisode.replay.watch import watch
from perepisode.runs import Run, RunFolder, save_policy
from perepisode.training import population, update
from perepisode.training.train import agent_of, weights

OPTIONS = {"wage": 0.5, "offer_prob": 0.4}  # not the defaults: a replay must read them from the run folder
CONFIG = replace(TEMPTATION_PPO, num_envs=4, num_steps=10, num_minibatches=1, update_epochs=1, hidden_size=8)
HOSTILE = "<img src=x onerror=console.error(1)>"


def untrained(out, run: Run) -> RunFolder:
    """A finished run folder with initial weights."""
    program = update.Program(agent_of(run), 4, 1, 4)
    params = update.initial_params(program, population.gather([run]), [run.seed])
    folder = RunFolder.of(out, run)
    folder.open(run, "cpu")
    folder.finish(run, save_policy(folder.path, run, weights(jax.tree.map(lambda x: x[0], params))))
    return folder


def miniature(method: str, seed: int = 42, **settings) -> Run:
    steps = CONFIG.steps_per_update
    return Run("temptation", "temptation", method, settings, seed, 1.0, steps, env_settings=OPTIONS, config=CONFIG)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two untrained runs and their episodes table."""
    out = tmp_path_factory.mktemp("runs")
    for run in (miniature("esr", budget=1), miniature("esr", seed=7, budget=1)):
        untrained(out, run)
    evaluate([out], out / "episodes.parquet", num_envs=6, num_steps=80, episodes_per_env=2, log=lambda _: None)
    return out


@pytest.fixture(scope="module")
def table(home) -> pd.DataFrame:
    return episodes.read(home / "episodes.parquet")


ENV = environments.make("temptation", **OPTIONS)


def test_every_row_is_reproduced_exactly(table):
    assert len(table) == 24
    assert table["violations"].sum() > 20
    for row in table.to_dict("records"):
        found = replay(row, ENV)
        assert differences(row, found) == []
        assert found.violations.shape == (row["length"], 1)
        assert found.violations.sum() == row["violations"]


def test_steps_against_stepping_by_hand(table):
    """Step by step, with the keys that `reset_pool` defines and without a compiled loop."""
    row = table.loc[3].to_dict()
    found = replay(row, ENV)
    episode = jax.random.wrap_key_data(np.array([int(row["episode_key"][i : i + 8], 16) for i in (0, 8)], np.uint32))
    state, total = ENV.reset(jax.random.fold_in(episode, 0)), np.float32(0)
    for t, action in enumerate(row["actions"]):
        violated = bool(state.present) and action == 1
        reward = np.float32(0.5) + (np.asarray(state.gain) if violated else np.float32(0))
        assert found.violations[t, 0] == violated
        assert found.rewards[t] == reward
        total += reward
        assert found.accrued[t + 1] == total
        state, _ = ENV.step(jax.random.fold_in(episode, 2 * t + 1), state, action)
    assert float(total) == row["return"]


def test_chunks_of_a_long_episode_join_exactly(table, monkeypatch):
    row = table.loc[5].to_dict()
    whole = replay(row, ENV)
    wanted = [0, 1, 8, 15, 16, 17, 39, 40]
    states = next(whole.states(wanted))
    monkeypatch.setattr(replaying, "CHUNK", 8)
    parts = replay(row, ENV)
    np.testing.assert_array_equal(parts.rewards, whole.rewards)
    for name in ("time", "present", "gain"):
        pieces = np.concatenate([getattr(state, name) for state in parts.states(wanted)])
        np.testing.assert_array_equal(pieces, getattr(states, name))
    np.testing.assert_array_equal(states.time, wanted)


@dataclass(frozen=True)
class KeepsItsKey(Temptation):
    """An environment with a random key in its state, like the upstream engine."""

    def reset(self, key):
        return super().reset(key), key

    def step(self, key, state, action):
        after, outcome = super().step(key, state[0], action)
        return (after, key), outcome


def test_states_may_hold_random_keys(table):
    row = table.loc[5].to_dict()
    found = replay(row, KeepsItsKey(**OPTIONS))
    assert differences(row, found) == []
    states, keys = next(found.states([0, 7]))
    assert states.time.tolist() == [0, 7]
    assert np.asarray(jax.random.key_data(keys[0])).astype(">u4").tobytes().hex() == row["reset_key"]


def test_a_changed_action_is_detected(table):
    row = table.loc[0].to_dict()
    step = int(np.flatnonzero(replay(row, ENV).violations[:, 0])[0])
    actions = bytearray(row["actions"])
    actions[step] = 0
    wrong = {one.column: one for one in differences(row, replay({**row, "actions": bytes(actions)}, ENV))}
    assert set(wrong) == {"return", "violations", "violations_temptation", "violations_temptation_paper"}
    assert wrong["violations"].replayed == row["violations"] - 1
    assert f"recorded {row['violations']}" in str(wrong["violations"])


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("return", lambda x: float(np.nextafter(np.float32(x), np.float32(100)))),
        ("violations", lambda x: x + 1),
        ("length", lambda x: x - 1),
        ("end_cause", lambda _: "death"),
        ("info_offers", lambda x: x + 1),
    ],
)
def test_a_changed_number_in_the_row_is_detected(table, column, change):
    row = table.loc[1].to_dict()
    wrong = differences({**row, column: change(row[column])}, replay(row, ENV))
    assert [one.column for one in wrong] == [column]


def test_a_truncated_episode_is_detected(table):
    row = table.loc[2].to_dict()
    cut = replay({**row, "actions": row["actions"][:30]}, ENV)
    assert (cut.length, cut.end_cause) == (30, "running")
    assert {"length", "end_cause"} <= {one.column for one in differences(row, cut)}


def test_the_worst_come_first():
    table = pd.DataFrame({"violations": [1, 3, 0, 3, 3], "return": [5.0, 2.0, 0.0, 1.0, 1.0]})
    assert worst_first(table) == [3, 4, 1, 0, 2]


def test_abstentions_are_looked_for_in_long_episodes_of_agents_with_a_budget():
    methods = ["ser", "esr", "esr", "saute", "esr"]
    table = pd.DataFrame({"method": methods, "violations": [1, 1, 0, 1, 1], "length": [9, 4, 9, 6, 6]})
    assert long_with_one(table) == [3, 4, 1]
    assert long_with_one(table[:1]) == [0]


def test_the_page_shows_the_worst_episodes_as_reproduced(home, table, tmp_path):
    logged = []
    page = watch(home / "episodes.parquet", tmp_path, worst=3, log=logged.append)
    text = page.read_text()
    assert page == tmp_path / "index.html"
    assert text.count('class="verdict">reproduced exactly') == 3
    assert all("reproduced exactly" in line for line in logged)
    assert "Not reproduced" not in text
    first = players(text)[0]
    assert first["violations"][-1] == table["violations"].max()
    assert first["length"] == 40
    assert len(first["film"]["at"]) == 41
    assert f"violation {table['violations'].max()} at step" in text
    assert ": accepts an offer that pays " in text
    assert "Gate σ(12 (1.5 − v))" in text


def test_no_key_is_shown_twice(table, tmp_path):
    """Two agents share 24 keys, and the second has one violation more: its 24 episodes are the worst."""
    other = table.assign(run="b", method="ser", violations=table["violations"] + 1)
    episodes.write(pd.concat([table.assign(run="a"), other]), tmp_path / "episodes.parquet")
    logged = []
    found = select(tmp_path / "episodes.parquet", worst=3, log=logged.append)
    assert [one.row_number for one in found.episodes] == [24 + row for row in worst_first(other)[:3]]
    assert logged == []
    every = select(tmp_path / "episodes.parquet", worst=40, log=logged.append)
    assert {one.row_number for one in every.episodes} == set(range(24, 48))
    assert logged == ["48 episodes share 24 keys; the worst episode of each key is shown"]
    both = select(tmp_path / "episodes.parquet", worst=3, rows=(5, 29), log=logged.append)
    assert [one.row_number for one in both.episodes] == [5, 29]  # as requested


def test_duplicate_episodes_are_shown_once(home, table, tmp_path):
    for name in ("once", "again"):
        episodes.write(table, tmp_path / f"{name}.parquet")
    found = select(tmp_path, worst=4, runs=home, log=lambda _: None).episodes
    assert len({one.row["episode_key"] for one in found}) == 4


def test_the_same_key_with_other_settings_is_another_episode(home, table, tmp_path):
    """The folder of one run is found, with its own settings; the folders of two others are not."""
    row = table.loc[[0]]
    rows = [row, row.assign(run="lost"), row.assign(run="lost too")]
    episodes.write(pd.concat(rows), tmp_path / "episodes.parquet")
    found = select(tmp_path / "episodes.parquet", worst=3, runs=home, log=lambda _: None).episodes
    assert [one.row_number for one in found] == [0, 1]
    assert {**found[0].env_settings, **OPTIONS} == found[0].env_settings
    assert found[1].env_settings == {}


def test_candidates_for_abstaining_exclude_the_worst_episodes(table, tmp_path):
    episodes.write(table.assign(violations=1), tmp_path / "episodes.parquet")
    found = select(tmp_path / "episodes.parquet", worst=5, log=lambda _: None)
    assert not {one.row_number for one in found.episodes} & {one.row_number for one in found.single_violation}
    assert len({one.row_number for one in found.episodes + found.single_violation}) == 5 + CANDIDATES


def test_abstaining_alone(table, tmp_path):
    episodes.write(table.assign(violations=1), tmp_path / "episodes.parquet")
    page = watch(tmp_path / "episodes.parquet", tmp_path / "page", worst=0, abstaining=2, log=lambda _: None)
    assert len(players(page.read_text())) == 2


def test_rows_a_run_folder_and_filters(home, table, tmp_path):
    run = table.loc[20, "run"]
    folder = next(home.glob(f"*{run}"))
    own = watch(folder, tmp_path / "a", worst=100, log=lambda _: None).read_text()
    assert len(players(own)) == (table["run"] == run).sum()
    given = watch(home, tmp_path / "b", row=(4, 2), method="esr", arm="k=1", log=lambda _: None).read_text()
    assert [round(table.loc[row, "return"], 4) for row in (4, 2)] == [one["accrued"][-1] for one in players(given)]


def test_abstaining_by_hand(table):
    """Offers after the first one taken that were not taken, found from the states."""
    seen = 0
    for row in table.to_dict("records"):
        found = replay(row, ENV)
        offered = np.concatenate([state.present for state in found.states(range(found.length))])
        taken = found.violations[:, 0] > 0
        expected = [t + 1 for t in range(found.length) if offered[t] and not taken[t] and taken[:t].any()]
        assert found.abstained("temptation").tolist() == expected
        seen += len(expected)
    assert seen > 50


def test_steps_near_each_other_share_a_button():
    assert [jump.step for jump in shown_page.abstention_jumps(np.array([5, 6, 14, 24, 25, 60]))] == [5, 24, 60]
    assert shown_page.abstention_jumps(np.zeros(0, int)) == []


def test_the_episode_with_most_abstentions_is_shown(tmp_path):
    """After the worst episode comes, among the longest with one violation, the one with the most declined offers."""
    rare = {"offer_prob": 0.08}
    untrained(tmp_path, replace(miniature("esr", budget=1), env_settings=rare))
    evaluate(
        [tmp_path], tmp_path / "episodes.parquet", num_envs=12, num_steps=80, episodes_per_env=2, log=lambda _: None
    )
    table = episodes.read(tmp_path / "episodes.parquet")
    page = watch(tmp_path, tmp_path / "page", worst=1, abstaining=1, log=lambda _: None)
    titles = json.loads(page.with_name("titles.json").read_text())
    assert len(titles) == 2
    assert f"{table['violations'].max()} violations" in titles[0]
    single = table[table["violations"] == 1].index[:CANDIDATES]
    assert len(single) > 3
    env = environments.make("temptation", **rare)
    abstained = {number: len(replay(table.loc[number].to_dict(), env).abstained("temptation")) for number in single}
    best = max(single, key=abstained.__getitem__)
    assert abstained[best] > 0
    text = page.read_text()
    assert f"Abstained in {abstained[best]} step" in text
    assert f"{table.loc[best, 'return']:.2f}" in titles[1]


def test_a_wrong_row_and_a_missing_run_are_named_on_the_page(home, table, tmp_path):
    changed = table.copy()
    changed.loc[0, "violations"] = 99
    changed.loc[1, "run"] = HOSTILE
    episodes.write(changed, tmp_path / "episodes.parquet")
    text = watch(tmp_path / "episodes.parquet", tmp_path / "out", row=(0, 1), runs=home, log=lambda _: None).read_text()
    assert "0 of 2 episodes reproduced exactly; 2 replays differ from the table" in text
    assert "violations: recorded 99, replayed" in text
    assert "folder was not found; the environment has its default settings" in text  # whose wage differs
    assert HOSTILE not in text
    assert "&lt;img src=x" in text


def test_wrong_input_is_refused_in_one_line(home, table, tmp_path):
    def refused(*arguments, **options) -> str:
        with pytest.raises(ConfigError) as caught:
            watch(*arguments, out=tmp_path / "out", **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    source = home / "episodes.parquet"
    assert "does not exist" in refused(tmp_path / "none.parquet")
    assert "is not a run folder" in refused(tmp_path)
    assert "rows 0 to 23" in refused(source, row=(24,))
    assert "rows 0 to 23" in refused(source, row=(-1,))
    assert "no episode of method 'ser'; it has esr" in refused(source, method="ser")
    assert "no episode of arm 'k=9' with method 'esr'" in refused(source, method="esr", arm="k=9")
    assert "worst=0" in refused(source, worst=0)
    assert "no episode of 24 has just one violation" in refused(source, worst=0, abstaining=1)
    assert "does not exist" in refused(source, runs=tmp_path / "none")
    shutil.copytree(next(home.glob("*.s42.*")), tmp_path / "alone" / "run")
    assert "there is no episodes.parquet next to" in refused(tmp_path / "alone" / "run")
    other = table.index[table["run"] != table.loc[0, "run"]][0]
    shutil.copy(source, tmp_path / "alone")
    assert f"row {other} is of run" in refused(tmp_path / "alone" / "run", row=(int(other),))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    assert "not a complete parquet file" in refused(tmp_path / "broken.parquet")
    assert not (tmp_path / "out").exists()


def test_a_table_of_another_program_is_refused(table, tmp_path):
    table.drop(columns="actions").to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ConfigError, match=r"no column 'actions'.*not replayed"):
        watch(tmp_path / "a.csv", tmp_path / "out")
    episodes.write(table.assign(environment="CarGoal"), tmp_path / "b.parquet")
    with pytest.raises(ConfigError, match="environment 'CarGoal'; only craftax, temptation"):
        watch(tmp_path / "b.parquet", tmp_path / "out")
    table.to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(ConfigError, match="actions are not bytes"):
        watch(tmp_path / "c.csv", tmp_path / "out")
    row = table.loc[0].to_dict()
    with pytest.raises(ConfigError, match="action 7 is unknown; temptation has actions 0 to 1"):
        replay({**row, "actions": b"\x00\x07"}, ENV)
    with pytest.raises(ConfigError, match="episode_key='xyz' is not a key"):
        replay({**row, "episode_key": "xyz"}, ENV)


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("esr", {"budget": 1}, [1.0, 1.0, 0.0]),
        ("ser", {"weight": 0.3}, [3.0, 3.0, 3.0]),
        ("lagrangian", {"budget": 0.5}, [1.25, 1.25, 1.25]),
        ("saute", {"budget": 1}, [1.0, 1 / 3, -1 / 3]),
        ("unconstrained", {}, None),
    ],
)
def test_penalty_trace(table, tmp_path, method, settings, expected):
    """The penalty before the first violation, after it and after the second."""
    run = miniature(method, **settings)
    folder = RunFolder(tmp_path)
    folder.metrics.write_text(json.dumps({"lambda": 0.5}) + "\n" + json.dumps({"lambda": 1.25}) + '\n{"lam')
    row = {**table.loc[0].to_dict(), "method": method, "arm": run.arm, "value": run.value}
    found = replay(row, ENV)
    violating = np.flatnonzero(found.violations[:, 0])[:2] + 1
    accrued = shown_page.accrued(SelectedEpisode(0, row, run, folder), found)
    for selected in (SelectedEpisode(0, row, run, folder), SelectedEpisode(0, row, None, None)):
        values = penalty_trace(selected, accrued).values
        if expected is None or (method == "lagrangian" and selected.run is None):
            assert values is None
        else:
            assert values.shape == (41,)
            np.testing.assert_allclose(values[[0, *violating]], expected, atol=0.01)


def test_pictures_of_long_episodes_include_those_around_violations():
    assert frames.positions(2000, [7]).tolist() == list(range(2001))
    chosen = frames.positions(10_000, [4, 5003, 10_000])
    assert len(chosen) <= frames.MAX_FRAMES + 40
    assert chosen[0] == 0
    assert chosen[-1] == 10_000
    assert (np.diff(chosen) > 0).all()
    assert {*range(9), *range(4995, 5008), *range(9992, 10_001)} <= set(chosen.tolist())
    assert np.diff(chosen).max() <= 6


@pytest.mark.browser
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed")
@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_in_a_browser(browser, home, tmp_path, width):
    page = watch(home / "episodes.parquet", tmp_path, worst=2, log=lambda _: None)
    browser.open(page, width)
    step = browser.run("return +[...document.querySelectorAll('.jumps button')].at(2).dataset.step")
    moved = browser.run(
        "document.querySelectorAll('.jumps button')[2].click();"
        "return [document.querySelector('.scrub').value, document.querySelector('.readout').textContent]"
    )
    assert int(moved[0]) == step - 1
    assert moved[1].startswith(f"step {moved[0]} / 40")
    after = browser.run(
        "for (const key of ['ArrowRight', 'ArrowRight', 'ArrowLeft'])"
        "  document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));"
        "return [document.querySelector('.scrub').value, document.querySelector('[data-of=violations]').textContent]"
    )
    assert after == [str(step), "3"]
    playing = browser.run(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: ' ', bubbles: true, cancelable: true}));"
        "return document.querySelector('.play').textContent"
    )
    assert playing == "Pause"
    assert browser.errors() == []
    assert browser.run("return performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:'))") == []
    page_width, window_width = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert page_width <= window_width


@pytest.mark.slow
def test_craftax_is_reproduced_with_pictures(tmp_path):
    """Episodes evaluated in parallel by one program and replayed one by one by another agree bit for bit."""
    from PIL import Image

    config = replace(CONFIG, num_envs=4, num_steps=4)
    run = Run(
        "craftax",
        "sustainability",
        "esr",
        {"budget": 1},
        total_timesteps=16,
        env_settings={"wood_budget": 0},
        config=config,
    )
    untrained(tmp_path, run)
    evaluate(
        [tmp_path], tmp_path / "episodes.parquet", num_envs=4, num_steps=256, episodes_per_env=1, log=lambda _: None
    )
    table = episodes.read(tmp_path / "episodes.parquet")
    env = environments.make("craftax", **run.env_settings)
    for row in table.to_dict("records"):
        assert differences(row, replay(row, env)) == []
    text = watch(tmp_path / "episodes.parquet", tmp_path / "out", worst=1, log=lambda _: None).read_text()
    assert 'class="verdict">reproduced exactly' in text
    film = players(text)[0]["film"]
    assert film["at"] == list(range(int(table.loc[worst_first(table)[0], "length"]) + 1))
    for strip in (film["strips"][0], film["strips"][-1]):
        picture = np.asarray(Image.open(io.BytesIO(_decoded(strip))))
        assert picture.shape[0] == film["height"]
        assert picture.shape[1] % film["width"] == 0
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20


def players(text: str) -> list[dict]:
    """The data of the page's script, one entry per episode."""
    parts = text.split('<script type="application/json">')[1:]
    return [json.loads(part.partition("</script>")[0]) for part in parts]


def _decoded(uri: str) -> bytes:
    import base64

    head, _, content = uri.partition(",")
    assert head == "data:image/webp;base64"
    return base64.b64decode(content)


def test_titles_distinguish_agents_trained_with_different_detectors():
    row = {"method": "esr", "arm": "k=1", "seed": 42, "detector": "exact"}
    assert shown_page._title(row, 2, 31.1) == "ESR k=1, seed 42: 2 violations, return 31.10"
    blind = shown_page._title(row | {"detector": "paper"}, 1, 3.0)
    assert blind == "ESR k=1, seed 42, trained on the paper's detector: 1 violation, return 3.00"


def test_the_log_lists_differences(home, table, tmp_path):
    wrong = table.assign(**{"return": table["return"] + (table.index == worst_first(table)[0])})
    episodes.write(wrong, home / "wrong.parquet")
    logged = []
    watch(home / "wrong.parquet", tmp_path, worst=2, log=logged.append)
    assert sorted("reproduced exactly" in line for line in logged) == [False, True]
    (line,) = [line for line in logged if "reproduced exactly" not in line]
    assert "NOT reproduced: return: recorded" in line
