"""The console's application: what every request passes, and how a screen becomes a page or its JSON twin.

A page of another site reaches a loopback port, too: the Host and Origin headers, a cookie that no other site's request
carries, and a token in each form keep it out. Nothing that is shown can run: no inline script, no markup from a text.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, quote, urlsplit

import jinja2
import structlog
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from hobus.bus.errors import RuntimeFault
from hobus.launch.cli.web import limits, words
from hobus.launch.cli.web.changes import Changes
from hobus.launch.cli.web.people import People, Person
from hobus.launch.cli.web.source import AT_REST, HomeSource
from hobus.launch.cluster.version import __version__
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UnreachableFault, UsageFault, as_command_error, format_next_here
from hobus.launch.console.output import as_json
from hobus.launch.http.guard import get_host, names_of
from hobus.launch.http.sse import make_stream

_HERE = Path(__file__).parent
_log = structlog.get_logger("console")
_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_NO_FOOT: tuple[str | None, int | None] = (None, None)
"""Of what is no screen: no command, and no entry."""
_STATUS = {
    exit_codes.USAGE: HTTPStatus.BAD_REQUEST,
    exit_codes.UNREACHABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    exit_codes.REFUSED: HTTPStatus.CONFLICT,
}


class Forbidden(CommandError):
    """Who asks may not have this done."""


class BadQuery(UsageFault):
    """What was asked about a page cannot be meant."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request of a screen."""

    source: HomeSource
    path: Mapping[str, str]
    query: Mapping[str, str]

    def number(self, name: str, usual: int, most: int) -> int:
        """Return a number of the query, 1 to `most`. Raises BadQuery."""
        given = self.sequence(name)
        if given is not None and not 0 < given <= most:
            raise BadQuery(f"{name} {given}: expected 1 to {most}")
        return usual if given is None else given

    def choice(self, name: str, known: Iterable[str]) -> str:
        """Return one of the known values; empty: none is named. Raises BadQuery."""
        if (given := self.text(name)) and given not in known:
            raise BadQuery(f"{name} {given[:80]}: expected one of {', '.join(known)}")
        return given

    def text(self, name: str) -> str:
        return self.query.get(name, "").strip()

    def sequence(self, name: str) -> int | None:
        """Return a number of the query, as one of the record's; None: none is named. Raises BadQuery."""
        if (found := read_number(given := self.text(name))) is None and given:
            raise BadQuery(f"{name} {given[:80]}: expected a number")
        return found


def read_number(given: str) -> int | None:
    """Return a number that a browser sent; None: it is none."""
    return int(given) if given.isascii() and given.isdigit() and len(given) <= limits.DIGITS_MAX else None


class PageAnswer(NamedTuple):
    """What a page shows."""

    template: str
    title: str
    document: dict[str, Any]
    """The JSON twin: what the command prints with `--json`, and what else the page shows; `head` comes to it."""
    shown: dict[str, Any]
    """What its template needs besides."""
    live: str = ""
    """Follow the changes of this session; `*`: of all, `beats`: and of the heartbeats; empty: none."""
    has_texts: bool = False
    """It shows what people, tools or models said: the look is recorded."""


@dataclass(slots=True)
class Asked:
    """One thing that a person wants done."""

    source: HomeSource
    person: Person
    path: Mapping[str, str]
    form: Mapping[str, str]
    goes_to: str = ""
    """Where the browser goes then; empty: back to where it was."""


@dataclass(frozen=True, slots=True)
class Page:
    """A screen; with a name it stands in the navigation."""

    path: str
    screen: Callable[[PageRequest], Awaitable[PageAnswer]]
    command: Callable[[PageRequest], str]
    """That shows the same, behind `hobus`; empty: none does."""
    name: str = ""
    instead: str = ""
    """A command that helps while no cluster runs, where the screen needs one."""


