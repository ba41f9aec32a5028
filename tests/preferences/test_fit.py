"""`perepisode distill --labels`: what is fitted, what is refused and what is drawn."""

import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import collections

from perepisode import cli
from perepisode.config import ConfigError
from perepisode.methods import esr_distilled
from perepisode.preferences import bradley_terry, fit, labels, picture, raters
from perepisode.preferences.support import LabelSupport, inversions
from perepisode.report.drawing.canvas import style
from perepisode.report.statistics import distilled
from tests.preferences.made_up import judged, label, plane


def write(path, some):
    for one in some:
        labels.append(path, one)
    return path


@pytest.fixture(scope="module")
def lenient():
    """Two hundred labels of a rater who tolerates two violations, and the monotone fit to them."""
    some = judged(raters.LENIENT, *plane(), 200)
    return some, fit.fit(some, monotone=True, ensemble=8)


@pytest.fixture(scope="module")
def confounded():
    """A pool whose worst episode has one violation, and a rater who looks at the return only."""
    random = np.random.default_rng(3)
    violations = (random.random(300) < 0.5).astype(float)
    returns = 36 + 3 * violations + random.normal(0, 2, 300)
    return judged(raters.RETURN_ONLY, returns, violations, 120)


def test_the_fit_knows_what_the_rater_tolerates(lenient):
    _, fitted = lenient
    u = fitted.u(np.full(6, 35.0), np.arange(6.0))
    assert u[0] - u[2] < 3 < 10 < u[2] - u[3]
    assert u[3] > u[4] > u[5]
    assert fitted.u(np.array(33.0), np.array(2.0)) < fitted.u(np.array(36.0), np.array(2.0))
    assert fitted.accuracy()[0] > 0.9
    assert not fitted.inversions


def test_units(lenient):
    """u(0, 0) = 0, and one more unit of return is worth one unit, on average over the judged episodes."""
    some, fitted = lenient
    assert fitted.u(np.array(0.0), np.array(0.0)) == pytest.approx(0, abs=1e-4)
    judged_returns = np.array([one.return_ for label in some for one in (label.left, label.right)])
    judged_counts = np.array([one.violations for label in some for one in (label.left, label.right)])
    step = 0.1 * np.ptp(judged_returns)
    rises = fitted.u(judged_returns + step, judged_counts) - fitted.u(judged_returns - step, judged_counts)
    assert rises.mean() / (2 * step) == pytest.approx(1, rel=1e-3)


def test_the_ensemble_is_in_the_same_units_and_around_the_fit(lenient):
    _, fitted = lenient
    returns, counts = np.array([34.0, 38.0]), np.array([1.0, 3.0])
    values = fitted.of_ensemble(returns, counts)
    assert values.shape == (8, 2)
    own = fitted.fit.features(returns, counts) - fitted.fit.features(np.zeros(()), np.zeros(()))
    assert own @ fitted.fit.weights * float(fitted.utility.scale) == pytest.approx(fitted.u(returns, counts), abs=0.05)
    assert (values.std(axis=0) > 0).all()
    assert (values[:, 0] > values[:, 1]).all()


def test_labels_of_a_pair_stay_in_one_fold(monkeypatch):
    some = judged(raters.LENIENT, *plane(), 40)
    repeats = [
        label((one.left.return_, one.left.violations, int(one.left.reset_key, 16)),
              (one.right.return_, one.right.violations, int(one.right.reset_key, 16)), one.answer, number=100 + i)
        for i, one in enumerate(some)
    ]  # fmt: skip
    answers = bradley_terry.Answers.of([*some, *repeats])
    tested = []

    class Recorded:
        def __init__(self, features, answers, monotone, prior_std):
            self.pairs = set(answers.pairs)

        def log_probabilities(self, answers):
            assert not self.pairs & set(answers.pairs)
            tested.extend(answers.pairs)
            return np.zeros(answers.offered.shape)

    monkeypatch.setattr(bradley_terry, "fit", Recorded)
    fit._held_out(None, answers, True, 1.0)  # type: ignore[arg-type]
    assert sorted(tested) == sorted([*range(40), *range(40)])
    for rows in fit._resampled(np.random.default_rng(0), answers.pairs, 5):
        drawn = np.bincount(answers.pairs[rows], minlength=40)
        assert (drawn % 2 == 0).all()  # a pair is drawn with all its labels
        assert drawn.sum() == 80


