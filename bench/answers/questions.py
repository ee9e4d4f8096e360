"""What is asked: sixty short questions, each with what a right answer holds, and thirty that one tool answers."""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Question(NamedTuple):
    """A question, and a pattern that a right answer has somewhere, whatever the case."""

    text: str
    right: str

    def is_right(self, answer: str) -> bool:
        """Return whether the answer holds what it must."""
        return re.search(rf"\b(?:{self.right})\b", answer.lower()) is not None


_CAPITALS = {
    "France": "paris", "Japan": "tokyo", "Italy": "rome", "Germany": "berlin", "Spain": "madrid", "England": "london",
    "Russia": "moscow", "China": "beijing", "Egypt": "cairo", "Canada": "ottawa", "Austria": "vienna", "Greece": "athens",
    "Portugal": "lisbon", "Ireland": "dublin", "Poland": "warsaw", "Sweden": "stockholm", "Norway": "oslo",
    "Cuba": "havana", "India": "new delhi|delhi", "Australia": "canberra",
}  # fmt: skip
_FACTS = {
    "How many days are in a week?": "seven|7",
    "How many months are in a year?": "twelve|12",
    "How many hours are in a day?": "24|twenty-four",
    "How many minutes are in an hour?": "60|sixty",
    "How many legs does a spider have?": "eight|8",
    "How many sides does a triangle have?": "three|3",
    "How many letters are in the English alphabet?": "26|twenty-six",
    "What is 2 + 2?": "4|four",
    "What is 3 + 4?": "7|seven",
    "What is 5 + 5?": "10|ten",
    "What is 10 - 3?": "7|seven",
    "What color is the sky on a clear day?": "blue",
    "What color is grass?": "green",
    "What color is snow?": "white",
    "What color is a ripe banana?": "yellow",
    "Who wrote Romeo and Juliet?": "shakespeare",
    "Who painted the Mona Lisa?": "leonardo|vinci",
    "Who was the first president of the United States?": "washington",
    "Which planet do we live on?": "earth",
    "Which planet is the largest in the solar system?": "jupiter",
    "Which planet is called the red planet?": "mars",
    "Which ocean is the largest?": "pacific",
    "What is the tallest mountain in the world?": "everest",
    "What is the longest river in Africa?": "nile",
    "On which continent is Brazil?": "south america",
    "On which continent is Kenya?": "africa",
    "On which continent is France?": "europe",
    "What language is spoken in Brazil?": "portuguese",
    "What language is spoken in Mexico?": "spanish",
    "What is the opposite of hot?": "cold",
    "What is the opposite of big?": "small|little",
    "What is the opposite of day?": "night",
    "What do bees make?": "honey",
    "What does a cow drink?": "water",
    "What is frozen water called?": "ice",
    "What gas do we breathe to live?": "oxygen",
    "What is H2O?": "water",
    "What animal barks?": "dog|dogs",
    "What is the first month of the year?": "january",
    "What day comes after Monday?": "tuesday",
}
SHORT = [Question(f"What is the capital of {country}?", city) for country, city in _CAPITALS.items()] + [
    Question(text, right) for text, right in _FACTS.items()
]
CITIES = (
    "Paris", "London", "Berlin", "Rome", "Madrid", "Tokyo", "Vienna", "Oslo", "Cairo", "Dublin", "Lisbon", "Athens",
    "Prague", "Warsaw", "Moscow", "Delhi", "Boston", "Chicago", "Denver", "Miami", "Dallas", "Seattle", "Toronto", "Lima",
    "Havana", "Nairobi", "Sydney", "Perth", "Hanoi", "Seoul",
)  # fmt: skip
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "the city"}},
            "required": ["city"],
        },
    },
}
"""The one tool; whoever asks would run it."""


def calls_for(city: str, calls: list[Any]) -> bool:
    """Return whether the first call of an answer asks for this city's weather."""
    function: dict[str, str] = calls[0]["function"] if calls else {}
    return function.get("name") == "get_weather" and city.lower() in function.get("arguments", "").lower()
