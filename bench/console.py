"""The pictures of docs/console.md, made anew: `python -m bench.console`; needs the extra `browser` and a Chromium."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.cluster import Cluster, begun, cluster_in, eventually

PICTURES = Path(__file__).parents[1] / "docs" / "images"
QUESTIONS = ("what packages are installed?", "which tools are there?", "how many packages are there?")
WINDOW = {"width": 1120, "height": 600}
SETTINGS = {"tools.approval": ["verify_*"], "gateway.providers.offline.latency_ms": 180}


def played(cluster: Cluster) -> str:
    """The session in which turns were asked, one of which waits for a person."""
    cluster.up(settings=SETTINGS)
    session = cluster.ask(QUESTIONS[0])["session_id"]
    for question in QUESTIONS[1:]:
        cluster.ask(question, "--session", session)
    cluster.start_ask("is the ledger intact?")
    eventually(lambda: any(one["held_calls"] for one in cluster("session list", "--json").json["sessions"]))
    return session


def write(pictures: Path) -> list[Path]:
    """The files that were written."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of the extra

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    pictures.mkdir(exist_ok=True)
    made: list[Path] = []
    with tempfile.TemporaryDirectory() as directory:
        cluster = cluster_in(Path(directory) / ".hobus")
        served = None
        try:
            session = played(cluster)
            served = begun("console", "--home", str(cluster.home.root), "--person", "ada", stdin=subprocess.DEVNULL)
            link = re.search(r"http\S+", served.stdout.readline().decode())[0]
            shots = (
                ("cluster", "light", "/"), ("turn", "light", f"/sessions/{session}/turns/1"), ("approvals", "dark", "/approvals"),
            )  # fmt: skip
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport=WINDOW)
                page.goto(link)
                for name, theme, path in shots:
                    page.emulate_media(color_scheme=theme)
                    page.goto(link.partition("/sign-in")[0] + path)
                    page.evaluate("document.querySelector('.home').textContent = '.hobus'")
                    made.append(pictures / f"console-{name}.png")
                    page.screenshot(path=made[-1])
                browser.close()
        finally:
            if served is not None:
                served.terminate()
                served.communicate()
            cluster.end()
    return made


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path in write(PICTURES):
        print(f"{path.relative_to(PICTURES.parents[1])}  {path.stat().st_size:,} bytes")