def test_held_out_accuracy_of_a_rater_who_guesses_is_chance():
    guess = lambda a, b, random: ("left", "right")[random.integers(2)]  # noqa: E731
    fits = [fit.fit(judged(guess, *plane(), 150, seed), monotone=True, ensemble=0) for seed in range(8)]
    accuracies = [fitted.accuracy() for fitted in fits]
    assert np.mean([accuracy for accuracy, _, _ in accuracies]) == pytest.approx(0.5, abs=0.04)  # 1200 guesses
    assert sum(low < 0.5 < high for _, low, high in accuracies) >= 6
    assert fits[0].prior_std == min(fit.PRIOR_STDS)  # nothing is worth fitting


def test_wilsons_interval_by_hand(lenient):
    """8 of 10: (0.8 + 0.19208 ± 1.96 √(0.016 + 0.009604)) / 1.38416."""
    _, fitted = lenient
    ten = replace(fitted, held_out=np.arange(10) < 8)
    assert ten.accuracy() == pytest.approx((0.8, 0.49016, 0.94332), abs=1e-4)


def test_an_inverted_fit_is_refused_with_its_place(confounded, tmp_path):
    path, out = write(tmp_path / "labels.jsonl", confounded), tmp_path / "u.json"
    with pytest.raises(ConfigError) as refused:
        fit.distill_labels([path], out, log=lambda _: None)
    found = [one for one in fit.fit(confounded, False).inversions if one.supported]
    sentence = str(refused.value)
    assert "prefers more violations where labels support it: u(1) > u(0)" in sentence
    assert f"at return {found[0].at_return:.1f} (inverted from return {found[0].low:.1f} to" in sentence
    assert "--monotone or --allow-inversion" in sentence
    assert not out.exists()
    assert (tmp_path / "u.svg").read_text().startswith("<svg")  # drawn all the same: it shows where
    assert 36 < found[0].at_return < 42


def test_an_inverted_fit_can_be_allowed_or_forbidden_by_construction(confounded, tmp_path):
    path, said = write(tmp_path / "labels.jsonl", confounded), []
    allowed = fit.distill_labels([path], tmp_path / "a.json", allow_inversion=True, log=said.append)
    assert "warning: the utility prefers more violations where labels support it" in said[-1]
    recorded = json.loads(allowed.read_text())["about"]["inversions"]
    assert any(one["supported"] and (one["fewer"], one["more"]) == (0, 1) for one in recorded)
    assert all(0 <= one["share_of_ensemble"] <= 1 for one in recorded)
    monotone = fit.distill_labels([path], tmp_path / "m.json", monotone=True, log=said.append)
    assert json.loads(monotone.read_text())["about"]["inversions"] == []
    utility = esr_distilled.read(monotone.read_bytes())
    u = utility(*np.meshgrid(np.linspace(0, 80, 81), -10.0 * np.arange(12), indexing="ij"))
    assert (np.diff(u, axis=1) <= 1e-4).all()
    assert (np.diff(u, axis=0) >= -1e-4).all()


def many_counts() -> tuple[np.ndarray, np.ndarray]:
    """Returns and violations of episodes of which half have up to sixty violations."""
    random = np.random.default_rng(0)
    counts = np.where(random.random(3000) < 0.6, random.integers(0, 4, 3000), random.integers(0, 61, 3000))
    return 30 + random.normal(0, 3, 3000), counts.astype(float)


def test_low_counts_are_told_apart_whatever_the_worst_episode():
    """The lenient rater's third violation matters; that others have sixty must not blur it."""
    fitted = fit.fit(judged(raters.LENIENT, *many_counts(), 300), monotone=True, ensemble=0)
    u = fitted.u(np.full(4, 30.0), np.arange(4.0))
    assert u[2] - u[3] > 5 * (u[0] - u[2])
    assert (bradley_terry.thinned(np.repeat(np.arange(61.0), 2), 13)[:7] == [0, 1, 2, 3, 4, 5, 6]).all()
    assert bradley_terry.thinned(np.repeat(np.arange(61.0), 2), 13)[-1] == 60
    assert bradley_terry.thinned(np.array([2.5, 0.0, 1.0, 2.5]), 13).tolist() == [0.0, 1.0, 2.5]


