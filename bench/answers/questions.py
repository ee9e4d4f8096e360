"""What is asked: sixty short questions, each with what a right answer holds, and thirty that one tool answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple


class Question(NamedTuple):
    """A question, and a pattern that a right answer has somewhere, whatever the case."""

    text: str
    right: str

    def is_right(self, answer: str) -> bool:
        return re.search(rf"\b(?:{self.right})\b", answer.lower()) is not None


_HERE = Path(__file__).parent
SHORT = [Question(*line.split("\t")) for line in (_HERE / "questions.txt").read_text().splitlines()]
CITIES = (_HERE / "cities.txt").read_text().splitlines()
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather", "description": "Get the weather of a city",
        "parameters": {
            "type": "object", "properties": {"city": {"type": "string", "description": "the city"}}, "required": ["city"],
        },
    },
}  # fmt: skip
"""The one tool; whoever asks would run it."""


def calls_for(city: str, calls: list[Any]) -> bool:
    function: dict[str, str] = calls[0]["function"] if calls else {}
    return function.get("name") == "get_weather" and city.lower() in function.get("arguments", "").lower()
