"""Any table of four columns gives a page or a one-line error; names in it are shown, never executed."""

import io
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.boundary.command_line import refused, works, works_or_one_line

from perepisode.evaluation import episodes

FOUR = ("method", "seed", "return", "violations")
NUMBERS = st.one_of(
    st.integers(-3, 3), st.floats(), st.floats(0, 100), st.sampled_from([1e308, -1e308, 1e-308, 10**20, 2**63])
)
NAMES = st.one_of(st.sampled_from(["PPO", "esr", "ser", "unconstrained", "", "nan"]), st.text(max_size=8))
ANY = st.one_of(NUMBERS, NAMES, st.none(), st.booleans())


def report(tmp_path, content: bytes, name: str = "table.csv") -> bool:
    (tmp_path / name).write_bytes(content)
    return works_or_one_line("report", tmp_path / name, "--out", tmp_path / "out")


def csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).encode(errors="surrogatepass")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@settings(max_examples=60)
@given(st.lists(st.tuples(NAMES, st.one_of(st.integers(0, 3), ANY), ANY, ANY), max_size=6))
def test_four_columns_of_anything_are_read_or_refused(home, rows):
    """Most of these tables are refused; only reading is tested."""
    (home / "table.csv").write_bytes(csv(pd.DataFrame(rows, columns=list(FOUR))))
    if works(episodes.read, home / "table.csv"):
        numbers = episodes.read(home / "table.csv")[["seed", "return", "violations"]]
        assert np.isfinite(numbers.to_numpy(float)).all()


@pytest.mark.parametrize(
    ("method", "shown"), [("nan", "nan"), ("None", "None"), ("NA", "NA"), ("null", "null"), ("", "unnamed")]
)
def test_an_agent_may_have_any_name(home, method, shown):
    text = f"algo,seed,return,cost\n{method},0,NaN,1\n{method},0,2,1\n"
    (home / "table.csv").write_text(text.replace("NaN", "1"))
    assert episodes.read(home / "table.csv")["method"].tolist() == [shown] * 2
    assert report(home, (home / "table.csv").read_bytes())
    (home / "table.csv").write_text(text)
    with pytest.raises(ValueError, match="return=nan in row 0"):
        episodes.read(home / "table.csv")


@settings(max_examples=3)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["PPO", "esr", "unconstrained", "<b>", "\u202e", "a|b", "nan", "$x$"]),
            st.integers(0, 2),
            st.floats(-1e30, 1e30),
            st.one_of(st.integers(0, 5), st.floats(0, 1e30)),
        ),
        min_size=1,
        max_size=25,
    )
)
@example(
    [("PPO", 0, 0.0, 0), ("PPO", 1, 1.0, 3), ("nan", 0, -2e16, 5), ("$x$", 2, -3e15, 5), ("a|b", 0, -4e16, 4.6e28)]
)
def test_four_columns_of_names_and_numbers_give_a_page(home, rows):
    assert report(home, csv(pd.DataFrame(rows, columns=list(FOUR))))


def table(**other) -> pd.DataFrame:
    rows = {"method": ["A", "B"] * 6, "seed": [1, 1, 2, 2] * 3, "return": np.arange(12.0), "violations": [0, 1, 2] * 4}
    return pd.DataFrame({**rows, **other})