def one_above_none(a, b, random):
    """One violation is best, none second, then the fewer the better; at the same count the return decides."""
    order = [({0: 1, 1: 0}.get(one.violations, one.violations), -one.return_) for one in (a, b)]
    return "left" if order[0] < order[1] else "right"


def test_an_inversion_of_two_counts_out_of_many_is_refused(tmp_path):
    path = write(tmp_path / "labels.jsonl", judged(one_above_none, *many_counts(), 400))
    with pytest.raises(ConfigError, match=r"where labels support it: u\(1\) > u\(0\) by"):
        fit.distill_labels([path], tmp_path / "u.json", log=lambda _: None)


@pytest.mark.parametrize("scale", [1.0, 0.999], ids=["whole", "fractional"])
def test_an_inverted_fit_of_costs_is_refused(tmp_path, scale):
    """Costs up to 200, hardly any of which occurs three times; the rater likes them."""
    random = np.random.default_rng(0)
    costs, returns = scale * random.integers(0, 201, 400), 20 + random.normal(0, 3, 400)

    def likes_costs(a, b, random):
        return "left" if a.return_ + 0.1 * a.violations > b.return_ + 0.1 * b.violations else "right"

    path = write(tmp_path / "labels.jsonl", judged(likes_costs, returns, costs, 200))
    with pytest.raises(ConfigError, match="prefers more violations where labels support it"):
        fit.distill_labels([path], tmp_path / "u.json", log=lambda _: None)


def papers_failure(returns, violations):
    """Right at 0 and 1, wrong at 3, as the paper's utility for Proportional Force."""
    return returns - 10.0 * (violations > 0) + 4.0 * (violations > 2)


def test_an_inversion_without_labels_is_shown_and_not_refused(confounded):
    """The worst episode has one violation: u(3) > u(1) at R = 40 is outside the support, and the picture says so."""
    support = LabelSupport.of(confounded)
    found = inversions(papers_failure, support)
    assert [(one.fewer, one.more, one.supported) for one in found if one.fewer == 1] == [(1, 3, False)]
    assert found[0].low <= 40 <= found[0].high
    with style():
        drawing = picture.utility(papers_failure, support, "temptation")
    at_forty = drawing.frame[(drawing.frame["return"] - 40).abs() < 0.3]
    by_count = at_forty.groupby("violations")[["u", "supported"]].first()
    assert by_count.loc[3.0, "u"] > by_count.loc[1.0, "u"]
    assert by_count["supported"].tolist() == [True, True, False, False]
    plane_axes, slices = drawing.figure.axes[:2]
    hatched = [c for c in plane_axes.collections if isinstance(c, collections.PolyCollection) and c.get_hatch()]
    strips = {round(c.get_paths()[0].get_extents().y0 + 0.5) for c in hatched}
    assert {2, 3} <= strips
    assert any(text.get_text().startswith("u(3) > u(") for text in slices.texts)


def test_an_inversion_without_support_is_a_warning(tmp_path, monkeypatch, confounded):
    monkeypatch.setattr(fit, "inversions", lambda u, support: inversions(papers_failure, support))
    said = []
    path = write(tmp_path / "labels.jsonl", confounded)
    assert fit.distill_labels([path], tmp_path / "u.json", monotone=True, log=said.append).exists()
    assert "warning: the utility prefers more violations where no label supports it" in said[-1]


def test_support_by_hand():
    """Returns from 30 to 40: near is one unit.  Three episodes with 1 violation near 35, compared with clean ones."""
    some = [
        label((35, 1), (30, 0), "right"),
        label((35.5, 1), (34.5, 1), "left", number=1),
        label((40, 0), (39.5, 0), "left", number=2),
        label((39, 0), (39.2, 0), "left", number=3),
        *(label((30, 0), (35, 7, i), "skip", number=4 + i) for i in range(3)),
    ]
    support = LabelSupport.of(some)
    assert support.near_return == pytest.approx(1.0)
    returns = np.array([33.4, 35.0, 35.4, 36.6])
    assert support(returns, np.ones(4)).tolist() == [False, True, True, False]
    assert not support(np.array([39.5]), np.zeros(1)).any()  # four clean episodes, but compared with clean ones only
    assert not support(returns, np.full(4, 2.0)).any()
    assert not support(returns, np.full(4, 7.0)).any()  # a skipped pair is no evidence
    assert [one["violations"] for one in support.intervals()] == [1.0]


