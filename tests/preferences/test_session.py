"""Sessions: each pair is answered once per rater, and everything but the next pair is read from the labels file."""

from threading import Event

import pytest

from perepisode.config import ConfigError
from perepisode.evaluation.episodes import complete
from perepisode.preferences import films, labels
from perepisode.preferences.session import UnknownPair
from tests.preferences import labelling


@pytest.fixture(scope="module")
def table():
    return labelling.table()


@pytest.fixture
def session(table, tmp_path):
    session = labelling.session_over(table, tmp_path / "labels.jsonl")
    yield session
    session.close()


def shown_pair(state) -> list[int]:
    return sorted(state["pair"][side]["row"] for side in ("left", "right"))


def test_a_session_ends_at_the_number_of_pairs_and_skips_do_not_count(table, tmp_path):
    session = labelling.session_over(table, tmp_path / "labels.jsonl", pairs=4)
    state, answers, pairs = session.state("Ada"), ["left", "skip", "equal", "right", "skip", "both_unacceptable"], []
    for answer in answers:
        pairs.append(shown_pair(state))
        state = session.answer("Ada", state["pair"]["id"], answer)
    assert (state["answered"], state["skipped"], state["pair"]) == (4, 2, None)
    found = labels.read(session.path)
    assert [label.answer for label in found] == answers
    assert len({label.pair for label in found}) == 6
    rows = [sorted(session.chooser.rows[side.digest] for side in (label.left, label.right)) for label in found]
    assert rows == pairs  # the episodes that were shown, not others


def test_the_label_has_the_sides_as_shown(session, table):
    state = session.state("Ada")
    session.answer("Ada", state["pair"]["id"], "left")
    (label,) = labels.read(session.path)
    for side, episode in (("left", label.left), ("right", label.right)):
        row = table.iloc[state["pair"][side]["row"]]
        assert (episode.return_, episode.violations) == (row["return"], row["violations_temptation"])
        assert dict(state["pair"][side]["facts"])["Temptation violations"] == str(row["violations_temptation"])


def test_an_answer_is_stored_once_whatever_is_sent_again(session):
    pair = session.state("Ada")["pair"]["id"]
    after = session.answer("Ada", pair, "left")
    assert session.answer("Ada", pair, "left") == after
    for rater, answer in (("Ada", "right"), ("Bob", "left")):  # whose page must not say that this is stored
        with pytest.raises(UnknownPair):
            session.answer(rater, pair, answer)
    assert [label.answer for label in labels.read(session.path)] == ["left"]


def test_a_pair_of_another_rater_or_of_none_is_refused(session):
    pair = session.state("Ada")["pair"]["id"]
    for rater, unknown in (("Bob", pair), ("Ada", "0" * 32), ("Ada", "")):
        with pytest.raises(UnknownPair):
            session.answer(rater, unknown, "left")
    assert not session.path.exists()


def test_raters_are_independent(session):
    for rater in ("Ada", "Bob", "Ada"):
        session.answer(rater, session.state(rater)["pair"]["id"], "left")
    assert [session.state(rater)["answered"] for rater in ("Ada", "Bob", "Cy")] == [2, 1, 0]
    session.undo("Bob", session.state("Bob")["last"]["id"])
    assert [session.state(rater)["answered"] for rater in ("Ada", "Bob")] == [2, 0]


def test_undo_shows_the_pair_again_and_then_the_one_that_waited(session):
    first = session.state("Ada")
    second = session.answer("Ada", first["pair"]["id"], "left")
    third = session.answer("Ada", second["pair"]["id"], "right")
    twice = [session.undo("Ada", third["last"]["id"]) for _ in range(2)]  # a retry takes nothing else back
    assert twice[0] == twice[1]
    assert twice[0]["answered"] == 1
    session.answer("Ada", twice[0]["pair"]["id"], "right")
    assert session.undo("Ada", first["pair"]["id"])["answered"] == 2  # only the last label can be taken back
    again = session.undo("Ada", session.state("Ada")["last"]["id"])
    back = session.undo("Ada", again["last"]["id"])
    assert (back["answered"], back["last"]) == (0, None)
    order = []
    for state in (first, second, third):
        order.append(back["pair"]["left"]["row"] == state["pair"]["left"]["row"])
        assert back["pair"]["id"] not in {one["pair"]["id"] for one in (first, second, third)[:2]}
        back = session.answer("Ada", back["pair"]["id"], "equal")
    assert order == [True, True, True]
    assert [label.answer for label in labels.read(session.path)] == ["equal"] * 3


