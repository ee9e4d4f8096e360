"""What comes in at all: by which name, from which page, how large, whose."""

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import httpx2
import pytest

from bench.builders import shipped_snapshot
from hobus.launch.http.guard import get_host, names_of
from tests.launch.http.door import SNAPSHOT, SimulatedDoor

LIMIT = shipped_snapshot().config.http.body_max_bytes


@pytest.fixture(scope="module")
def door():
    """One door for all of them: they change nothing."""
    with SimulatedDoor() as made:
        yield made


def answer_to(door, method, path, **more):
    """One request."""

    async def work():
        async with door.http() as http:
            return await http.request(method, path, **more)

    return door.run(work())


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("127.0.0.1:80", "127.0.0.1"), ("LOCALHOST", "localhost"), ("[::1]:8420", "[::1]"), ("[::1]", "[::1]"),
        ("evil.example:80", "evil.example"), ("a:b:c", "a:b:c"), ("127.0.0.1:80:80", "127.0.0.1:80:80"),
        ("localhost:", "localhost:"), ("", ""),
    ],
)  # fmt: skip
def test_the_name_in_a_host_header(header, name):
    """With and without a port; what is no name and port stays whole, and is no name that is allowed."""
    assert get_host(header) == name


def test_a_loopback_door_has_the_loopback_names_alone():
    """Another one its own and those that are configured."""
    assert names_of("127.0.0.1", ["Box.Example"]) == {"localhost", "127.0.0.1", "[::1]", "box.example"}
    assert names_of("10.0.0.7", []) == {"10.0.0.7"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil"])
@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/docs"])
def test_another_name_is_misdirected(door, host, path):
    """DNS rebinding: a page of another site calls the loopback port under its own name."""
    answer = answer_to(door, "GET", path, headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "host_not_allowed")


def test_a_page_of_another_origin_is_refused(door):
    """Also with a key, and also for what needs none."""
    for path in ("/v1/models", "/readyz"):
        answer = answer_to(door, "GET", path, headers={"origin": "https://evil.example"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")


PAGE = "https://chat.example"


def test_a_page_of_an_allowed_origin_asks_and_reads_by_cors():
    """Its browser's preflight needs no key, the answer may be read, and of no other page."""
    config = SNAPSHOT.config
    http = config.http.model_copy(update={"origins": [PAGE]})
    with SimulatedDoor(replace(SNAPSHOT, config=config.model_copy(update={"http": http}))) as door:
        asks = {
            "access-control-request-method": "POST", "access-control-request-headers": "authorization",
            "access-control-request-private-network": "true",
        }  # fmt: skip
        preflight = answer_to(door, "OPTIONS", "/v1/chat/completions", headers={"origin": PAGE, **asks})
        other = answer_to(door, "OPTIONS", "/v1/models", headers={"origin": "https://evil.example", **asks})
        models = answer_to(door, "GET", "/v1/models", headers={"origin": PAGE})
    assert preflight.status_code == 200 and "authorization" in preflight.headers["access-control-allow-headers"]
    assert preflight.headers["access-control-allow-private-network"] == "true"
    assert models.status_code == 200 and models.headers["access-control-allow-origin"] == PAGE
    exposed = models.headers["access-control-expose-headers"].lower()
    assert "x-hobus-session" in exposed and "retry-after" in exposed
    assert other.status_code == 400 and "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer ", "Basic k-alice", "Bearer k-alic", "bearer\tk-alice", "x" * 5000]
)
def test_no_key_no_answer(door, shown):
    """401, whatever the path says, and nothing of what was shown is said again."""
    for path in ("/v1/models", "/metrics", "/v1/sessions/x", "/no/such/path"):
        answer = answer_to(door, "GET", path, headers={"authorization": shown})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "k-alic" not in answer.text and "xxx" not in answer.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/sessions/..%2f..%2fetc", 404), ("//v1/models", 404), ("/v1/models/", 404), ("/v1//models", 404),
        ("/v1/models/../../etc/passwd", 404), ("/v1/sessions/%00", 404), ("/V1/models", 404),
        ("/v1/sessions/" + "a" * 9000, 404), ("/v1/chat/completions", 405), ("/healthz/../v1/models", 404),
    ],
)  # fmt: skip
def test_a_path_is_what_it_is(door, path, status):
    """No folding, no redirect: what is no route is not found, in the shape of every other error."""
    answer = answer_to(door, "GET", path)
    if str(answer.request.url.path) in ("/etc/passwd", "/v1/models"):
        pytest.skip("the client has folded it")
    assert answer.status_code == status and answer.json()["error"]["code"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400), (b"", "application/json", 400), (b"null", "application/json", 400),
        (b"[" * 100_000, "application/json", 400), (b'{"model":1,"messages":"x"}', "application/json", 400),
        (b'{"model":"ADMIN","messages":[{"role":"user","content":"\xff"}]}', "application/json", 400),
        (b"x" * (LIMIT + 1), "application/json", 413), (b"{}", "text/plain", 415), (b"{}", "", 415),
    ],
)  # fmt: skip
def test_a_body_that_is_none_is_refused(door, body, kind, status):
    """Broken, deep, of another type, not UTF-8, too large: an answer each, and never a 500."""
    answer = answer_to(door, "POST", "/v1/chat/completions", content=body, headers={"content-type": kind})
    assert answer.status_code == status and answer.json()["error"]["message"]


def test_a_body_that_grows_beyond_the_limit_is_cut_off(door):
    """Also where no length was said."""

    async def drip():
        for _ in range(LIMIT // 65536 + 2):
            yield b"x" * 65536

    answer = answer_to(
        door, "POST", "/v1/chat/completions", content=drip(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413


def test_the_api_describes_itself(door):
    """Every route of the application is in the document, and every reference in it leads somewhere."""
    document = answer_to(door, "GET", "/openapi.json").json()
    app = door.apps[0].app
    assert {route.path.replace(":path", "") for route in app.routes} - {"/openapi.json", "/docs", "/"} == set(
        document["paths"]
    )
    text = str(document)
    for name in {part.split("'")[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"], name
    assert "default-src 'none'" in answer_to(door, "GET", "/docs").headers["content-security-policy"]


def test_a_browser_of_this_machine_is_led_to_the_console_that_runs(door, monkeypatch):
    """Without a key, which opens nothing of it; of another machine there is nothing, and where none runs it is said how."""
    assert (answer_to(door, "GET", "/").status_code, "hobus console" in answer_to(door, "GET", "/").text) == (404, True)
    monkeypatch.setattr(door.doors[0], "console", lambda: "127.0.0.1:7")
    found = answer_to(door, "GET", "/")
    assert found.status_code == 200 and '<a href="http://127.0.0.1:7/">' in found.text
    script = re.search("<script>(.*)</script>", found.text)[1]
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    assert found.headers["content-security-policy"] == f"default-src 'none'; script-src 'sha256-{allowed}'"

    async def from_elsewhere():
        transport = httpx2.ASGITransport(app=door.apps[0], client=("10.0.0.9", 4711))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.get("/")

    found = door.run(from_elsewhere())
    assert found.status_code == 404 and "location" not in found.headers and "console" not in found.text
    for passed_on in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Via"):
        assert answer_to(door, "GET", "/", headers={passed_on: "10.0.0.9"}).status_code == 404
    assert answer_to(door, "GET", "/", headers={"host": "evil.example"}).status_code == 421
