import pytest

from engine.flow.json_schema import faults

FEATURES = {
    "type": "object",
    "properties": {
        "feature": {
            "type": "array",
            "minItems": 2,
            "maxItems": 3,
            "items": {"type": "string", "pattern": "^[A-Z][a-z]+$", "maxLength": 8},
        },
        "score": {"type": "integer", "minimum": 0, "maximum": 100},
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "topic": {"enum": ["delivery", "payment"]},
        "version": {"const": 1},
        "note": {"type": ["string", "null"], "minLength": 2},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "both": {"allOf": [{"minimum": 1}, {"maximum": 2}]},
    },
    "required": ["feature"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "value",
    [
        {"feature": ["Wash", "Cut"]},
        {"feature": ["Wash", "Cut"], "score": 100, "share": 0.5, "topic": "payment", "version": 1, "note": None},
        {"feature": ["Wash", "Cut"], "score": 50.0, "either": 3, "both": 1.5, "note": "ok"},
    ],
)
def test_fits(value: object) -> None:
    assert list(faults(value, FEATURES)) == []


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([], ["$: expected object, found []"]),
        ({}, ['$: "feature" is missing']),
        ({"feature": ["Wash"]}, ["$.feature: expected at least 2 items, found 1"]),
        ({"feature": ["A", "B", "C", "D"]}, ["$.feature: expected at most 3 items, found 4"]),
        ({"feature": ["Wash", 1]}, ["$.feature[1]: expected string, found 1"]),
        ({"feature": ["Wash", "cut"]}, ['$.feature[1]: expected a text like ^[A-Z][a-z]+$, found "cut"']),
        ({"feature": ["Wash", "Telephone"]}, ["$.feature[1]: expected at most 8 characters, found 9"]),
        ({"feature": ["Wash", "Cut"], "x": 1}, ['$: "x" is not expected']),
    ],
)
def test_does_not_fit(value: object, found: list[str]) -> None:
    assert list(faults(value, FEATURES))[: len(found)] == found


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("score", True, "expected integer, found true"),
        ("score", 1.5, "expected integer, found 1.5"),
        ("score", 101, "expected at most 100, found 101"),
        ("score", -1, "expected at least 0, found -1"),
        ("share", 1, "expected less than 1, found 1"),
        ("share", 0, "expected more than 0, found 0"),
        ("topic", "weather", 'expected one of ["delivery", "payment"], found "weather"'),
        ("version", True, "expected 1, found true"),
        ("note", 1, "expected string or null, found 1"),
        ("note", "x", "expected at least 2 characters, found 1"),
        ("either", None, "fits none of the allowed forms, found null"),
        ("both", 3, "expected at most 2, found 3"),
    ],
)
def test_names_place_expected_and_found(name: str, value: object, found: str) -> None:
    assert list(faults({"feature": ["Wash", "Cut"], name: value}, FEATURES)) == [f"$.{name}: {found}"]


def test_additional_properties_may_have_a_schema() -> None:
    schema = {"additionalProperties": {"type": "integer"}}
    assert list(faults({"a": 1, "b": "x"}, schema)) == ['$.b: expected integer, found "x"']


def test_long_values_are_shortened() -> None:
    (fault,) = faults(["x" * 1000], {"type": "string"})
    assert len(fault) < 150


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "("])
def test_a_pattern_that_could_take_for_ever_or_is_none_is_left_to_the_server(pattern: str) -> None:
    assert list(faults("a" * 60 + "!", {"type": "string", "pattern": pattern})) == []