class Action(NamedTuple):
    """Something that is done; it brings the sentence that the next page tells."""

    path: str
    do: Callable[[Asked], Awaitable[str]]
    only_looks: bool = False
    """It changes nothing: a viewer may, and of a home at rest."""


@dataclass(slots=True)
class Console:
    """The application of one home."""

    source: HomeSource
    people: People
    cookie: str
    """Its name: browsers keep cookies by host, without the port."""
    pages: tuple[Page, ...]
    actions: tuple[Action, ...]
    streams: tuple[Route, ...] = ()
    url: str = ""
    """Where browsers call it, if that is a proxy of this machine; without a slash at its end."""
    changes: Changes = field(init=False)
    _router: Router = field(init=False)
    _templates: jinja2.Environment = field(init=False)
    _at: str = field(init=False)
    """The path of that address, in front of every path that a browser is told."""
    _hosts: frozenset[str] = field(init=False)
    _origins: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.changes = Changes(self.source)
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, auto_reload=False, finalize=words.escape_turning,
        )  # fmt: skip
        proxy = urlsplit(self.url)
        self._at, self._hosts = proxy.path, names_of("127.0.0.1", [get_host(proxy.netloc)] if self.url else [])
        self._origins = frozenset({f"{proxy.scheme}://{proxy.netloc.lower()}"} if self.url else ())
        self._templates.filters.update(words.FILTERS)
        parts = self._templates.get_template("parts.html").make_module({"at": self._at})
        cast("dict[str, Any]", self._templates.globals).update(vars(parts))
        routes: list[BaseRoute] = [
            Route("/sign-in", self._sign_in), Mount("/static", StaticFiles(directory=_HERE / "static")),
            Route("/live", self._stream_changes), Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/theme", self._set_theme, methods=["POST"]),
        ]  # fmt: skip
        for page in self.pages:
            twin = f"{page.path.rstrip('/') or '/index'}.json"
            routes += [Route(twin, self._make_page(page, is_twin=True))]
            routes += [Route(page.path, self._make_page(page, is_twin=False))]
        routes += [Route(one.path, self._make_action(one), methods=["POST"]) for one in self.actions]
        self._router = Router([*routes, *self.streams], redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with `scope["person"]` set; every answer has the headers that keep it inert."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.decode(): value for name, value in message["headers"]}
                added = {**_HEADERS, "cache-control": "no-store"}
                more = [(name.encode(), value.encode()) for name, value in added.items() if name not in own]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        if self._at and (scope["path"] + "/").startswith(f"{self._at}/"):  # a proxy that leaves it in front
            scope = {**scope, "path": scope["path"][len(self._at) :] or "/"}
        request = Request(scope, receive)
        scope.update(person=self.people.of(request.cookies.get(self.cookie, "")), app=self)
        try:
            answer = self._find_refusal(request)
            if answer is not None:
                await answer(scope, receive, send_guarded)
            else:
                await self._router(scope, receive, send_guarded)
        except Exception as error:  # noqa: BLE001 - the one place where what a page met becomes an answer
            await self._render_failure(request, error)(scope, receive, send_guarded)

    # --- who may pass ---

    def _find_refusal(self, request: Request) -> Response | None:
        headers = Headers(scope=request.scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or get_host(hosts[0]) not in self._hosts:
            said = "open the link that it printed"
            return self._render_message(request, 421, "The console is not called by that name", said)
        if any(origin not in (f"http://{hosts[0]}", *self._origins) for origin in headers.getlist("origin")):
            return self._render_message(request, 403, "Pages of other sites may not call the console", "")
        path = request.url.path
        if path == "/sign-in" or path.startswith("/static/") or request.scope["person"] is not None:
            return None
        said = "follow a link that `hobus console` prints; a console that was started again knows nobody from before"
        return self._render_message(request, 401, "Nobody is signed in here", said)

    async def _sign_in(self, request: Request) -> Response:
        cookie = self.people.sign_in(request.query_params.get("word", ""))
        if cookie is None:
            said = "it was used before, or is too old: `hobus console` prints another one, on Enter where it runs"
            return self._render_message(request, 403, "That link signs nobody in", said)
        answer = self._goes_to("/")
        answer.set_cookie(
            self.cookie, cookie, max_age=limits.SIGNED_IN_S, path=f"{self._at}/", httponly=True, samesite="strict",
            secure=self.url.startswith("https:"),
        )  # fmt: skip
        return answer

    async def _sign_out(self, request: Request) -> Response:
        await self._read_form(request)
        self.people.sign_out(request.cookies.get(self.cookie, ""))
        answer = self._goes_to("/")
        answer.delete_cookie(self.cookie, path=f"{self._at}/", httponly=True, samesite="strict")
        return answer

    async def _set_theme(self, request: Request) -> Response:
        form = await self._read_form(request)
        answer = self._goes_to(_keep_local(form.get("back", "/")))
        chosen = form.get("theme", "")
        answer.set_cookie(
            "theme", chosen if chosen in ("light", "dark") else "", path=f"{self._at}/", samesite="strict"
        )
        return answer

    def _goes_to(self, path: str) -> Response:
        return RedirectResponse(f"{self._at}{path}", 303)

    async def _read_form(self, request: Request) -> dict[str, str]:
        """Return the form. Raises CommandError for one that none of this browser's pages sent."""
        person: Person = request.scope["person"]
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > limits.FORM_MAX_BYTES:
                raise UsageFault(f"what was sent has more than {limits.FORM_MAX_BYTES} bytes")
        text = body.decode("utf-8", "replace")
        form = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=limits.FORM_FIELDS_MAX))
        if not person.has_sent(form.pop("csrf", "")):
            raise Forbidden("that form was not sent by a page of this browser", hint="load the page again")
        return form

    # --- pages ---

    def _make_page(self, page: Page, *, is_twin: bool) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            screen = await self._make_screen(page, request)
            if is_twin:
                document = screen.document | {"head": request.scope["foot"][1]}
                return Response(as_json(document, indent=1) + "\n", media_type="application/json")
            return self._render(request, screen.template, title=screen.title, live=screen.live, **screen.shown)

        return answer

    async def _make_screen(self, page: Page, request: Request) -> PageAnswer:
        """Return what the page shows; its foot, also that of an error: the command, and the last entry before it."""
        look = PageRequest(self.source, dict(request.path_params), dict(request.query_params))
        command = page.command(look)
        request.scope["foot"] = (whole := command and format_next_here(command), None)
        key = json.dumps([page.path, sorted(look.path.items()), sorted(look.query.items())])

        async def made() -> tuple[PageAnswer | RuntimeFault | CommandError, int]:
            head = await self.source.head()
            try:
                return await page.screen(look), head
            except UnreachableFault as fault:
                return fault if self.source.runs else _make_rest(page, fault), head
            except (RuntimeFault, CommandError) as fault:
                return fault, head

        answer, head = await self.source.shared(key, made)
        request.scope["foot"] = (whole, head)
        if not isinstance(answer, PageAnswer):
            raise answer
        person: Person = request.scope["person"]
        if answer.has_texts and command not in person.looked_at:
            await self.source.record_look(person.name, command)
            person.looked_at[command] = None
            if len(person.looked_at) > limits.LOOKS_MAX:
                del person.looked_at[next(iter(person.looked_at))]
        return answer

    def _render(
        self, request: Request, template: str, *, title: str, status: int = HTTPStatus.OK, live: str = "", **shown: Any
    ) -> Response:
        person: Person | None = request.scope["person"]
        path, query = request.url.path, f"?{request.url.query}" if request.url.query else ""
        notices = [] if person is None else person.said[:]
        if person is not None and not request.headers.get("x-refresh"):
            person.said.clear()
        (command, head), runs = request.scope.get("foot", _NO_FOOT), self.source.runs
        text = self._templates.get_template(template).render(
            person=person, notices=notices, path=path, home=self.source.home.root, is_running=runs,
            capture=self.source.capture, title=title, live="" if self.source.at_rest else live, command=command,
            head=head, pages=[page for page in self.pages if page.name], version=__version__,
            theme=request.cookies.get("theme", "") if request.cookies.get("theme") in ("light", "dark") else "",
            here=path + query, at=self._at,
            twin=f"{quote(path.rstrip('/') or '/index', safe='/')}.json{query}",
            may_act=person is not None and person.operates and runs, at_rest=self.source.at_rest,
            now=self.source.clock.now(), **shown,
        )  # fmt: skip
        return HTMLResponse(text, status)

    # --- what is done ---

    def _make_action(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            person: Person = request.scope["person"]
            form = await self._read_form(request)
            back = _keep_local(form.pop("back", "/"))
            if not action.only_looks and (not person.operates or self.source.at_rest):
                raise Forbidden("a home at rest is only looked at" if person.operates else "a viewer changes nothing")
            asked = Asked(self.source, person, dict(request.path_params), form)
            try:
                said = ("done", await action.do(asked))
            except (RuntimeFault, CommandError) as error:
                fault = as_command_error(error) or CommandError(str(error))
                said = ("refused", f"{fault.message}{f' ({fault.hint})' if fault.hint else ''}")
            self.source.forget()
            self.changes.hurry()
            if said[1]:
                person.said[:] = [*person.said, said][-limits.SAID_MAX :]
            return self._goes_to(asked.goes_to or back)

        return answer

    async def _stream_changes(self, request: Request) -> Response:
        if self.changes.streams >= limits.STREAMS_MAX:
            return self._render_message(request, 503, "As many browsers as may follow this console do", "")
        after = PageRequest(self.source, {}, request.query_params).sequence("after")
        return make_stream(
            self.changes.frames(request.query_params.get("of", ""), after=-1 if after is None else after)
        )

    def _render_failure(self, request: Request, error: Exception) -> Response:
        if not isinstance(error, (RuntimeFault, CommandError)):
            if isinstance(error, HTTPException):  # the router's: no such path, no such method
                return self._render_message(request, error.status_code, error.detail, "")
            _log.error("page_failed", error=type(error).__name__, exc_info=error)
            said = f"This page met a defect: {type(error).__name__}"
            return self._render_message(request, 500, said, "`hobus console --debug` tells where")
        fault = as_command_error(error) or CommandError(str(error))
        status = HTTPStatus.FORBIDDEN if isinstance(fault, Forbidden) else _STATUS.get(fault.exit_code, 500)
        is_named = isinstance(fault, UsageFault) and not isinstance(fault, BadQuery)
        if is_named and request.method == "GET" and request.path_params:
            status = HTTPStatus.NOT_FOUND  # what the path names, and not what was asked or sent
        return self._render_message(request, status, fault.message, fault.hint)

    def _render_message(self, request: Request, status: int, message: str, hint: str) -> Response:
        if request.url.path.endswith(".json"):
            command, head = request.scope.get("foot", _NO_FOOT)
            told = {"message": message, "hint": hint, "command": command or ""}
            return JSONResponse({"error": told, "head": head}, status)
        live = "beats" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""  # so that it comes by itself when it can
        return self._render(request, "fault.html", title=message, status=status, live=live, hint=hint, code=status)


def _make_rest(page: Page, fault: CommandError) -> PageAnswer:
    """Return the page of a screen that needs a cluster, where none is to be asked."""
    helps = [*filter(None, (fault.hint, page.instead and f"without one: {format_next_here(page.instead)}"))]
    hint = "; ".join([fault.message, *helps]) + ". Most other screens show the record."
    title = "This console asks no cluster" if fault.code == AT_REST else "No cluster runs here"
    document = {"running": False, "why": fault.message, "hints": helps}
    return PageAnswer("fault.html", title, document, {"hint": hint, "code": ""}, live="beats")


def _keep_local(path: str) -> str:
    """Return a path of this console; for anything else its first page."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"
