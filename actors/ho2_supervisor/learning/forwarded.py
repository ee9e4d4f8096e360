"""Where in a text somebody else gets the word: behind heads of forwarded mails, of chats and of patches. Pure.

What follows is theirs to the text's end: nothing says where it is over.
"""

from __future__ import annotations

import re

_HEAD = re.compile(
    r"""^[ ]{0,3}(?:
    (?:begin\ forwarded\ message|anfang\ der\ weitergeleiteten\ nachricht
        |début\ du\ message\ (?:réexpédié|transféré))[ ]?:
    | _{10,}[ ]*\n\s{0,8}[*]?\w[\w ]{1,20}:                    # Outlook: a row, and the names of its headers
    | [*]?(?:from|von|de|da|van)[ ]?:[^\n]*\n[ ]{0,3}[*]?\w[\w ]{1,20}:
    | [^\n]*\b(?:wrote|schrieb|a\ écrit|escribió|ha\ scritto|schreef|skrev|escreveu)[ ]?:[ ]*$(?!\s{0,8}[>|\0])
    | (?:am|op|den)\ [^\n]{0,80}\b(?:schrieb|schreef|skrev)\b[^\n]{0,100}:[ ]*$(?!\s{0,8}[>|\0])
    | \[[\d:/.,\ apm-]{8,28}\][ ][^\n:\[\]]{1,60}:             # WhatsApp, and many logs
    | \d{1,4}[/.-]\d{1,2}[/.-]\d{1,4},?[ ]\d{1,2}:\d\d(?::\d\d)?(?:[ ]?[ap]m)?[ ]-[ ][^\n:]{1,60}:
    | @@[ ]-\d+(?:,\d+)?[ ]\+\d+(?:,\d+)?[ ]@@
    | \+\+\+[ ]\S
    )""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
"""A line that says who wrote, with quoted lines behind it, begins nothing: these are known by their own signs."""


def without_forwarded(text: str) -> str:
    """The text up to where somebody else gets the word."""
    head = _HEAD.search(text)
    return text if head is None else text[: head.start()]
