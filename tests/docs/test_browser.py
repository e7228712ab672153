#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The site in a browser: its links resolve, its search works, its pictures load, and no page is wider than a phone of 390 pixels.

usage: test_browser.py WEBSITE.PY [ARGUMENT...]     builds the site; run by a Python that has Sphinx
       test_browser.py --site FOLDER                takes this one

It needs Chromium or Firefox, and skips itself without them. tests/docs/probe.html runs in the browser.
"""

import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402

PROBE = pathlib.Path(__file__).resolve().parent / "probe.html"
LIMIT_SECONDS = 300


def browser_command(profile, address):
    """The command, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            # Chromium's sandbox needs privileges that containers lack. The sandbox is unnecessary, because only this
            # site is opened.
            return [name, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run",
                    "--disable-background-networking", f"--user-data-dir={profile}", "--remote-debugging-port=0", address]
    for name in ("firefox-esr", "firefox"):
        if shutil.which(name):
            return [name, "--headless", "--no-remote", "--profile", str(profile), address]
    return None


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site, the probe and the list of pages, and takes the result."""

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/probe.html":
            self.answer(PROBE.read_bytes(), "text/html; charset=utf-8")
        elif self.path == "/pages.json":
            site = pathlib.Path(self.directory)
            pages = [f"/{path.relative_to(site).as_posix()}" for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
            self.answer(json.dumps(pages).encode(), "application/json")
        else:
            super().do_GET()

    def do_POST(self):
        self.server.result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(b"", "text/plain")
        self.server.finished.set()

    def log_message(self, *_):
        pass


def probe(site):
    """What the probe found; {} when the browser has not answered, None when there is no browser."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    server.result, server.finished = {}, threading.Event()
    with server, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = browser_command(profile, f"http://127.0.0.1:{server.server_address[1]}/probe.html")
        if command is None:
            return None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {**os.environ, "HOME": profile}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
            server.finished.wait(LIMIT_SECONDS)
            browser.terminate()
        server.shutdown()
    return server.result


def check(tap, result):
    if not result:
        tap.case("the browser answers", [f"not in {LIMIT_SECONDS} seconds"])
        return
    enough = result["pages"] > 20 and result["pictures"] > 4 and result["links"] > 20
    tap.case("pages, pictures and links", [] if enough else [f"{result[name]} {name}" for name in ("pages", "pictures", "links")])
    tap.case("search finds a function", [] if any("ferry_context_create" in title for title in result["found"]) else [str(result["found"])])
    for title, words in (("links resolve", "answers"), ("pictures load", "does not load"), ("pages fit a phone", "wider than a phone")):
        tap.case(title, [problem for problem in result["problems"] if words in problem])
    tap.case("nothing else", [problem for problem in result["problems"] if not any(words in problem for words in ("answers", "does not load", "wider"))])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder).resolve() / "site"
        if browser_command(folder, "") is None:
            tap.skip("the site in a browser", "neither Chromium nor Firefox is installed")
            return tap.end()
        if sys.argv[1] == "--site":
            site = pathlib.Path(sys.argv[2]).resolve()
        else:
            subprocess.run([sys.executable, *sys.argv[1:], "--output", site], check=True, stdout=subprocess.DEVNULL)
        check(tap, probe(site))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
