"""Shared by the tests of preferences: episodes with given numbers, and labels of them."""

import hashlib

import numpy as np
import pandas as pd

from perepisode.preferences.labels import Episode, Label


def episode(return_: float, violations: float, number: int = 0, dilemma: str = "temptation") -> Episode:
    digest = "sha256:" + hashlib.sha256(f"{return_} {violations} {number}".encode()).hexdigest()
    keys = f"{number:016x}", "0" * 16
    return Episode("r", "temptation", dilemma, {}, 1, *keys, digest, float(return_), float(violations), 40, "timeout")


def label(a: tuple, b: tuple, answer: str, rater: str = "Ann", number: int = 0, **more) -> Label:
    """About two episodes, each (return, violations) or (return, violations, number)."""
    given = {"id": f"{rater}-{number}", "time": f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z", **more}
    return Label(rater, episode(*a), episode(*b), answer, **given)


def judged(
    rater, returns: np.ndarray, violations: np.ndarray, pairs: int, seed: int = 0, name: str = "Ann"
) -> list[Label]:
    """Labels of random pairs of these episodes by a simulated rater."""
    random = np.random.default_rng(seed)
    labels = []
    while len(labels) < pairs:
        a, b = ((returns[i], violations[i], int(i)) for i in random.integers(len(returns), size=2))
        if a != b:
            answer = rater(episode(*a), episode(*b), random)
            labels.append(label(a, b, answer, name, len(labels)))
    return labels


def table(returns: np.ndarray, violations: np.ndarray, actions: int = 40) -> pd.DataFrame:
    """An episodes table with keys and actions, as `evaluate` writes it."""
    size = len(returns)
    return pd.DataFrame({
        "run": "r", "method": "ser", "environment": "temptation", "dilemma": "temptation", "seed": 1, "settings": "{}",
        "env_index": 0, "episode_index": np.arange(size), "return": np.asarray(returns, float), "length": 40,
        "violations": violations, "violations_temptation": violations, "end_cause": "timeout",
        "reset_key": [f"{i:016x}" for i in range(size)], "episode_key": "0" * 16,
        "actions": [bytes([i % 256, i // 256]) * (actions // 2) for i in range(size)],
    })  # fmt: skip


def plane(size: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns and violations as on `temptation`: every violation pays."""
    random = np.random.default_rng(seed)
    violations = random.binomial(5, 0.35, size).astype(float)
    return 30 + random.normal(0, 2, size) + 2.5 * violations, violations
