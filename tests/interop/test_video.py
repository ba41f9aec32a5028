"""Pictures of the Gymnasium adapter, and videos by Gymnasium's own wrappers, applied in CleanRL's order."""

import sys
from dataclasses import dataclass
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from perepisode.environments import make
from tests.interop.oracle import Cliff, key_of, replayed_episode

pytest.importorskip("gymnasium")
import gymnasium

from perepisode.interop.gymnasium import Env, VectorEnv
from perepisode.interop.recorder import record
from perepisode.interop.safety_gymnasium import with_cost

OPTIONS = {"horizon": 8, "offer_prob": 0.6}


@dataclass(frozen=True)
class Painted(Cliff):
    """A column of pixels for each position, the agent's in red."""

    def draw(self, state):
        here = jnp.arange(-5, 5)[None, :, None] == state.here
        return jnp.tile(jnp.where(here, jnp.array([255, 0, 0]), 255).astype(jnp.uint8), (4, 1, 1))


class _Clip:
    """Stands for moviepy's, which is not a dependency: keeps the pictures."""

    written: dict = {}  # noqa: RUF012

    def __init__(self, frames, fps):
        self.frames, self.fps = frames, fps

    def write_videofile(self, path, logger=None):
        self.written[path] = np.stack(self.frames), self.fps


@pytest.fixture
def videos(monkeypatch):
    """path → (pictures, frames per second) of every video that is written."""
    names = ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules[names[-1]].ImageSequenceClip = _Clip
    monkeypatch.setattr(_Clip, "written", {})
    return _Clip.written


def pictures(env, seed, actions):
    """The pictures of an episode, from its replay."""
    return replayed_episode(env, key_of(seed), 0, actions, env.draw)[0]


def test_a_picture_is_that_of_the_state():
    actions = [1, 2, 0, 1, 1]
    env, envs = Env(Painted(width=9), render_mode="rgb_array"), VectorEnv(Painted(width=9), 2, render_mode="rgb_array")
    env.reset(seed=4)
    envs.reset(seed=3)
    seen, both = [env.render()], [envs.render()]
    for action in actions:
        env.step(action)
        envs.step([action, action])
        seen.append(env.render())
        both.append(envs.render())
    np.testing.assert_array_equal(seen, pictures(Painted(width=9), 4, actions))
    np.testing.assert_array_equal([one for one, _ in both], pictures(Painted(width=9), 3, actions))
    np.testing.assert_array_equal([other for _, other in both], seen)
    assert (seen[0].shape, seen[0].dtype, len({frame.tobytes() for frame in seen})) == ((4, 10, 3), np.uint8, 4)
    assert seen[0].flags.writeable


def test_temptation_shows_the_offer_and_the_time():
    env = Env("temptation", horizon=4, offer_prob=1.0, render_mode="rgb_array")
    red, blue = [], []
    (_, _, gain), _ = env.reset(seed=0)
    for _ in range(5):
        picture = env.render().astype(int)
        red.append(((picture == (196, 62, 62)).all(-1).sum() / (64 * 40), gain))
        blue.append((picture == (74, 104, 150)).all(-1).sum() / (8 * 140))
        if len(red) < 5:
            (_, _, gain), *_ = env.step(0)
    assert blue == [0, 0.25, 0.5, 0.75, 1]
    assert all(abs(area - gain) <= 1 / 64 for area, gain in red)
    without = Env("temptation", offer_prob=0.0, render_mode="rgb_array")
    without.reset(seed=0)
    assert not (without.render() == (196, 62, 62)).all(-1).any()


def test_rendering_needs_a_mode_and_a_reset():
    for kind in (Env, VectorEnv):
        assert kind("temptation").metadata["render_modes"] == ["rgb_array"]
        assert kind(Cliff()).metadata["render_modes"] == []
        with pytest.raises(ValueError, match=r"render before reset\(\)"):
            kind("temptation", render_mode="rgb_array").render()
        env = kind("temptation")
        env.reset(seed=0)
        with pytest.warns(UserWarning, match='create the environment with render_mode="rgb_array"'):
            assert env.render() is None


