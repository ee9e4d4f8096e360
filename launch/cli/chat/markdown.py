"""An answer's Markdown as rows of a terminal, by rich: no word of it is lost, and none of it commands the terminal."""

from __future__ import annotations

from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ImageItem, Markdown, MarkdownElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from hobus.launch.console.output import Styled, make_harmless
from hobus.launch.console.terminal import render_lines

_CODE_THEME = "ansi_dark"
"""Colours of the terminal itself, which suit its background."""

_THEME = Theme({"markdown.code": "cyan", "markdown.link_url": "underline", "markdown.block_quote": "italic"})


def render_markdown(text: str, *, columns: int) -> list[Styled]:
    return render_lines(_Shown(text), columns=columns, theme=_THEME)


class _Heading(Heading):
    """A heading at the left, as all of a conversation is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _CodeBlock(CodeBlock):
    """A code block between its fences and not indented, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        name = "" if self.lexer_name == "text" else self.lexer_name
        yield Text(f"```{name}", style="bright_black")
        code = str(self.text).removesuffix("\n")
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default")
        yield Text("```", style="bright_black")


class _Image(ImageItem):
    """An image as what it shows, and where it is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble(self.text, f" ({self.destination})", end="")


class _Answer(Markdown):
    """An answer in which HTML tags are text: models write `List<int>`, and lines end where they end."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "image": _Image,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", code_theme=_CODE_THEME, hyperlinks=False)
        parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
        self.parsed = parser.parse(text)
        for token in self.parsed:
            for child in token.children or ():
                _with_its_lines(child)


def _with_its_lines(token: Token) -> None:
    if token.type == "softbreak":
        token.type = "hardbreak"


class _Shown:
    """What rich makes of an answer, without links that a terminal would hide, and without entities' characters."""

    def __init__(self, text: str) -> None:
        self._answer = _Answer(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._answer, options):
            style = segment.style
            if style is not None and style.link:
                style = style.update_link(None)
            yield Segment(make_harmless(segment.text), style)
