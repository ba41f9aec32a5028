"""The fast engine against Craftax itself: every field of every step, what it reports, and the bulk draws."""

from contextlib import contextmanager
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import rehearsal
from craftax.craftax import game_logic
from craftax.craftax.world_gen.world_gen import generate_world
from scipy import stats

from perepisode.environments.craftax import engine
from perepisode.environments.craftax.engine.cells import WINDOW, Cells, HashChoice
from perepisode.environments.craftax.engine.step import light_torch
from perepisode.environments.craftax.engine.tables import MELEE, PARAMS, PASSIVE, RANGED, STATIC, Achievement

ENVIRONMENTS, LENGTH, SCENES = 256, 20, 6
pytestmark = pytest.mark.xdist_group("engine")
LEAST_P = 1e-5  # a false alarm once in a hundred thousand


@jax.jit
def make_worlds(keys):
    """Craftax's own fresh worlds, and ours brought back into its form."""

    def theirs(key):
        return generate_world(jax.random.split(key)[1], PARAMS, STATIC)

    return jax.vmap(theirs)(keys), jax.vmap(lambda key: engine.to_upstream(engine.generate(key)))(keys)


@pytest.fixture(scope="module")
def worlds():
    return make_worlds(jax.random.split(jax.random.PRNGKey(0), ENVIRONMENTS))


@jax.jit
def set_the_scene(keys, worlds, staged):
    def start(key, env, staged):
        scene = rehearsal.stage(key, env)
        return rehearsal.begin(jax.tree.map(partial(jnp.where, staged), scene, env))

    return jax.vmap(start)(keys, worlds, staged)


@contextmanager
def overheard():
    """Craftax's own states before `do_action`, after it and after `update_mobs`, while its step is being traced."""
    heard = {}

    def listen(name, function):
        def call(key, state, *rest):
            result = function(key, state, *rest)
            heard[name] = (state, result)
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("do_action", "update_mobs"):
            patch.setattr(game_logic, name, listen(name, getattr(game_logic, name)))
        yield heard


@partial(jax.jit, donate_argnums=0)
def play(seen, key):
    """LENGTH steps of all worlds in both engines; also, per step, our events and the mobs in Craftax's own phases."""

    def mobs(state):
        return {name: getattr(state, name) for name in ("passive_mobs", "melee_mobs", "ranged_mobs")}

    def one(seen, luck, action):
        with overheard() as heard:
            after, events = rehearsal.compare_step(seen, luck, action)
        (before, struck), (_, fallen) = heard["do_action"], heard["update_mobs"]
        phases = tuple(mobs(state) for state in (before, struck, fallen, after.theirs))
        woods = (seen.theirs.inventory.wood, after.theirs.inventory.wood)
        killed = after.theirs.monsters_killed.sum() - seen.theirs.monsters_killed.sum()
        return after, (events, phases, before.player_level, before.player_position, woods, killed, ~seen.over)

    def advance(seen, key):
        luck, choice = jax.random.split(key)
        actions = jax.vmap(rehearsal.choose_action)(jax.random.split(choice, ENVIRONMENTS))
        return jax.vmap(one)(seen, jax.random.split(luck, ENVIRONMENTS), actions)

    return jax.lax.scan(advance, seen, jax.random.split(key, LENGTH))


@pytest.fixture(scope="module")
def played(worlds):
    """All scenes: the final comparisons and the traces, as NumPy."""
    staged = jnp.arange(ENVIRONMENTS) % 4 != 0
    found = []
    for scene in range(SCENES):
        setting, luck = jax.random.split(jax.random.PRNGKey(scene + 1))
        seen = set_the_scene(jax.random.split(setting, ENVIRONMENTS), worlds[0], staged)
        seen, trace = play(seen, luck)
        counts = (seen.steps, seen.actions, seen.unlocked, seen.mismatches)
        found.append(jax.tree.map(np.asarray, (counts, trace)))
    return found


def test_fresh_worlds_are_craftax_own(worlds):
    """Also: `to_upstream` undoes `from_upstream` without loss."""
    left, right = (jax.tree_util.tree_leaves_with_path(tree) for tree in worlds)
    assert len(left) == len(right)
    for (path, theirs), (_, ours) in zip(left, right):
        np.testing.assert_array_equal(theirs, ours, err_msg=jax.tree_util.keystr(path))
        assert np.asarray(theirs).dtype == np.asarray(ours).dtype, jax.tree_util.keystr(path)


