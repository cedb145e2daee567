from engine.flow.trace import EMPTY, Kind


def test_durations_are_shown_on_demand() -> None:
    trace = EMPTY.add(Kind.CATEGORY, "M").add(Kind.AGENT, "A").add(Kind.DURATION, "(12 ms)").add(Kind.NEXT, "→")
    assert trace.text() == "M, A, →"
    assert trace.text(timed=True) == "M, A, (12 ms), →"
    assert str(trace) == "M, A, →"


def test_branches_share_the_past_and_do_not_see_each_other() -> None:
    past = EMPTY.add(Kind.AGENT, "A")
    left, right = past.add(Kind.SPLIT, "⇉ 1/2"), past.add(Kind.SPLIT, "⇉ 2/2")
    assert (past.text(), left.text(), right.text()) == ("A", "A, ⇉ 1/2", "A, ⇉ 2/2")
    assert left != right
    assert left == past.add(Kind.SPLIT, "⇉ 1/2")
    assert len({left, past.add(Kind.SPLIT, "⇉ 1/2")}) == 1


def test_only_a_fresh_trace_is_empty() -> None:
    assert not EMPTY
    assert EMPTY.text() == ""
    assert EMPTY.add(Kind.AGENT, "")


def test_a_long_trace_is_no_problem() -> None:
    trace = EMPTY
    for number in range(50_000):
        trace = trace.add(Kind.AGENT, str(number))
    assert len(trace.entries()) == 50_000
    del trace
