"""Verdicts against scipy, hand arithmetic, slow oracles, and made-up tables of which the truth is known."""

import itertools
import math

import numpy as np
import pytest
from benchmarks import verdicts as simulated
from examples.catastrophes import make as catastrophes
from scipy import stats

from perepisode import metrics
from perepisode.evaluation import compare, verdicts

TABLES = 400  # per cell of the fast simulations: a rate of 5 % is known to within 2 %


def lognormal(generator, seeds, episodes=300, mean=3.0, spread=0.8):
    return [generator.lognormal(mean, spread, episodes) for _ in range(seeds)]


# ---- means --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [0.2, 1.0, 3.0])
def test_equivalence_is_two_one_sided_welch_tests_of_scipy(margin):
    a, b = np.array([1.0, 1.2, 1.5, 1.1]), np.array([2.0, 2.1, 2.6])
    found = verdicts.equivalence(a, b, margin)
    above = stats.ttest_ind(b + margin, a, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(b - margin, a, equal_var=False, alternative="less").pvalue
    both = stats.ttest_ind(b, a, equal_var=False)
    assert found.p_equivalent == pytest.approx(max(above, below))
    assert found.p_different == pytest.approx(both.pvalue)
    narrow = both.confidence_interval(0.9)
    assert found.difference - found.half == pytest.approx(both.confidence_interval(0.95).low)
    assert (found.p_equivalent < 0.05) == (-margin < narrow.low and narrow.high < margin)


def test_the_three_words():
    quiet, loud = np.array([1.00, 1.01, 0.99]), np.array([0.0, 2.0, 1.0])
    assert verdicts.equivalence(quiet, quiet + 0.005, 0.5).verdict == verdicts.EQUIVALENT
    assert verdicts.equivalence(quiet, quiet + 1.0, 0.5).verdict == verdicts.DIFFERENT
    assert verdicts.equivalence(loud, loud, 0.5).verdict == verdicts.UNDECIDED  # not significant is not equal
    both = verdicts.equivalence(quiet, quiet + 0.1, 0.5)  # a difference that is real and does not matter
    assert (both.verdict, both.detectable) == (verdicts.EQUIVALENT, True)


def test_verdicts_on_several_pairs_are_corrected_by_holm():
    ps = {"different": [0.02, 0.03, math.nan, 0.001], "equivalent": [0.9, 0.02, 0.04, math.nan]}
    found = [verdicts.Equivalence(1.0, 0.5, 2.0, p, q) for p, q in zip(*ps.values())]
    after = verdicts.corrected(found)
    assert [one.p_different for one in after] == pytest.approx([0.04, 0.04, math.nan, 0.003], nan_ok=True)
    assert [one.p_equivalent for one in after] == pytest.approx([0.9, 0.06, 0.08, math.nan], nan_ok=True)
    assert [one.verdict for one in found] == ["different", "equivalent", "equivalent", "different"]
    assert [one.verdict for one in after] == ["different", "different", "undecided", "different"]
    assert verdicts.corrected(found[:1]) == found[:1]


def test_equivalence_invents_nothing():
    assert verdicts.equivalence([1.0], [1.0, 1.1], 1.0).verdict == verdicts.UNDECIDED
    assert verdicts.equivalence([1.0, 1.1], [1.0, 1.1], math.nan).verdict == verdicts.UNDECIDED
    assert verdicts.equivalence([1.0, 1.0], [1.0, 1.0], 0.1).verdict == verdicts.EQUIVALENT
    assert verdicts.equivalence([0.0] * 3, [1.0] * 3, 0.1).verdict == verdicts.UNDECIDED  # 2 of 20 permutations
    assert verdicts.equivalence([0.0] * 4, [1.0] * 4, 0.1).verdict == verdicts.DIFFERENT  # 2 of 70
    with pytest.raises(ValueError, match="margin=-1"):
        verdicts.equivalence([1.0, 2.0], [1.0, 2.0], -1)


def test_the_margin_is_a_share_of_the_price_of_cleanliness():
    assert verdicts.default_margin([30.0, 34.0, 36.0], [0.0, 1.0, 5.0]) == pytest.approx(0.2 * 6)
    assert verdicts.default_margin([30.0, 33.0, 36.0], [0.0, 0.0, 5.0], share=0.1) == pytest.approx(0.1 * 3)
    assert np.isnan(verdicts.default_margin([36.0, 30.0], [0.0, 5.0]))  # the cleanest is the best


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_equivalence_is_wrongly_claimed_in_at_most_one_of_twenty(seeds):
    generator = np.random.default_rng(seeds)
    a, b = generator.normal(0.0, 0.2, (1500, seeds)), generator.normal(1.0, 0.2, (1500, seeds))
    words = [verdicts.equivalence(*pair, 1.0).verdict for pair in zip(a, b)]
    assert words.count(verdicts.EQUIVALENT) <= 0.065 * len(words)
    words = [verdicts.equivalence(x, y - 1.0, 1.0).verdict for x, y in zip(a, b)]
    assert words.count(verdicts.EQUIVALENT) >= 0.95 * len(words)


# ---- tails --------------------------------------------------------------------------------------------------


def test_cvars_of_whole_tails_are_those_of_metrics():
    costs = np.random.default_rng(0).lognormal(1.0, 1.0, (2, 3, 400))
    levels = np.array([0.1, 0.02, 0.01, 0.005])
    found = verdicts.level_cvars(costs, levels)
    for index in np.ndindex(2, 3):
        assert found[index] == pytest.approx([metrics.cvar(costs[index], level) for level in levels])
    assert verdicts.level_cvars(np.arange(1.0, 6.0), np.array([0.5])) == pytest.approx((5 + 4 + 0.5 * 3) / 2.5)
    assert verdicts.level_cvars(np.arange(1.0, 6.0), np.array([1.0, 0.1])) == pytest.approx([3.0, 5.0])


def test_levels_that_no_seed_reaches_take_no_part():
    assert verdicts.tail_levels(300) == pytest.approx([0.1, 0.02, 0.01, 0.005])
    assert verdicts.tail_levels(100) == pytest.approx([0.1, 0.02, 0.01])
    assert verdicts.tail_levels(50, 0.1) == pytest.approx([0.1, 0.02])
    assert verdicts.tail_levels(5) == pytest.approx([0.1])


def test_the_primary_test_against_scipy_step_by_step():
    generator = np.random.default_rng(3)
    agents = [lognormal(generator, 4), lognormal(generator, 4, spread=1.0), lognormal(generator, 4)]
    tests = verdicts.tail_tests(agents)
    expected = []
    for a, b in itertools.combinations(agents, 2):
        typical, one_sided = np.concatenate(a + b).mean(), []
        for kept in (30, 6, 3, 1.5):  # of 300 episodes: 10, 2, 1 and 0.5 %
            logs = []
            for agent in (a, b):
                worst = [np.sort(seed)[::-1] for seed in agent]
                tails = [seed[: int(kept)].sum() + (kept % 1) * seed[int(kept)] for seed in worst]
                logs.append(np.log(np.array(tails) / kept + typical / kept))
            one_sided.append(stats.ttest_ind(*logs, equal_var=False, alternative="less").pvalue)
        sides = []
        for p in (np.array(one_sided), 1 - np.array(one_sided)):
            statistic = np.tan(np.pi * (0.5 - np.minimum(p, 0.95))).mean()
            sides.append(stats.cauchy.sf(statistic))
        expected.append((2 * min(sides), 1 if sides[0] < sides[1] else -1))
    assert [test.p for test in tests] == pytest.approx([p for p, _ in expected])
    assert [test.heavier for test in tests] == [side for _, side in expected]
    assert [test.corrected for test in tests] == pytest.approx(compare.holm([p for p, _ in expected]))
    plain = [stats.ttest_ind(*pair, equal_var=False).pvalue for pair in itertools.combinations(
        [[metrics.cvar(seed) for seed in agent] for agent in agents], 2)]  # fmt: skip
    assert [test.cvar_welch for test in tests] == pytest.approx(plain)


def test_ratios_and_directions():
    generator = np.random.default_rng(4)
    light = lognormal(generator, 6)
    heavy = [3 * seed for seed in lognormal(generator, 6)]
    test, turned = verdicts.tail_test(light, heavy), verdicts.tail_test(heavy, light)
    assert (test.heavier, turned.heavier, test.p) == (1, -1, pytest.approx(turned.p))
    assert test.p < 1e-4
    assert test.levels[0].ratio == pytest.approx(3, rel=0.2)
    assert test.levels[0].ratio == pytest.approx(1 / turned.levels[0].ratio)
    assert test.levels[0].b == pytest.approx(np.mean([metrics.cvar(seed) for seed in heavy]))
    assert test.clearest.p == min(level.p for level in test.levels)


def test_neither_the_unit_nor_the_order_of_rows_matters():
    generator = np.random.default_rng(5)
    a, b = lognormal(generator, 3, 700), lognormal(generator, 4, 300, spread=1.0)
    test = verdicts.tail_test(a, b)
    shuffled = [generator.permutation(seed) for seed in a[::-1]], [seed[::-1] for seed in b]
    assert verdicts.tail_test(*shuffled).p == pytest.approx(test.p)
    assert verdicts.tail_test(*([1e-3 * seed for seed in agent] for agent in (a, b))).p == pytest.approx(test.p)


def test_tails_without_spread_or_harm_or_second_seed():
    none, one = [np.zeros(300)] * 5, [np.ones(300)] * 5
    assert verdicts.tail_test(none, none).p == 1.0
    assert verdicts.tail_test(none, one).p == pytest.approx(2 / 252)  # of an exact permutation
    assert verdicts.tail_test([-np.ones(300)] * 5, none).p == 1.0
    assert np.isnan(verdicts.tail_test(one[:1], none).p)
    assert np.isnan(verdicts.tail_tests([one[:1], none, none])[0].corrected)
    some = [np.r_[np.zeros(299), float(seed)] for seed in range(5)]
    assert 0 < verdicts.tail_test(none, some).p < 1
    with pytest.raises(ValueError, match="at least one"):
        verdicts.tail_test([], none)


def test_unequal_numbers_of_seeds_count_as_the_smaller_of_them():
    """Welch's degrees of freedom are at most those of two agents with the smaller number; else 3 against 8 errs."""
    generator = np.random.default_rng(12)
    a, b = generator.normal(size=(20_000, 3)), generator.normal(size=(20_000, 8))
    p, _, freedom = verdicts._welch(a, b)
    theirs = stats.ttest_ind(a, b, axis=1, equal_var=False)
    assert freedom == pytest.approx(np.minimum(theirs.df, 4.0))
    assert p == pytest.approx(2 * stats.t.sf(abs(theirs.statistic), freedom))
    assert np.mean(theirs.pvalue < 0.05 / 6) > 1.3 * 0.05 / 6 > np.mean(p < 0.05 / 6)
    same, _, _ = verdicts._welch(a, b[:, :3])
    assert same == pytest.approx(stats.ttest_ind(a, b[:, :3], axis=1, equal_var=False).pvalue)


def test_seeds_with_more_episodes_are_cut_into_subsets_of_the_smaller_size():
    seed = np.sort(np.random.default_rng(6).lognormal(3.0, 1.0, 1000))
    levels = np.array([0.1, 0.01])
    (subsets,) = verdicts._subset_cvars(verdicts.tail_sample([seed]), 300, levels)
    assert subsets.shape == (4, 2)
    generator = np.random.default_rng(0)
    drawn = [verdicts.level_cvars(generator.choice(seed, 300, replace=False), levels) for _ in range(2000)]
    assert np.log(subsets).mean(0) == pytest.approx(np.log(drawn).mean(0), abs=3 * np.log(drawn).std() / 2)
    (whole,) = verdicts._subset_cvars(verdicts.tail_sample([seed]), 1000, levels)
    assert whole[0] == pytest.approx([metrics.cvar(seed, level) for level in levels])


def test_the_tests_of_all_subsets_are_combined():
    """Two subsets of 300 against seeds of 300: a t test of SciPy for each level and subset, Cauchy's rule by hand.

    Subsets are combined as tests, not averaged: an average is known better than the other agent's CVaR.
    """
    generator = np.random.default_rng(13)
    many, few = lognormal(generator, 4, 600, spread=1.2), lognormal(generator, 4)
    levels, pooled = [0.1, 0.02, 0.01, 0.005], np.concatenate([*many, *few])
    orders = [np.random.default_rng([600, position]).permutation(600) for position in range(4)]
    subsets = [np.sort(seed)[order].reshape(2, 300) for order, seed in zip(orders, sorted(many, key=np.sum))]
    up, down = [], []
    for part, level in itertools.product(range(2), levels):
        kept = [level_cvar(one, level) for one in [*(cut[part] for cut in subsets), *few]]
        logs = np.log(np.array(kept) + pooled.mean() / max(300 * level, 1))
        p = stats.ttest_ind(logs[4:], logs[:4], equal_var=False, alternative="greater").pvalue
        up.append(math.tan(math.pi * (0.5 - min(p, 0.95))))
        down.append(math.tan(math.pi * (0.5 - min(1 - p, 0.95))))
    sides = [0.5 - math.atan(np.mean(side)) / math.pi for side in (up, down)]
    assert verdicts.tail_test(many, few).p == pytest.approx(2 * min(sides))


def level_cvar(episodes, level):
    """The mean over the worst share of episodes; the last one counts in part."""
    worst, size = np.sort(episodes)[::-1], max(level * episodes.size, 1.0)
    whole = int(size + 1e-9)
    return (worst[:whole].sum() + (size - whole) * worst[whole]) / size


def test_many_episodes_against_few_are_not_told_apart():
    """Pareto costs, 2000 against 300 episodes per seed: with averages over subsets, 6.7 % of tables.

    If all seeds were cut alike, their worst episodes would meet in one subset: 30 %.
    """
    generator, law = np.random.default_rng(14), simulated.pareto_costs
    scales = generator.lognormal(0.0, 0.15, (1500, 2, 5, 1))
    found = [
        verdicts.tail_test(list(law(generator, many, 2000)), list(law(generator, few, 300))).p < 0.05
        for many, few in scales
    ]
    assert np.mean(found) <= 0.06


def test_the_simulations_use_the_public_test():
    """Batches of tables, as in benchmarks/verdicts.py, give the same p as the functions that a report calls."""
    case = simulated.Case(simulated.counts, simulated.uneven_catastrophes, 0.15)
    (agents,) = simulated.draw(case, [3, 5, 3], 20, "test")
    for judged, public in (
        (simulated.by_primary(agents), verdicts.tail_tests),
        (simulated.by_share(agents, 4.0), lambda one: verdicts.share_tests(one, 4.0)),
    ):
        tests = [public([list(agent[table]) for agent in agents]) for table in range(20)]
        expected = np.array([[(test.p, test.corrected) for test in table] for table in tests])
        found = np.stack([judged[0].T, simulated.holm(judged[0]).T], axis=-1)
        assert found == pytest.approx(expected)
    directions = [[test.heavier for test in verdicts.tail_tests([list(agent[0]) for agent in agents])]]
    assert simulated.by_primary(agents)[1][:, 0].tolist() == directions[0]


@pytest.mark.parametrize("law", simulated.LAWS)
@pytest.mark.parametrize(
    ("seeds", "spread"), [((3,), "differ"), ((5,), "differ much"), ((8,), "alike"), ((3, 8), "differ")]
)
def test_agents_that_are_alike_are_rarely_told_apart(law, seeds, spread):
    """In at most 6 % of tables by results/verdicts; two standard errors more are allowed here."""
    made, limit = simulated.LAWS[law]
    agents = 4 if len(seeds) == 1 else 2
    each = list(itertools.islice(itertools.cycle(seeds), agents))
    found = {"tails": [], "shares": []}
    for batch in simulated.draw(simulated.Case(made, made, simulated.SPREADS[spread], 300), each, TABLES, "fast", law):
        found["tails"].append(simulated.flagged(simulated.by_primary(batch), agents)[0])
        found["shares"].append(simulated.flagged(simulated.by_share(batch, limit), agents)[0])
    for name, alarms in found.items():
        assert np.concatenate(alarms).mean() <= 0.06 + 2 * math.sqrt(0.06 * 0.94 / TABLES), name


@pytest.mark.parametrize(
    ("case", "agents", "seeds", "least"),
    [
        ("catastrophes", 4, 5, 0.6),
        ("catastrophes", 4, 10, 0.85),
        ("twice the tail, counts", 4, 3, None),
        ("twice the tail, counts", 2, 3, None),
        ("twice the tail, counts, 100 episodes", 4, 5, None),
        ("twice the tail, costs, 100 episodes", 8, 3, None),
        ("bursts of rare counts", 4, 5, None),
    ],
)
def test_an_agent_with_a_heavier_tail_is_found(case, agents, seeds, least):
    """At least as often as the bar says, or else as by the rule before; the others are not told apart."""
    after, before, wrong = [], [], []
    for batch in simulated.draw(simulated.CASES[case], [seeds] * agents, TABLES, "fast", case):
        judged = simulated.by_primary(batch)
        after.append(simulated.flagged(judged, agents)[1])
        wrong.append(simulated.wrongly(judged, agents))
        before.append(simulated.flagged(simulated.by_welch(batch), agents)[1])
    assert np.concatenate(after).mean() >= (np.concatenate(before).mean() if least is None else least - 0.025)
    assert np.concatenate(wrong).mean() <= 0.085


# ---- shares -------------------------------------------------------------------------------------------------


def test_a_share_of_alike_seeds_is_wilsons_interval_with_t():
    seeds = [np.r_[np.ones(30), np.zeros(270)]] * 4
    found = verdicts.share(seeds, 0.5)
    z = stats.t.ppf(0.975, 3)
    n, p = 1200, 0.1
    centre, half = (p + z * z / 2 / n), z * math.sqrt(p * (1 - p) / n + z * z / 4 / n**2)
    assert found == pytest.approx((p, (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)))


def test_a_share_of_seeds_that_differ_has_fewer_effective_episodes():
    alike = [np.r_[np.ones(30), np.zeros(270)]] * 4
    differ = [np.r_[np.ones(count), np.zeros(300 - count)] for count in (0, 10, 40, 70)]
    (mean, low, high), (same, narrow, short) = verdicts.share(differ, 0.5), verdicts.share(alike, 0.5)
    assert mean == same == pytest.approx(0.1)
    assert low < narrow
    assert high > short
    assert low > 0


def test_shares_near_zero_and_one():
    none = verdicts.share([np.zeros(300)] * 5, 0.5)
    assert none[:2] == (0.0, 0.0)
    assert 0.002 < none.high < 0.01
    every = verdicts.share([np.ones(300)] * 5, 0.5)
    assert every.high == 1.0
    assert every.low == pytest.approx(1 - none.high)
    assert np.isnan(verdicts.share([np.zeros(300)], 0.5).low)


@pytest.mark.parametrize(("share", "correlation", "seeds"), [(0.02, 0.0, 3), (0.02, 0.01, 5), (0.3, 0.02, 5)])
def test_intervals_of_shares_cover(share, correlation, seeds):
    generator = np.random.default_rng(7)
    size = (1 - correlation) / correlation if correlation else 1e9
    over = generator.binomial(300, generator.beta(share * size, (1 - share) * size, (1000, seeds)))
    found = [verdicts._share(one, np.full(seeds, 300)) for one in over]
    assert np.mean([one.low <= share <= one.high for one in found]) >= 0.93


def test_the_test_of_shares_is_welchs_on_freeman_and_tukeys_transform():
    over = np.array([10, 30, 55, 20]), np.array([80, 60, 90, 120])  # so far from binomial that its variance is no bound
    values = [np.arcsin(np.sqrt(x / 301)) + np.arcsin(np.sqrt((x + 1) / 301)) for x in over]
    agents = [[np.r_[np.ones(x), np.zeros(300 - x)] for x in one] for one in over]
    test = verdicts.share_test(*agents, 0.5)
    assert test.p == pytest.approx(stats.ttest_ind(*values, equal_var=False).pvalue)
    assert test.difference == pytest.approx(over[1].mean() / 300 - over[0].mean() / 300)
    a, b = (verdicts.share(agent, 0.5) for agent in agents)
    assert test.low == pytest.approx(b.mean - a.mean - math.hypot(b.mean - b.low, a.high - a.mean))
    assert test.low < test.difference < test.high


def test_a_few_equal_counts_are_not_taken_for_certainty():
    agents = [[np.r_[np.ones(x), np.zeros(300 - x)] for x in counts] for counts in ((0, 0, 0), (1, 1, 1))]
    assert verdicts.share_test(*agents, 0.5).p > 0.05
    assert verdicts.share_test(agents[0], agents[0], 0.5).p == 1.0
    assert np.isnan(verdicts.share_test(agents[0][:1], agents[1], 0.5).p)


def test_counts_among_more_episodes_enter_by_their_expectation_over_subsets():
    law = verdicts._subset_law(np.array([0, 7, 40]), 1000, 300)
    for row, over in zip(law, (0, 7, 40)):
        assert row == pytest.approx(stats.hypergeom(1000, over, 300).pmf(np.arange(301)), abs=1e-9)


def test_fewer_over_the_limit_and_the_heavier_tail():
    """One agent has fewer episodes over the limit than the others, and catastrophes."""
    table = catastrophes.table()
    agents = {
        name: [seed.EpCost.to_numpy() for _, seed in rows.groupby("seed")] for name, rows in table.groupby("algo")
    }
    pairs = [(0, 1), (0, 2), (0, 3)]
    ordered = [agents[name] for name in ("FOCOPS", "PPO-Lag", "CPO", "P3O")]
    tails, over = verdicts.tail_tests(ordered, pairs), verdicts.share_tests(ordered, 25.0, pairs)
    assert all(test.heavier == -1 and test.corrected < 0.05 for test in tails)
    assert all(test.difference > 0 and test.low > 0 and test.corrected < 0.001 for test in over)
    assert all(test.corrected < 0.05 for test in verdicts.tail_tests(ordered)[:3])  # among all six pairs too
    assert verdicts.influence(agents["FOCOPS"]).flagged
    assert not verdicts.influence(agents["CPO"]).flagged
    means = {name: [seed.mean() for seed in agent] for name, agent in agents.items()}
    assert verdicts.equivalence(means["CPO"], means["FOCOPS"], 2.0).verdict == verdicts.UNDECIDED


def test_the_committed_catastrophes_are_those_of_the_script():
    path = catastrophes.Path(catastrophes.__file__).with_name("episodes.csv")
    assert catastrophes.table().to_csv(index=False) == path.read_text()


# ---- what the data can support ------------------------------------------------------------------------------


def test_a_cvar_beyond_the_support_of_the_data_is_the_mean_over_again():
    rare, often = [np.r_[np.ones(5), np.zeros(95)]] * 4, [np.r_[np.ones(40), np.zeros(60)]] * 4
    assert metrics.cvar(rare[0]) == pytest.approx(10 * np.mean(rare[0]))
    assert verdicts.cvar_support([rare, rare]) == ((True, True), 0.05)
    assert verdicts.cvar_support([rare, often]).beyond == (True, False)
    assert verdicts.cvar_support([often, often]).beyond == (False, False)
    clean = verdicts.cvar_support([[np.zeros(100)] * 3] * 2)
    assert (clean.beyond, np.isnan(clean.level)) == ((True, True), True)


def test_influence_by_hand():
    seeds = [np.array([1.0, 2.0, 3.0]), np.array([0.0, 6.0])]
    assert verdicts.influence(seeds) == (0.5, 6.0, 1, 1, True)
    assert verdicts.influence([np.ones(11)]).share == pytest.approx(1 / 11)
    assert not verdicts.influence([np.ones(11)]).flagged
    assert verdicts.influence([np.ones(10)]).flagged
    assert verdicts.influence([np.zeros(5)]) == (0.0, 0.0, 0, 0, False)


# ---- sample sizes -------------------------------------------------------------------------------------------


def test_sample_sizes_of_tails():
    generator = np.random.default_rng(9)
    light, heavy = lognormal(generator, 5), lognormal(generator, 5, spread=1.0)
    plan = verdicts.tail_plan(light, heavy, comparisons=6)
    assert 0 <= plan.power <= 1
    assert plan.seeds is not None
    assert (plan.power >= 0.8) == (plan.seeds <= 5)
    assert verdicts.tail_plan(light, heavy).seeds <= plan.seeds
    assert plan.ratio > verdicts.tail_plan(light, heavy).ratio > 1
    assert verdicts.tail_plan(light, [3 * seed for seed in light]).power > 0.9
    assert verdicts.tail_plan(light, light).seeds is None
    assert np.isnan(verdicts.tail_plan(light[:1], heavy).power)


def test_a_planned_number_of_seeds_finds_the_difference():
    """Power by the plan against power by fresh seeds of the same laws, the plan made of many seeds."""
    generator = np.random.default_rng(10)
    light = lambda seeds: lognormal(generator, seeds, spread=0.8)  # noqa: E731
    heavy = lambda seeds: lognormal(generator, seeds, spread=0.92)  # noqa: E731
    plan = verdicts.tail_plan(light(60), heavy(60))
    found = [verdicts.tail_test(light(plan.seeds), heavy(plan.seeds)).p < 0.05 for _ in range(300)]
    assert np.mean(found) == pytest.approx(0.83, abs=0.1)
