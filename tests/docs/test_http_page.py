"""What docs/http.md says of refusals is what the door answers."""

from hobus.launch.http.problems import STATUS
from tests.architecture.source import ROOT

UNPROCESSABLE = 422


def test_every_answer_that_is_none_is_explained():
    """Nobody can mend a code that stands nowhere."""
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    codes = [code for code, status in STATUS.items() if status == UNPROCESSABLE]
    assert codes and [code for code in codes if f"422 `{code}`" not in page] == []
