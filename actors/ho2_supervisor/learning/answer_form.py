"""Whether a statement is about the form of answers and nothing else: the only kind that binds without a confirmation.

Pure, and careful: every word has to be one of those below. What acts, forbids acting, names a tool, a place, other
people or a subject, has words that are not among them; so has every other language. All of that waits for a person.
"""

from __future__ import annotations

import re

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
_NAMED = re.compile(
    r"\b((call|address) me|like an?|in the (style|manner|tone|voice) of an?) (?P<free>\w+( \w+)?)[.!]?$"
)
_SAYS_MORE = re.compile(r"\b(when|if|before|after|until|while|on|for|at|to|in|about|and|or|me|the|this|that|it)\b")
"""Not in the words that name somebody, or somebody's manner: with one of these more is said than a name."""

_POWER = """
root admin admins administrator sysadmin superuser sudo sudoer operator owner superadmin moderator maintainer supervisor
developer system principal boss master manager director chief ceo cto cio ciso president god authority security auditor
privileged trusted authorized authorised verified approver
"""
"""Names that are roles: who is called so may be taken for who may do more."""
_FORM_WORDS, _AROUND_WORDS, _POWER_WORDS = (frozenset(words.split()) for words in (_FORM, _AROUND, _POWER))


def is_form_of_answers(statement: str) -> bool:
    """Whether it wishes for a form of answers, and for nothing else."""
    text = " ".join(statement.casefold().replace("’", "'").split())  # noqa: RUF001 - as it is typed
    if _NAMES_A_PLACE.search(text):
        return False
    named = _NAMED.search(text)
    if named is not None and (_SAYS_MORE.search(named["free"]) or not _POWER_WORDS.isdisjoint(named["free"].split())):
        return False
    text = text if named is None else text[: named.start()]
    words = [word.strip("'") for word in _WORD.findall(text)]
    is_known = all(word in _FORM_WORDS or word in _AROUND_WORDS or word.isdecimal() for word in words)
    return is_known and (named is not None or any(word in _FORM_WORDS for word in words))
