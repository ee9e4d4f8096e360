"""Names that match, and names that a configuration refers to."""

from hobus.config.secret_refs import list_referred, select_allowed


def test_names_match_whole_and_as_they_are_written():
    environ = dict.fromkeys(["PATH", "PATHS", "path", "LC_ALL", "LC_"], "x")
    assert sorted(select_allowed(["PATH", "LC_*"], environ)) == ["LC_", "LC_ALL", "PATH"]


def test_references_are_found_at_any_depth():
    value = {"a": ["env:ONE", {"b": "env:TWO"}], "c": "env:not a name", "d": "file:/x", "e": 1, "f": "see env:NO"}
    assert sorted(list_referred(value)) == ["ONE", "TWO"]
