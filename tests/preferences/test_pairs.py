"""Which pair is asked next."""

import json
import subprocess
import sys

import numpy as np
import pytest

from perepisode.config import ConfigError
from perepisode.preferences import raters
from perepisode.preferences.pairs import PairChooser
from tests.preferences.made_up import plane, table

TABLE = table(*plane())
PARAMETERS = [("active", 0.1), ("random", 0.1), ("active", 0.5)]


@pytest.fixture(scope="module", params=PARAMETERS, ids=str)
def labelled(request):
    """A chooser's strategy and share of repeats, and sixty labels about its pairs."""
    strategy, share = request.param
    return (
        strategy,
        share,
        raters.simulate(TABLE, PairChooser(TABLE, "temptation", 3, strategy, share), raters.LENIENT, 60),
    )


def test_the_next_pair_follows_from_seed_rater_and_labels(labelled):
    strategy, share, labels = labelled
    fresh = PairChooser(TABLE, "temptation", 3, strategy, share)
    for number in (59, 7, 30):  # as after a restart or an undo
        pair = fresh.next(labels[:number], "simulated")
        assert fresh.digests[pair.left_row_index] == labels[number].left.digest
        assert fresh.digests[pair.right_row_index] == labels[number].right.digest
        assert pair.repeat_of == labels[number].repeat_of
    others = [
        PairChooser(TABLE, "temptation", 4, strategy, share).next(labels[:30], "simulated"),
        fresh.next(labels[:30], "Bo"),
    ]
    assert fresh.next(labels[:30], "simulated") not in others


def test_only_repeats_repeat(labelled):
    _, _, labels = labelled
    new = [label for label in labels if label.repeat_of is None]
    assert len({label.pair for label in new}) == len(new)
    repeats = [label for label in labels if label.repeat_of is not None]
    by_id = {label.id: label for label in labels}
    positions = {label.id: position for position, label in enumerate(labels)}
    for label in repeats:
        first = by_id[label.repeat_of]
        assert first.pair == label.pair
        assert first.repeat_of is None
        assert positions[label.id] - positions[first.id] > 5
    assert len({label.repeat_of for label in repeats}) == len(repeats)


def test_the_share_of_repeats_and_their_order():
    chooser = PairChooser(TABLE, "temptation", 0, "random", 0.3)
    labels = raters.simulate(TABLE, chooser, raters.LENIENT, 400)
    by_id = {label.id: label for label in labels}
    repeats = [label for label in labels if label.repeat_of is not None]
    assert len(repeats) / len(labels) == pytest.approx(0.3, abs=0.07)
    swapped = np.mean([by_id[label.repeat_of].left.digest != label.left.digest for label in repeats])
    assert 0.35 < swapped < 0.65
    assert 0.4 < np.mean([label.left.digest == label.pair[0] for label in labels]) < 0.6


def test_pairs_of_another_rater_are_asked_again_to_measure_agreement():
    chooser = PairChooser(TABLE, "temptation", 0, "random", 0.5)
    ann = raters.simulate(TABLE, chooser, raters.LENIENT, 20, "Ann")
    both = raters.simulate(TABLE, chooser, raters.LENIENT, 20, "Bo", labels=ann)
    repeated = [label.repeat_of for label in both[20:] if label.repeat_of]
    assert any(name.startswith("Ann") for name in repeated)
    assert any(name.startswith("Bo") for name in repeated)


def test_active_pairs_leave_out_what_is_known():
    """Every label so far prefers the clean episode: asking more of that teaches less than asking about returns."""
    returns, violations = np.tile([30.0, 33.0, 36.0], 40), np.repeat([0.0, 3.0], 60)
    episodes = table(returns, violations)
    rater = raters.Rule(0.5)
    active, random = (
        raters.simulate(episodes, PairChooser(episodes, "temptation", 1, strategy, 0.0), rater, 80)
        for strategy in ("active", "random")
    )
    obvious = [np.mean([one.left.violations != one.right.violations for one in some[40:]]) for some in (active, random)]
    alike = [
        np.mean([(one.left.return_, one.left.violations) == (one.right.return_, one.right.violations) for one in some])
        for some in (active, random)
    ]
    assert alike[0] < alike[1] / 2  # nothing is learned from two episodes with the same numbers
    assert obvious[0] < obvious[1]


def test_active_pairs_are_spread_over_the_plane():
    """Of 20,000 episodes three have many violations; at random they are hardly ever shown."""
    returns, violations = plane(20_000)
    returns[:3], violations[:3] = 50, 9
    episodes = table(returns, violations)
    shown = {}
    for strategy in ("active", "random"):
        labels = raters.simulate(episodes, PairChooser(episodes, "temptation", 0, strategy), raters.LENIENT, 50)
        shown[strategy] = sum(9 in (label.left.violations, label.right.violations) for label in labels)
    assert shown["active"] > 1
    assert shown["random"] == 0


def test_pairs_that_would_be_rejected_are_avoided():
    rejecting = raters.Rule(0.5, unacceptable=0.5)
    shares = {}
    for strategy in ("active", "random"):
        labels = raters.simulate(TABLE, PairChooser(TABLE, "temptation", 0, strategy), rejecting, 80)
        shares[strategy] = np.mean([label.answer == "both_unacceptable" for label in labels[20:]])
    assert shares["active"] < shares["random"] / 2


def test_a_table_that_gives_no_pair_is_refused():
    with pytest.raises(ConfigError, match="fewer than two different episodes"):
        PairChooser(TABLE.iloc[[0, 0]], "temptation", 0)
    with pytest.raises(ConfigError, match="no column violations_lying"):
        PairChooser(TABLE, "lying", 0)
    with pytest.raises(ConfigError, match="strategy"):
        PairChooser(TABLE, "temptation", 0, "passive")  # type: ignore[arg-type]
    two = TABLE.iloc[:2]
    labels = raters.simulate(two, PairChooser(two, "temptation", 0), raters.LENIENT, 1)
    with pytest.raises(ConfigError, match="already labelled"):
        PairChooser(two, "temptation", 0, repeat_share=0.0).next(labels, "simulated")


@pytest.mark.processes
def test_choosing_pairs_and_reading_labels_load_no_jax():
    code = (
        "import json, sys; import perepisode.preferences.labels, perepisode.preferences.pairs, "
        "perepisode.preferences.fit; print(json.dumps('jax' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