def test_cleanrls_capture_video_records_whole_episodes(videos, tmp_path):
    """`make_env` and the vector of CleanRL's ppo.py (commit 44cb12e), with our recorder outside."""

    def make_env(idx, capture_video=True):
        def thunk():
            if capture_video and idx == 0:
                env = gymnasium.make("perepisode/Temptation-v0", render_mode="rgb_array", **OPTIONS)
                env = gymnasium.wrappers.RecordVideo(env, f"{tmp_path}/videos")
            else:
                env = gymnasium.make("perepisode/Temptation-v0", **OPTIONS)
            return gymnasium.wrappers.RecordEpisodeStatistics(env)

        return thunk

    envs = gymnasium.vector.SyncVectorEnv([make_env(i) for i in range(2)])
    envs = record(envs, tmp_path / "episodes.parquet", method="idle", seed=1)
    envs.reset(seed=1)
    for _ in range(3 * (OPTIONS["horizon"] + 1)):  # a step of its own begins each episode
        envs.step(np.zeros(2, int))
    envs.close()
    own, actions = make("temptation", **OPTIONS), [0] * OPTIONS["horizon"]
    assert sorted(videos) == [f"{tmp_path}/videos/rl-video-episode-{n}.mp4" for n in (0, 1)]  # the first cubes
    frames, per_second = videos[f"{tmp_path}/videos/rl-video-episode-0.mp4"]
    np.testing.assert_array_equal(frames, pictures(own, 1, actions))
    assert per_second == Env("temptation").metadata["render_fps"]


def test_gymnasiums_vector_wrapper_records_a_vector(videos, tmp_path):
    if not hasattr(gymnasium.wrappers.vector, "RecordVideo"):
        pytest.skip("Gymnasium has this wrapper since 1.2")
    envs = gymnasium.make_vec("perepisode/Temptation-v0", num_envs=4, render_mode="rgb_array", **OPTIONS)
    envs = gymnasium.wrappers.vector.RecordVideo(envs, str(tmp_path), video_length=5)
    envs.reset(seed=1)
    for _ in range(6):
        envs.step(np.zeros(4, int))
    envs.close()
    ((frames, _),) = videos.values()
    tiles = frames[0].reshape(2, 96, 2, 160, 3).swapaxes(1, 2).reshape(4, 96, 160, 3)
    own = make("temptation", **OPTIONS)
    for i, tile in enumerate(tiles):
        np.testing.assert_array_equal(tile, pictures(own, 1 + i, [])[0])


def test_a_real_video_is_written(tmp_path):
    pytest.importorskip("moviepy")
    env = gymnasium.make("perepisode/Temptation-v0", render_mode="rgb_array", **OPTIONS)
    env = gymnasium.wrappers.RecordVideo(env, str(tmp_path), episode_trigger=lambda n: True)
    env.reset(seed=0)
    while not env.step(0)[3]:
        pass
    env.close()
    (video,) = tmp_path.glob("*.mp4")
    from moviepy import VideoFileClip

    with VideoFileClip(str(video)) as clip:
        assert clip.size == [160, 96]
        assert round(clip.duration * clip.fps) == OPTIONS["horizon"] + 1


def test_safety_gymnasiums_step_renders_too():
    env = with_cost(Env("temptation", render_mode="rgb_array"))
    env.reset(seed=0)
    assert env.render().shape == (96, 160, 3)


@pytest.mark.slow
def test_craftax_is_drawn():
    """As its own renderer draws the state (tests/replay compares the renderer with upstream's)."""
    from perepisode.environments.craftax import render

    env = gymnasium.make("perepisode/Craftax-v0", render_mode="rgb_array")
    env.reset(seed=0)
    env.step(0)
    picture = env.render()
    assert (picture.dtype, picture.ndim, picture.shape[-1]) == (np.uint8, 3, 3)
    assert not any(size % 2 for size in picture.shape[:2])  # as video codecs require
    np.testing.assert_array_equal(picture, render.draw(env.unwrapped._state.env_state.game))
