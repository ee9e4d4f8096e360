"""Whether a statement is about the form of answers and nothing else: the only kind that binds without a confirmation.

Pure, and careful: every word has to be one of those below. What acts, forbids acting, names a tool, a place, other
people or a subject, has words that are not among them; so has every other language. All of that waits for a person.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from hobus.actors.ho2_supervisor.learning.marks import alike
from hobus.bus.messages.ids import folded

_FORM = """
brief briefly short shorter concise concisely terse tersely compact succinct succinctly detail details detailed
full fully thorough thoroughly long longer length line lines sentence sentences word words paragraph paragraphs
bullet bullets list lists table tables heading headings markdown plain plainly prose text json yaml emoji emojis
emoticons smileys bold italics code blocks numbered units metric imperial celsius fahrenheit utc
polite politely formal formally informal informally friendly casual casually direct directly simple simply
humour humor jokes tone style language spelling jargon abbreviations acronyms exclamation british american
first summary summaries example examples
english german french spanish italian portuguese dutch danish swedish norwegian finnish polish czech greek turkish
russian ukrainian arabic hebrew hindi chinese japanese korean vietnamese latin
"""
"""Words about how an answer looks or sounds; a statement has at least one of them."""
_AROUND = """
please and or but always never from now on in into the future every time whenever when you me i we my your all any
each answer answers answering reply replies replying respond response responses write writing speak talk give use
using keep make be avoid include add with without no not do don't of a an it them only just as than more less most
at for to by rather instead also again very much possible point points marks should
one two three four five six seven eight nine ten twelve twenty
"""
"""Words that say nothing by themselves; what acts with them alone is no act beyond the answer."""
_WORD = re.compile(r"[^\s,;:!?()\"“”„«».-]+")
_NAMES_A_PLACE = re.compile(r"[/\\@<>{}$`|=_#*]|\w\.\w|--|\.\.")
_CALLED = re.compile(
    r"\b(call|address) me ((mr|mrs|ms|mx|dr|prof|st)\.? )?"
    r"(?P<quote>[\"']?)(?P<name>\w+(['-]\w+)*( (?!please\b)\w+(['-]\w+)*)?)[.!]*(?P=quote)(,? please)?[.!]*$",
    re.IGNORECASE,
)
_MANNER = re.compile(r"\b(like an?|in the (style|manner|tone|voice) of an?) (?P<who>\w+( \w+)?)[.!]*$")
_SAYS_MORE = re.compile(r"\b(when|if|before|after|until|while|on|for|at|to|in|about|and|or|me|the|this|that|it)\b")
"""Not in the words that name somebody: with one of these more is said than a name."""
_COUNT = re.compile(r"[1-9][0-9]{0,2}")

_MANNERS = """
pirate butler poet bard teacher tutor professor librarian journalist reporter novelist storyteller comedian cowboy
knight wizard sailor monk gentleman lady hobbit friend colleague child kid toddler grandmother grandfather
telegram haiku limerick sonnet ballad headline newspaper encyclopedia dictionary textbook
"""
"""Whose manner of speaking is a tone and nothing more; what another model or machine is like waits."""
_NEEDED = """
language word words sentence sentences line lines paragraph paragraphs text prose style tone spelling
"""
"""Without any of these there is no answer; only some kind of them may be forbidden, named before it (`long words`)."""
_FORBIDS = "never no not without don't avoid neither nor none zero"
_ALLOWS = "but instead rather always"
_POWER = "root owner system boss chief ceo cto cio ciso god allowed granted dev ops sre"
_POWER_STEMS = """
admin sudo superus operat moderat maintain supervis develop devop princip preside authori privileg approv verif confirm
unrestrict unlimit securit audit manager director master trusted hobus
"""
"""In names that are roles: who is called so may be taken for who may do more."""
_AS_LETTERS = str.maketrans("013457\N{LATIN SMALL LETTER DOTLESS I}", "oieasti")
_FORM_WORDS, _AROUND_WORDS, _POWER_WORDS = (frozenset(words.split()) for words in (_FORM, _AROUND, _POWER))
_MANNER_WORDS, _NEEDED_WORDS = (frozenset(words.split()) for words in (_MANNERS, _NEEDED))
_FORBIDDING, _ALLOWING = (frozenset(words.split()) for words in (_FORBIDS, _ALLOWS))


def is_form_of_answers(statement: str) -> bool:
    """Whether it wishes for a form of answers, and for nothing else."""
    said = " ".join(alike(statement).split())
    text = folded(said)
    if _NAMES_A_PLACE.search(text):
        return False
    called, manner = _CALLED.search(said), _MANNER.search(text)
    if called is not None and not _is_plain_name(called["name"], is_quoted=bool(called["quote"])):
        return False
    if manner is not None and not _is_manner(manner["who"].split()):
        return False
    named = called or manner
    text = text if named is None else folded(named.string[: named.start()])
    words = [word.strip("'") for word in _WORD.findall(text)]
    is_known = all(word in _FORM_WORDS or word in _AROUND_WORDS or _COUNT.fullmatch(word) for word in words)
    has_form = named is not None or any(word in _FORM_WORDS for word in words)
    return is_known and has_form and not _forbids_answers(words)


def _is_plain_name(name: str, *, is_quoted: bool) -> bool:
    """Whether it is written as a name is, by its capitals or marks, and is no role, however its letters are written."""
    plain = unicodedata.normalize("NFKD", folded(name)).translate(_AS_LETTERS)
    words = ["".join(filter(str.isalpha, word)) for word in plain.split()]
    letters = "".join(words)
    if not letters or not (is_quoted or all(word[0].isalpha() and not word[0].islower() for word in name.split())):
        return False
    is_role = any(stem in letters for stem in _POWER_STEMS.split()) or any(
        word in _POWER_WORDS or word.removesuffix("s") in _POWER_WORDS for word in [*words, letters]
    )
    scripts = {unicodedata.name(char, "").partition(" ")[0] for char in letters}  # of two, one looks like another
    return _SAYS_MORE.search(folded(name)) is None and not is_role and len(scripts) == 1


def _is_manner(words: list[str]) -> bool:
    *how, who = words
    return who in _MANNER_WORDS and all(word in _FORM_WORDS or word in _MANNER_WORDS for word in how)


def _forbids_answers(words: list[str]) -> bool:
    """Whether it forbids what no answer can do without; not where it is some kind of it, or more than a number."""
    if "than" in words:
        return False
    is_forbidden = False
    for before, word in pairwise(["", *words]):
        is_forbidden = word in _FORBIDDING or (is_forbidden and word not in _ALLOWING)
        if is_forbidden and word in _NEEDED_WORDS and before not in _FORM_WORDS:
            return True
    return False