def test_the_next_pair_is_chosen_while_the_rater_looks_at_this_one(session):
    """And its films are made, so that the rater need not wait."""
    first = session.state("Ada")
    upcoming = session._queues["Ada"].upcoming.result(60)
    state = session.answer("Ada", first["pair"]["id"], "left")
    shown = [state["pair"][side]["row"] for side in ("left", "right")]
    assert shown == [upcoming.left_row_index, upcoming.right_row_index]
    for row in shown:
        assert session.films.request(row).result(60)["player"]


def test_a_late_retry_of_an_answer_that_was_undone_is_refused(session):
    pair = session.state("Ada")["pair"]["id"]
    session.undo("Ada", session.answer("Ada", pair, "left")["last"]["id"])
    with pytest.raises(UnknownPair):
        session.answer("Ada", pair, "left")
    assert labels.read(session.path) == []


def test_another_session_goes_on_where_the_first_one_was_killed(session, table):
    for _ in range(3):
        session.answer("Ada", session.state("Ada")["pair"]["id"], "left")
    known = {label.pair for label in labels.read(session.path)}
    resumed = labelling.session_over(table, session.path)
    assert resumed.state("Ada")["answered"] == 3
    resumed.answer("Ada", resumed.state("Ada")["pair"]["id"], "right")
    assert labels.read(session.path)[-1].pair not in known
    state = resumed.undo("Ada", resumed.state("Ada")["last"]["id"])
    resumed.undo("Ada", state["last"]["id"])  # a label of the first session
    assert session.state("Ada")["answered"] == 2


def test_two_sessions_with_one_file_do_not_ask_a_rater_twice(table, tmp_path):
    """Both begin with the same pair, as two servers with the same seed do."""
    one, two = (labelling.session_over(table, tmp_path / "labels.jsonl") for _ in range(2))
    stale = two.state("Ada")
    assert shown_pair(one.state("Ada")) == shown_pair(stale)
    one.answer("Ada", one.state("Ada")["pair"]["id"], "left")
    with pytest.raises(UnknownPair):
        two.answer("Ada", stale["pair"]["id"], "right")
    for session in (two, one, two, one):
        session.answer("Ada", session.state("Ada")["pair"]["id"], "equal")
    found = labels.read(tmp_path / "labels.jsonl")
    assert len(found) == len({label.pair for label in found}) == 5


def test_two_sessions_that_answer_at_the_same_moment_store_one_answer(table, tmp_path, monkeypatch):
    """The other server writes after this one has looked and before it writes."""
    one, two = (labelling.session_over(table, tmp_path / "labels.jsonl") for _ in range(2))
    pairs = [session.state("Ada")["pair"]["id"] for session in (one, two)]
    append = labels.append

    def late(*arguments):
        monkeypatch.setattr(labels, "append", append)
        two.answer("Ada", pairs[1], "right")
        return append(*arguments)

    monkeypatch.setattr(labels, "append", late)
    with pytest.raises(UnknownPair):
        one.answer("Ada", pairs[0], "left")
    assert [label.answer for label in labels.read(tmp_path / "labels.jsonl")] == ["right"]
    assert one.answer("Ada", one.state("Ada")["pair"]["id"], "left")["answered"] == 2


def test_the_last_answer_is_the_last_one_given_whatever_the_clock_says(session, monkeypatch):
    for minute, answer in ((30, "left"), (10, "right")):
        monkeypatch.setattr(labels, "now", lambda minute=minute: f"2026-01-01T00:{minute}:00Z")
        state = session.answer("Ada", session.state("Ada")["pair"]["id"], answer)
    assert state["last"]["answer"] == "right"
    session.undo("Ada", state["last"]["id"])
    assert [label.answer for label in session.labels()] == ["left"]


def test_a_line_that_was_cut_short_is_reported_once(session, table, capsys):
    session.answer("Ada", session.state("Ada")["pair"]["id"], "left")
    session.path.write_bytes(session.path.read_bytes() + b'{"kind": "label", "ver')
    resumed = labelling.session_over(table, session.path)
    for _ in range(2):
        resumed.answer("Ada", resumed.state("Ada")["pair"]["id"], "left")
    assert capsys.readouterr().out.count("line 2: cut short") == 1
    assert len(resumed.labels()) == 3


def test_an_answer_that_the_disk_refuses_is_not_counted(session, monkeypatch):
    pair = session.state("Ada")["pair"]["id"]

    def full(path, record, size):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(labels, "append", full)
        with pytest.raises(OSError, match="No space"):
            session.answer("Ada", pair, "left")
    state = session.state("Ada")
    assert (state["answered"], state["pair"]["id"]) == (0, pair)
    assert session.answer("Ada", pair, "left")["answered"] == 1


