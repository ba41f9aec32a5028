"""The episodes table: round trip, tables of other programs, and one clear line for every bad input."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from perepisode.evaluation import episodes
from perepisode.report.statistics.points import Episodes


def small(**changes):
    columns = {"method": ["esr", "ser"], "seed": [1, 2], "return": [3.0, 4.0], "violations": [0, 2]}
    return pd.DataFrame({**columns, **changes})


def test_round_trip_keeps_rows_and_provenance(tmp_path):
    path = episodes.write(small(), tmp_path / "deep" / "episodes.parquet", {"device": "cpu"})
    table = episodes.read(path)
    assert table["return"].tolist() == [3.0, 4.0]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert table.attrs["provenance"] == [{"path": str(path), "sha256": digest, "episodes": 2, "device": "cpu"}]
    assert [file.name for file in path.parent.iterdir()] == ["episodes.parquet"]


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = episodes.write(small(), tmp_path / "episodes.parquet")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        episodes.write(small(violations=[9, 9]), path)
    assert episodes.read(path)["violations"].tolist() == [0, 2]
    assert len(list(tmp_path.iterdir())) == 1


def test_four_columns_are_enough(tmp_path):
    path = tmp_path / "mine.csv"
    small(arm=["k=1", ""]).to_csv(path, index=False)
    table = episodes.read(path)
    assert table["environment"].unique().tolist() == ["external"]
    assert table["in_window"].all()
    assert table["in_first"].all()
    assert table["arm"].tolist() == ["k=1", ""]
    assert table["value"].iloc[0] == 1.0
    assert np.isnan(table["value"].iloc[1])
    assert np.isnan(table["length"]).all()
    assert table["episode_index"].tolist() == [0, 0]


def test_several_tables_and_folders_are_joined(tmp_path):
    first = episodes.write(small(), tmp_path / "a.parquet")
    small().to_csv(tmp_path / "b.csv", index=False)
    assert len(episodes.read([first, tmp_path / "b.csv"])) == 4
    assert len(episodes.read(tmp_path)) == 4


def test_the_episodes_of_a_table_and_its_copy_do_not_count_twice(tmp_path):
    """Reports refuse them, in any format and as data frames; replays show each episode once."""
    first = episodes.write(small(), tmp_path / "a.parquet")
    small().to_csv(tmp_path / "b.csv", index=False)
    for again in (first, tmp_path / "b.csv"):
        table = episodes.read([first, again])
        assert len(table) == 4
        with pytest.raises(ValueError, match=rf"{again.name} has the same episodes as .*a\.parquet; give only one"):
            Episodes(table)
    with pytest.raises(ValueError, match=r"b\.csv has the same episodes as"):
        Episodes(episodes.read(tmp_path))
    with pytest.raises(ValueError, match=r"data frame 2 has the same episodes as .*a\.parquet"):
        Episodes(episodes.read([first, small()]))
    for other in ({"arm": "k=2"}, {"return": [1.0, 2.5]}, {"violations": [1, 1]}, {"dilemma": "other"}):
        second = episodes.write(small(**other), tmp_path / "another.parquet")
        assert episodes.read([first, second]).attrs["copies"] == []


def test_episodes_of_evaluation_come_before_those_of_training(tmp_path):
    """OmniSafe's tables may have both; a Test column is the policy without exploration."""
    rows = {"algo": ["A"], "seed": [1], "Metrics/EpRet": [1.0], "Metrics/EpCost": [2.0], "Metrics/EpLen": [3]}
    rows |= {"Metrics/TestEpRet": [4.0], "Metrics/TestEpCost": [5.0], "Metrics/TestEpLen": [6]}
    short = {name.removeprefix("Metrics/"): values for name, values in rows.items()}
    for name, table in (("long", rows), ("short", short)):
        pd.DataFrame(table).to_csv(tmp_path / f"{name}.csv", index=False)
        read = episodes.read(tmp_path / f"{name}.csv")
        assert read[["return", "violations", "length"]].to_numpy().tolist() == [[4.0, 5.0, 6.0]]


def test_columns_can_be_skipped(tmp_path):
    path = episodes.write(small(actions=[b"\x00", b"\x01"]), tmp_path / "a.parquet")
    assert "actions" not in episodes.read(path, without=episodes.REPLAY_COLUMNS)
    assert episodes.read(path)["actions"].tolist() == [b"\x00", b"\x01"]


def test_dilemmas_come_from_the_columns():
    counts = {"violations_a": [0, 1], "violations_a_paper": [0, 1], "violations_b": [0, 0]}
    assert episodes.dilemmas(episodes.complete(small(dilemma=["a", "none"], **counts))) == ("a", "b")
    assert episodes.dilemmas(episodes.complete(small(**counts))) == ("a", "b", "violations")  # of another library
    assert episodes.dilemmas(episodes.complete(small())) == ("violations",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"violations": [-1, 2]}, "violations=-1 in row 0"),
        ({"violations": [np.nan, 2]}, "violations=nan"),
        ({"return": [1.0, np.nan]}, r"return=nan in row 1 \(1 such rows\)"),
        ({"return": ["1.5", "b"]}, r"return=b in row 1 \(1 such rows\): write return as numbers"),
        ({"environment": ["craftax", "temptation"]}, "mixed environments"),
        ({"end_cause": ["death", "boredom"]}, "end_cause='boredom'"),
        ({"length": [10, 0]}, "length=0"),
        ({"violations_other": [0, -2]}, "violations_other=-2"),
    ],
)
def test_bad_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        episodes.validate(small(**changes))


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has no column 'violations'"):
        episodes.validate(small().drop(columns="violations"))
    with pytest.raises(ValueError, match="empty"):
        episodes.validate(small().iloc[:0])
    with pytest.raises(ValueError, match="does not exist"):
        episodes.read(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match=r"neither \.parquet nor \.csv"):
        episodes.read(_touch(tmp_path / "table.xlsx"))
    with pytest.raises(ValueError, match="is empty"):
        episodes.read(_touch(tmp_path / "table.csv"))
    with pytest.raises(ValueError, match="no episodes table"):
        episodes.read([])
    whole = episodes.write(small(), tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a complete parquet file"):
        episodes.read(tmp_path / "cut.parquet")


def _touch(path):
    path.touch()
    return path