WRONG = {
    "UTF-16": table().to_csv(index=False).encode("utf-16"),
    "Latin-1": table(method=["é"] * 12).to_csv(index=False).encode("latin-1"),
    "nothing": b"",
    "one NUL": b"\0",
    "no rows": ",".join(FOUR).encode(),
    "no header": b"1,2,3,4\n5,6,7,8",
    "ragged": b"method,seed,return,violations\na,1,2,3,4,5,6\nb,1,2,3",
    "unended quote": b'method,seed,return,violations\n"a,1,2,3\n',
    "a picture": bytes(range(256)) * 10,
    "1e308": csv(table(**{"return": [1e308] * 12})),
    "1e308 violations": csv(table(violations=[1e308] * 12)),
    "a seed beyond": csv(table(seed=[1e300] * 12)),
    "NaN": csv(table(**{"return": [math.nan] * 12})),
    "infinite": csv(table(violations=[math.inf] * 12)),
    "negative": csv(table(violations=[-1] * 12)),
    "words": csv(table(**{"return": ["much"] * 12})),
    "word seeds": csv(table(seed=["s1"] * 12)),
    "lists": csv(table(**{"return": ["[1, 2]"] * 12})),
    "lengths of nothing": csv(table(length=[0] * 12)),
    "endless lengths": csv(table(length=[1e305] * 12)),
    "word lengths": csv(table(length=["long"] * 12)),
    "word counts": csv(table(violations_x=["many"] * 12)),
    "word gamma": csv(table(gamma=["g"] * 12)),
    "word steps": csv(table(total_timesteps=["s"] * 12)),
    "word value": csv(table(value=["v"] * 12)),
    "two environments": csv(table(environment=["a", "b"] * 6)),
    "no such end": csv(table(end_cause=["\x1b[31m"] * 12)),
    "one seed twice": csv(table(run=[f"r{i}" for i in range(12)])),
    "none in first": csv(table(in_first=[False] * 12, in_window=[False] * 12)),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_csv_is_one_line(tmp_path, kind):
    (tmp_path / "table.csv").write_bytes(WRONG[kind])
    refused("report", tmp_path / "table.csv", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()  # nothing is written before everything is checked


def test_the_messages_help(tmp_path):
    messages = {kind: _message(tmp_path, kind) for kind in ("UTF-16", "1e308", "word lengths")}
    assert "is not UTF-8 text; save it as UTF-8" in messages["UTF-16"]
    assert "return=1e+308 in row 0 (12 such rows): use numbers up to 1e+30" in messages["1e308"]
    assert "column 'length' of the episodes table is not numeric; write numbers" in messages["word lengths"]


def _message(tmp_path, kind):
    (tmp_path / "table.csv").write_bytes(WRONG[kind])
    return refused("report", tmp_path / "table.csv", "--out", tmp_path / "out")


def parquet(arrow: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(arrow, file)
    return file.getvalue()


ODD_COLUMNS = {
    "lists": pa.array([[1.0]] * 12),
    "structs": pa.array([{"a": 1}] * 12),
    "bytes": pa.array([b"\xff"] * 12),
    "dates": pa.array(np.array(["2020-01-01"] * 12, "M8[us]")),
    "nulls": pa.nulls(12),
    "text": pa.array(["x"] * 12),
    "decimals": pa.array([1] * 12, pa.decimal128(38, 30)),
    "huge": pa.array([2**63 - 1] * 12),
    "durations": pa.array([1] * 12, pa.duration("ns")),
    "categories": pa.array(["a", "b"] * 6).dictionary_encode(),
}


@pytest.mark.parametrize("column", [*FOUR, "arm", "length", "in_first", "gamma", "violations_x", "run", "end_cause"])
def test_any_type_of_column_is_read_or_refused(tmp_path, column):
    whole = pa.Table.from_pandas(table())
    for values in ODD_COLUMNS.values():
        one = whole.drop_columns([column]) if column in whole.column_names else whole
        (tmp_path / "table.parquet").write_bytes(parquet(one.append_column(column, values)))
        works(episodes.read, tmp_path / "table.parquet")


def test_a_truncated_damaged_or_oversized_parquet_file_is_one_line(tmp_path):
    whole, path = parquet(pa.Table.from_pandas(table())), tmp_path / "table.parquet"
    for cut in range(0, len(whole), len(whole) // 12):
        path.write_bytes(whole[:cut])
        assert "table.parquet" in refused("report", path)
    random = np.random.default_rng(0)
    for position in random.integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        works(episodes.read, path)
    many = pa.table({name: pa.array(np.zeros(episodes.MAX_ROWS + 1, np.int8)) for name in FOUR})
    path.write_bytes(parquet(many))
    assert path.stat().st_size < 1_000_000  # a small file
    assert "a table has at most" in refused("report", path)


@pytest.mark.parametrize("metadata", ["[]", "null", "1", "[" * 100_000, '{"path": 1, "protocol": [1]}', "\xff"])
def test_the_metadata_of_a_table_may_be_anything(tmp_path, metadata):
    arrow = pa.Table.from_pandas(table()).replace_schema_metadata({"perepisode": metadata})
    (tmp_path / "table.parquet").write_bytes(parquet(arrow))
    assert len(episodes.read(tmp_path / "table.parquet")) == 12


def test_metadata_that_pandas_cannot_read_is_refused(tmp_path):
    arrow = pa.Table.from_pandas(table()).replace_schema_metadata({"pandas": "{not json"})
    (tmp_path / "table.parquet").write_bytes(parquet(arrow))
    assert "is not a complete parquet file" in refused("report", tmp_path / "table.parquet")


class Tags(HTMLParser):
    """The tags and attributes that a browser finds on a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}


NASTY = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 191 }}", "\x1b[31mred", "../../x",
    "$\\frac$", "--><b>", "]]><b>", "[click](javascript:alert(1))", "a\nb", "\u202eabc",
)  # fmt: skip


def test_names_are_shown_and_never_executed(tmp_path):
    """In methods, arms, dilemmas, links and optima."""
    rows = [(name, seed, 10.0 + n + i, n) for n, name in enumerate(NASTY) for seed in (1, 2) for i in range(3)]
    frame = pd.DataFrame(rows, columns=list(FOUR)).assign(arm=NASTY[0], dilemma=NASTY[1], environment=NASTY[0])
    frame[f"violations_{NASTY[1]}"] = frame["violations"]
    frame.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "titles.json").write_text(json.dumps([NASTY[0]]))
    optimum = {"label": NASTY[1], "kind": NASTY[0], "return": 1.0, "mean_violations": 0.5, "cvar": 1.0, "p_over": 0.1}
    (tmp_path / "exact.json").write_text(json.dumps([optimum]))
    words = ("--watch", tmp_path / "watch", "--exact", tmp_path / "exact.json", "--out", tmp_path / "out" / "page")
    assert works_or_one_line("report", tmp_path / "table.parquet", *words)
    page, markdown = ((tmp_path / "out" / "page" / name).read_text() for name in ("index.html", "report.md"))
    table().to_csv(tmp_path / "plain.csv", index=False)
    assert works_or_one_line("report", tmp_path / "plain.csv", "--out", tmp_path / "plain")
    found, plain = Tags(page), Tags((tmp_path / "plain" / "index.html").read_text())
    assert found.tags.count("script") == plain.tags.count("script")
    assert not {"img", "b"} & set(found.tags)
    assert "onerror" not in found.attributes
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for text in (re.sub(r"(?s)<svg.*?</svg>", "", page), markdown):
        assert "1337" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "[click](javascript" not in markdown.replace("\\[", "")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["page"]
    assert len(list(tmp_path.iterdir())) == 6  # the files of this test, and the two reports
