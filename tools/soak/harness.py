"""What every soak shares: a server of our own, an HTTP client that shows each byte's time, a verdict.

Loopback only; standard library only. A server is started for each soak and stopped at its end, and
every wait is bounded, so that a soak always ends.
"""
import asyncio
import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

WORDS = ("the river house green stone light water paper morning winter summer garden window road small "
         "large quiet letter market music bread story night table field silver north south").split()


class Verdict:
    """One line per criterion; exit status 1 on a miss."""

    def __init__(self, soak):
        self.soak = soak
        self.misses = 0

    def check(self, criterion, ok, detail):
        self.misses += 0 if ok else 1
        print(f"{'ok  ' if ok else 'MISS'} {self.soak}: {criterion} ({detail})", flush=True)

    def status(self):
        return 1 if self.misses else 0


class Server:
    """`quire serve` on a free port of this machine."""

    def __init__(self, binary, model, options=()):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = tempfile.TemporaryFile()
        command = [str(binary), "serve", str(model), "--port", str(self.port), "--log-level", "warn", "--no-store",
                   *map(str, options)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)

    async def wait_until_ready(self, seconds=180):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.log.seek(0)
                sys.exit("the server ended: " + self.log.read()[-2000:].decode(errors="replace"))
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                if (await self.get("/health")).status == 200:
                    return
            await asyncio.sleep(0.2)
        sys.exit(f"the server was not ready after {seconds} s")

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        """The exit status, after a polite request to stop; None if it had to be killed."""
        self.process.terminate()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    # --- what it holds ----------------------------------------------------------------------------

    def proc(self):
        """Resident bytes, open descriptors, threads."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        status = (folder / "status").read_text()
        rss = int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024
        threads = int(re.search(r"Threads:\s+(\d+)", status).group(1))
        return {"rss": rss, "threads": threads, "fds": len(list((folder / "fd").iterdir()))}

    async def metrics(self):
        """Name to value; of several with labels, the sum."""
        values = {}
        for line in (await self.get("/metrics")).text().splitlines():
            match = re.match(r"([a-zA-Z_:]+)(?:\{[^}]*\})? (\S+)$", line)
            if match and not line.startswith("#"):
                values[match.group(1)] = values.get(match.group(1), 0.0) + float(match.group(2))
        return values

    async def pages(self):
        return (await self.get("/debug/pages")).json()

    async def wait_until_idle(self, seconds=60):
        """True when no request is running or waiting and no sequence holds a page."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            metrics = await self.metrics()
            busy = metrics.get("quire_num_requests_running", 0) + metrics.get(
                "quire_num_requests_waiting", 0)
            if busy == 0 and (await self.pages())["held_by_sequences"] == 0:
                return True
            await asyncio.sleep(0.2)
        return False

    # --- talking to it ----------------------------------------------------------------------------

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)

    def head(self, method, path, body=b""):
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close"]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def send(self, data, seconds=120):
        """Bytes as they are, and the whole reply."""
        reader, writer = await self.connect()
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(data)
                await writer.drain()
            return Reply(await asyncio.wait_for(read_all(reader), seconds))
        finally:
            writer.close()

    async def get(self, path):
        return await self.send(self.head("GET", path), 30)

    async def post(self, path, body, seconds=120):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send(self.head("POST", path, data) + data, seconds)

    async def stream(self, body, seconds=300):
        """A chat completion: its text, when each token came, its usage."""
        data = json.dumps({"stream": True, "stream_options": {"include_usage": True},
                           "temperature": 0, **body}).encode()
        reader, writer = await self.connect()
        try:
            writer.write(self.head("POST", "/v1/chat/completions", data) + data)
            return await asyncio.wait_for(Stream(time.monotonic()).read(reader), seconds)
        finally:
            writer.close()

    async def words(self, tokens, seed=0):
        """A text of about that many tokens."""
        text = " ".join(WORDS[(seed * 7 + i * i + i // 3) % len(WORDS)] for i in range(tokens))
        counted = len((await self.post("/tokenize", {"content": text})).json()["tokens"])
        return " ".join(text.split()[:max(1, tokens * tokens // counted)])


async def read_all(reader):
    chunks = []
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(1 << 16):
            chunks.append(chunk)
    return b"".join(chunks)


async def pieces(reader, chunked):
    """A body as it comes."""
    while chunked:
        size = await reader.readline()
        length = int(size.split(b";")[0] or b"0", 16)
        if length == 0:
            return
        yield await reader.readexactly(length)
        await reader.readline()
    while piece := await reader.read(1 << 16):
        yield piece


class Reply:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        match = re.match(rb"HTTP/1\.1 (\d+)", head)
        self.status = int(match.group(1)) if match else 0
        if b"transfer-encoding: chunked" in head.lower():
            self.body = unchunked(self.body)

    def text(self):
        return self.body.decode(errors="replace")

    def json(self):
        return json.loads(self.body)


def unchunked(data):
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if length == 0:
            return body
        body += data[:length]
        data = data[length + 2:]
    return body


class Stream:
    """One streamed reply."""

    def __init__(self, sent):
        self.sent = sent
        self.times = []
        self.text = ""
        self.usage = {}
        self.error = ""

    async def read(self, reader):
        status = await reader.readline()
        if b" 200 " not in status:
            self.error = (status + await read_all(reader))[:300].decode(errors="replace")
            return self
        chunked = False
        while (line := await reader.readline()).strip():
            chunked |= line.lower().startswith(b"transfer-encoding: chunked")
        done, rest = False, b""
        async for piece in pieces(reader, chunked):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.strip() == b"data: [DONE]":
                    done = True
                elif line.startswith(b"data: "):
                    self.take(json.loads(line[6:]))
        if not done and not self.error:
            self.error = "the stream ended without [DONE]"
        return self

    def take(self, event):
        if "error" in event:
            self.error = json.dumps(event["error"])
            return
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", []):
            text = (choice.get("delta") or {}).get("content")
            if text:
                self.times.append(time.monotonic())
                self.text += text

    def ttft(self):
        return (self.times[0] if self.times else time.monotonic()) - self.sent

    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]

    def cached(self):
        return (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def percentile(values, share):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))] if ordered else 0.0


def user(text):
    return [{"role": "user", "content": text}]


async def check_counts_return(verdict, server, before, slack_fds=2):
    """Pages, descriptors and threads are where they were before."""
    idle = await server.wait_until_idle()
    verdict.check("the server comes to rest", idle, "nothing runs, waits or holds a page"
                  if idle else "something still runs, waits or holds pages after 60 s")
    pages = await server.pages()
    whole = pages["free"] + pages["held_by_sequences"] + pages["held_by_tree"] == pages["total"]
    verdict.check("no page is lost", whole and pages["held_by_sequences"] == 0,
                  f"total {pages['total']}, free {pages['free']}, tree {pages['held_by_tree']}, "
                  f"sequences {pages['held_by_sequences']}")
    now = server.proc()
    verdict.check("descriptors are back", now["fds"] <= before["fds"] + slack_fds,
                  f"{before['fds']} before, {now['fds']} after")
    verdict.check("threads are back", now["threads"] <= before["threads"],
                  f"{before['threads']} before, {now['threads']} after")


def check_stops(verdict, server):
    alive = server.alive()
    status = server.stop()
    verdict.check("lives to the end and stops with 0", alive and status == 0,
                  f"{'alive' if alive else 'dead'}, exit status {status}")