def test_every_step_equals_craftax_bit_for_bit(played):
    wrong = {}
    for (_, _, _, mismatches), _ in played:
        for name, count in mismatches.items():
            wrong[name] = wrong.get(name, 0) + int(count.sum())
    assert {name: count for name, count in wrong.items() if count} == {}


def test_the_comparison_reaches_all_floors_actions_and_most_achievements(played):
    steps, actions, unlocked = (sum(counts[i].sum(0) for counts, _ in played) for i in range(3))
    assert steps.sum() > 15_000
    assert (steps > 300).all(), steps
    assert (actions > 50).all(), actions
    never = {kind.name for kind in Achievement if unlocked[kind] == 0}
    assert len(never) <= 6, never


def test_events_agree_with_a_recount_from_craftax_own_phases(played):
    for _, (events, phases, level, player, woods, monsters, counted) in played:
        at = np.ix_(range(LENGTH), range(ENVIRONMENTS))
        kills = despawned = 0
        for name in ("passive", "melee", "ranged"):
            before, struck, fallen, after = (phase[f"{name}_mobs"] for phase in phases)
            masks = [phase.mask[(*at, level)] for phase in (before, struck, fallen, after)]
            gone = masks[1] & ~masks[2]
            dead = fallen.health[(*at, level)] <= 0
            killed = (masks[0] & ~masks[1]) | (gone & dead)
            despawned = despawned + (gone & ~dead).sum(-1)
            _same(getattr(events, f"killed_{name}"), killed, counted)
            dropped = masks[0] & ~masks[3] & (after.health[(*at, level)] <= 0)
            _same(getattr(events, f"paper_{name}"), dropped, counted)
            if name != "passive":
                kills = kills + killed.sum(-1)
                offset = before.position[(*at, level)] - player[:, :, None]
                _same(getattr(events, f"{name}_offset"), offset, counted)
        _same(events.despawned, despawned, counted)
        _same(events.wood_harvested, np.maximum(woods[1] - woods[0], 0), counted)
        _same(monsters, kills, counted)
        assert kills[counted].sum() > 20


def _same(ours, theirs, counted):
    np.testing.assert_array_equal(ours[counted], theirs[counted])


def test_light_as_a_flag_follows_light_as_a_number():
    light = np.zeros((9, 48, 48), np.float32)
    light[2] = np.random.default_rng(0).choice([0.0, 0.04, 0.06, 0.9], (48, 48)).astype(np.float32)
    flags = (light > 0.05).astype(np.int8)
    for torch, placed in (((0, 47), True), ((20, 20), True), ((22, 23), True), ((5, 5), False), ((-1, 8), True)):
        where = (jnp.asarray(2), jnp.asarray(torch), jnp.asarray(placed))
        light, flags = light_torch(jnp.asarray(light), *where), light_torch(jnp.asarray(flags), *where)
        np.testing.assert_array_equal(light > 0.05, flags == 1)


@pytest.fixture(scope="module")
def draws():
    """Both kinds of draws, 20 000 worlds each."""
    keys = jax.random.split(jax.random.PRNGKey(7), 20_000)
    exact = jax.jit(jax.vmap(engine.upstream_draws))(keys)
    bulk = jax.jit(lambda key: engine.bulk_draws(key, (20_000,)))(jax.random.PRNGKey(8))
    return jax.tree.map(np.asarray, exact), jax.tree.map(np.asarray, bulk)


@pytest.mark.parametrize("name", ["sapling", "spell", "armour", "axis", "mood", "spawn"])
def test_bulk_uniforms_are_uniform(draws, name):
    exact, bulk = (np.asarray(getattr(kind, name)).reshape(20_000, -1) for kind in draws)
    hunters = range(exact.shape[1]) if exact.shape[1] < 8 else [*range(MELEE.stop), *range(RANGED.start, RANGED.stop)]
    for column in hunters:
        assert stats.ks_2samp(exact[:, column], bulk[:, column]).pvalue > LEAST_P
        assert bulk[:, column].min() >= 0
        assert bulk[:, column].max() < 1