def test_large_counts_are_near_within_a_tenth():
    """Costs of whole numbers hardly ever occur three times; small counts are never lumped together."""
    some = [label((35, count, i), (30, 0), "right", number=i) for i, count in enumerate([38, 40, 43, 8, 9, 10])]
    support = LabelSupport.of(some)
    assert support(np.full(5, 35.0), np.array([8.0, 9.0, 10.0, 40.0, 44.0])).tolist() == [False] * 3 + [True, False]


def test_both_unacceptable_is_reported_as_an_acceptance_level(tmp_path):
    rater = raters.Rule(1.5, unacceptable=1.5)
    fitted = fit.fit(judged(rater, *plane(), 150), monotone=True, ensemble=0)
    level = fitted.acceptable_from
    assert level is not None
    u = fitted.u(np.full(4, 36.0), np.arange(4.0))
    assert u[1] > level > u[2] - 5
    assert u[2] > u[3]
    assert fit.fit(judged(raters.LENIENT, *plane(), 60), monotone=True, ensemble=0).acceptable_from is None


def test_too_few_labels_and_mixed_dilemmas_are_refused(tmp_path):
    some = judged(raters.LENIENT, *plane(), 9)
    with pytest.raises(ConfigError, match="9 labels decide"):
        fit.fit([one for one in some if one.answer in ("left", "right")][:9], monotone=True)
    other = label((30, 0), (31, 2), "left", "Bo")
    other = labels.Label.from_json(
        json.loads(json.dumps(other.to_json()).replace('"dilemma": "temptation"', '"dilemma": "other"'))
    )
    with pytest.raises(ConfigError, match="choose one with --dilemma"):
        fit.of_dilemma([*some, other], None)
    assert fit.of_dilemma([*some, other], "other") == [other]
    with pytest.raises(ConfigError, match="no label is about lying; the file has temptation"):
        fit.of_dilemma(some, "lying")
    for dilemma in (None, "lying"):
        with pytest.raises(ConfigError, match="there is no label yet; answer some pairs with `perepisode label`"):
            fit.of_dilemma([], dilemma)


@pytest.mark.parametrize("monotone", [False, True])
def test_equal_returns_or_equal_counts_are_no_division_by_zero(monotone):
    counts = judged(raters.PAPER, np.full(40, 30.0), np.repeat([0.0, 1.0, 2.0, 3.0], 10), 40)
    with pytest.raises(ConfigError, match="does not increase with the return"):
        fit.fit(counts, monotone, ensemble=0)
    clean = fit.fit(judged(raters.PAPER, np.linspace(30, 40, 40), np.zeros(40), 40), monotone, ensemble=0)
    assert clean.u(np.array(38.0), np.array(0.0)) > clean.u(np.array(32.0), np.array(0.0)) + 3
    assert not clean.support(np.array([35.0]), np.zeros(1)).any()  # nothing was compared across counts


def test_the_command(lenient, tmp_path, capsys):
    some, fitted = lenient
    path, out = write(tmp_path / "labels.jsonl", some), tmp_path / "utility.json"
    with pytest.raises(SystemExit) as ended:
        cli.main(["distill", "--labels", str(path), "--monotone", "--out", str(out)])
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert "200 labels of 1 rater:" in printed
    assert f"next: perepisode train --method esr_distilled --utility {out}" in printed
    about = json.loads(out.read_text())["about"]
    assert about["answers"] == {answer: sum(one.answer == answer for one in some) for answer in about["answers"]}
    assert about["held_out"]["accuracy"] == pytest.approx(fitted.accuracy()[0])
    name, u, _ = distilled.read(out)
    assert name == "temptation"
    assert u(np.array([35.0]), 3.0)[0] == pytest.approx(float(fitted.u(np.array(35.0), np.array(3.0))), abs=1e-3)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["distill"], "there is nothing to fit; give --labels, or episodes tables"),
        (["distill", "table.csv", "--monotone"], "are about people's labels; give --labels"),
        (["distill", "--labels", "missing.jsonl"], "missing.jsonl cannot be read"),
    ],
)
def test_the_command_refuses_in_one_line(line, says, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(line)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
