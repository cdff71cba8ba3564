"""Quire itself, as its users run it: `quire bench` for speeds, `quire run` for the time to the first token."""

import json
import os
import subprocess
import time

NAME = "Quire"
PROMPT = "Explain in one sentence why the sky is blue"


class Quire:
    def __init__(self, binary: str, threads: int, isa: str):
        self._binary = binary
        self._threads = ["--threads", str(threads), "-q"]
        self._environment = dict(os.environ, QUIRE_ISA=isa) if isa else dict(os.environ)

    def speed(self, model: str, case) -> float:
        """Tokens a second of a prefill or decode case, after a warm-up."""
        which = (["--prefill", str(case.tokens), "--decode", "0"] if case.kind == "prefill"
                 else ["--prefill", "0", "--decode", str(case.tokens), "--batch", str(case.batch)])
        command = [self._binary, "bench", model, *self._threads, "-r", "1", "--json", *which]
        command += ["--depth", str(case.depth), "--kv", case.kv]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=self._environment)
        return json.loads(done.stdout)["results"][0]["tok_s_median"]

    def start_ms(self, model: str) -> float:
        """From before the process exists to the first token's text."""
        command = [self._binary, "run", model, *self._threads, "--raw", "-p", PROMPT]
        command += ["-n", "1", "--temp", "0"]
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=self._environment) as process:
            process.stdout.read(1)
            elapsed = time.perf_counter() - begin
            process.stdout.read()
        if process.returncode:
            raise RuntimeError(f"quire run failed on {model}")
        return elapsed * 1000