@pytest.mark.parametrize("name", ["wander", "chest"])
def test_bulk_integers_have_craftax_frequencies(draws, name):
    exact, bulk = (getattr(kind, name) for kind in draws)
    for column in range(exact.shape[1]):
        _same_frequencies(exact[:, column], bulk[:, column])


def _same_frequencies(left, right):
    values = np.union1d(left, right)
    table = np.array([[np.sum(side == value) for value in values] for side in (left, right)])
    assert len(values) == 1 or stats.chi2_contingency(table).pvalue > LEAST_P


def test_batched_and_single_bulk_draws_have_the_same_shapes():
    single = jax.eval_shape(engine.bulk_draws, jax.random.PRNGKey(0))
    batch = jax.eval_shape(partial(engine.bulk_draws, batch=(5,)), jax.random.PRNGKey(0))
    exact = jax.eval_shape(engine.upstream_draws, jax.random.PRNGKey(0))
    for one, many in zip(jax.tree.leaves(single), jax.tree.leaves(batch)):
        assert many.shape == (5, *one.shape)
    for name in ("sapling", "chest", "spell", "armour", "wander", "axis", "mood", "spawn", "state_rng"):
        assert getattr(single, name) == getattr(exact, name), name


def test_hashed_choice_takes_each_valid_cell_equally_often():
    valid = np.zeros(WINDOW**2, bool)
    valid[[3, 4, 5, 30, 31, 58, 200, 400, 401, 728]] = True
    places = Cells(jnp.array([10, 20]), jnp.zeros(WINDOW**2, jnp.int8), WINDOW)

    def pick(seed):
        return HashChoice(seed).pick(1, places, jnp.asarray(valid))

    seeds = jax.random.bits(jax.random.PRNGKey(3), (20_000, 3), jnp.uint32)
    found, cell = jax.jit(jax.vmap(pick))(seeds)
    assert bool(found.all())
    index = (np.asarray(cell[:, 0]) - 10) * WINDOW + np.asarray(cell[:, 1]) - 20
    assert valid[index].all()
    counts = np.bincount(index, minlength=WINDOW**2)[valid]
    assert stats.chisquare(counts).pvalue > LEAST_P
    assert not bool(HashChoice(seeds[0]).pick(0, places, jnp.zeros(WINDOW**2, bool))[0])


@pytest.mark.slow
def test_bulk_steps_have_the_same_statistics_as_exact_ones(worlds):
    """From the same states with the same actions: deaths, births, harm and gains of one step agree in distribution."""
    staged = jnp.arange(ENVIRONMENTS) % 4 != 0

    def measure(draw, key, state, action):
        after, reward, events = engine.step(draw(key), state, action)
        alive = [after.creatures.mask[..., slots].sum() for slots in (PASSIVE, MELEE, RANGED)]
        harm = state.player_health - after.player_health
        counts = (events.killed_passive.sum(), events.killed_melee.sum(), events.killed_ranged.sum(), events.despawned)
        loot = after.inventory.counts.sum() - state.inventory.counts.sum()
        gained = (after.achievements & ~state.achievements).sum()
        return jnp.stack([jnp.asarray(n, jnp.float32) for n in (*alive, harm, *counts, loot, gained, reward)])

    exact, bulk = (jax.jit(jax.vmap(partial(measure, draw))) for draw in (engine.upstream_draws, engine.bulk_draws))
    pairs = []
    for scene in range(12):
        setting, choice, luck = jax.random.split(jax.random.PRNGKey(1000 + scene), 3)
        states = set_the_scene(jax.random.split(setting, ENVIRONMENTS), worlds[0], staged).ours
        for one, other in jax.random.split(luck, (12, 2)):
            choice, now = jax.random.split(choice)
            actions = jax.vmap(rehearsal.choose_action)(jax.random.split(now, ENVIRONMENTS))
            left = exact(jax.random.split(one, ENVIRONMENTS), states, actions)
            right = bulk(jax.random.split(other, ENVIRONMENTS), states, actions)
            pairs.append(np.asarray(left - right))
    difference = np.concatenate(pairs)
    error = difference.std(0) / np.sqrt(len(difference))
    z = np.divide(difference.mean(0), error, out=np.zeros_like(error), where=error > 0)
    assert (np.abs(z) < 4.5).all(), z
