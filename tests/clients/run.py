#!/usr/bin/env python3
"""Runs client programs against `quire serve`, as their users would.

Usage: tests/clients/run.py QUIRE MODEL SCRIPT... [--python PYTHON]

Starts a server on a free port, runs each SCRIPT with the environment variables QUIRE_URL and
QUIRE_KEY, stops the server by SIGTERM and expects it to end with exit code 0. Python scripts run
with PYTHON, an interpreter that has the packages they import; others by themselves. One line a
script; exit code 1 if any failed.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

KEY = "client-test-key"


def start(quire: str, model: str, store: str):
    environment = dict(os.environ, QUIRE_API_KEY=KEY)
    errors = tempfile.TemporaryFile("w+")
    server = subprocess.Popen(
        [quire, "serve", model, "--port", "0", "--alias", "smollm2", "--log-level", "warn",
         "--store", store],
        stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    line = server.stdout.readline()
    found = re.search(r"http://\S+", line)
    if not found:
        server.kill()
        errors.seek(0)
        sys.exit(f"the server did not start: {line}{errors.read()}")
    return server, found.group(0)


def wait_until_ready(url: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(url + "/health", timeout=5)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit("the server did not become ready")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("quire")
    parser.add_argument("model")
    parser.add_argument("scripts", nargs="+")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    server, url = start(options.quire, options.model, os.path.join(folder.name, "store.db"))
    failed = 0
    try:
        wait_until_ready(url)
        environment = dict(os.environ, QUIRE_URL=url, QUIRE_KEY=KEY, NO_PROXY="*", no_proxy="*")
        for script in options.scripts:
            command = [options.python, script] if script.endswith(".py") else ["bash", script]
            began = time.monotonic()
            done = subprocess.run(command, env=environment, timeout=600)
            word = "ok" if done.returncode == 0 else "FAILED"
            failed += done.returncode != 0
            print(f"{word:6} {pathlib.Path(script).stem} ({time.monotonic() - began:.1f} s)",
                  flush=True)
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(timeout=60)
    if code != 0:
        print(f"FAILED the server ended with exit code {code}")
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