def test_a_table_without_another_pair_says_so(table, tmp_path):
    session = labelling.session_over(table.iloc[:2], tmp_path / "labels.jsonl")
    state = session.answer("Ada", session.state("Ada")["pair"]["id"], "left")
    assert state["pair"] is None
    assert "already labelled" in state["note"]


def test_labels_of_another_environment_are_refused(session, table):
    session.answer("Ada", session.state("Ada")["pair"]["id"], "left")
    foreign = complete(labelling.of_another_program(table))
    with pytest.raises(ConfigError, match="of temptation and temptation, but the episodes are of CarGoal and cost"):
        labelling.session_over(foreign, session.path)


def test_a_table_of_another_program_is_labelled_without_films(table, tmp_path):
    foreign = complete(labelling.of_another_program(table))
    session = labelling.session_over(foreign, tmp_path / "labels.jsonl")
    state = session.state("Ada")
    session.answer("Ada", state["pair"]["id"], "left")
    (label,) = labels.read(session.path)
    assert label.left.return_ == foreign["return"].iloc[state["pair"]["left"]["row"]]
    assert label.left.reset_key == ""
    found = session.films.request(state["pair"]["left"]["row"]).result(60)
    assert found["player"] is None
    assert "no keys and actions" in found["note"]


# ---- films


def test_a_film_is_the_recorded_episode(table):
    row = table[table["violations"] == 2].iloc[0].to_dict()
    found = films.film(row, "temptation")
    assert found["player"]["length"] == row["length"] == len(found["player"]["actions"])
    assert found["player"]["accrued"][-1] == pytest.approx(row["return"], abs=1e-3)
    yields = [step for step, action in enumerate(found["player"]["actions"], 1) if action == "yields"]
    assert [jump["step"] for jump in found["jumps"]] == yields
    for number, (step, jump) in enumerate(zip(yields, found["jumps"]), 1):
        assert jump["text"].startswith(f"violation {number} at step {step}: accepts an offer that pays ")
    assert len(yields) == 2


def test_an_episode_that_is_not_reproduced_has_no_film(table):
    row = {**table.iloc[0].to_dict(), "violations": 99}
    found = films.film(row, "temptation")
    assert found["player"] is None
    assert "violations: recorded 99" in found["note"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"environment": labelling.HOSTILE}, "is unknown"),
        ({"actions": b"\x09"}, "action 9 is unknown"),
        ({"actions": None}, "no keys and actions"),
        ({"reset_key": "../../etc"}, "no keys and actions"),
    ],
)
def test_a_row_that_cannot_be_replayed_says_why(table, change, reason):
    found = films.film({**table.iloc[0].to_dict(), **change}, "temptation")
    assert found["player"] is None
    assert reason in found["note"]


def test_the_film_that_is_waited_for_is_made_first(table, monkeypatch):
    made, started, finish = [], Event(), Event()

    def slow(row, dilemma):
        position = row["position"]  # which rows of other tests lack, whose films may still be made
        started.set()
        finish.wait(60)
        made.append(position)
        return {}

    monkeypatch.setattr(films, "film", slow)
    library = films.Films(table.assign(position=range(len(table))), "temptation")
    first = library.request(0)
    assert started.wait(60)
    requested = [library.request(position) for position in (1, 2, 3)]
    assert library.request(1) is requested[0]
    finish.set()
    for future in (first, *requested):
        future.result(60)
    assert made == [0, 1, 3, 2]


def test_films_that_nobody_waits_for_any_more_are_dropped(table, monkeypatch):
    """Also the one that is being made, whose result has no place; the films after it are made all the same."""
    made, started, finish = [], Event(), Event()

    def slow(row, dilemma):
        position = row["position"]
        started.set()
        finish.wait(60)
        made.append(position)
        return {"position": position}

    monkeypatch.setattr(films, "film", slow)
    monkeypatch.setattr(films, "KEPT", 2)
    library = films.Films(table.assign(position=range(len(table))), "temptation")
    library.request(0)
    assert started.wait(60)
    dropped, *kept = [library.request(position) for position in (1, 2, 3)]
    finish.set()
    assert [film.result(60) for film in kept] == [{"position": 2}, {"position": 3}]
    assert dropped.cancelled()
    assert library.request(1).result(60) == {"position": 1}
    assert made == [0, 3, 2, 1]
    library.worker.close()
