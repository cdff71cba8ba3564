"""Malformed JSON of every kind and parameters out of range: a clear 4xx each, and nobody harmed."""
import asyncio
import json

from harness import Server, Verdict, check_counts_return, check_stops, user

GOOD = {"messages": user("Hello"), "max_tokens": 4}


def bodies():
    """Name and bytes of each body that must be refused."""
    good = json.dumps(GOOD).encode()
    for cut in range(1, len(good), 3):
        yield f"cut after {cut} bytes", good[:cut]
    texts = {
        "a number": b"1", "an array": b"[]", "a string": b'"x"', "null": b"null", "two": b"{} {}",
        "a trailing comma": b'{"messages":[],}', "single quotes": b"{'messages': []}",
        "bare words": b"{messages: []}", "a comment": b'{"a":1/* */}', "NaN": b'{"temperature":NaN}',
        "Infinity": b'{"temperature":Infinity}', "leading zeros": b'{"n":01}',
        "not UTF-8": b'{"messages":[{"role":"user","content":"\xff\xfe"}]}',
        "half a surrogate": b'{"messages":[{"role":"user","content":"\\ud800"}]}',
        "a control character": b'{"messages":[{"role":"user","content":"a\x01"}]}',
        "deep arrays": b"[" * 100_000, "deep objects": b'{"a":' * 100_000,
        "UTF-16": '{"messages":[]}'.encode("utf-16"), "NUL": b"\x00" * 64, "gzip": b"\x1f\x8b" * 64,
    }
    yield from texts.items()
    wrong = {
        "messages": ["x", 3, [], [3], [{}], [{"role": 3, "content": "x"}],
                     [{"role": "user"}], [{"role": "user", "content": 5}],
                     [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]],
        "temperature": ["hot", -1, 1e300, [], {}, True], "top_p": [7, -0.1, "x"],
        "top_k": [-5, "x", 1.5], "min_p": [-1, 2], "n": [0, -1, 10**6, 1.5, "x"],
        "max_tokens": [0, -1, 10**12, 1.5, "x", []], "seed": ["x", 1.5],
        "stop": [5, [5], ["x" * 300], ["x"] * 17, {}], "logit_bias": ["x", {"99999999": 1}, {"a": 1},
                                                                     {"1": "x"}, {"1": 1e300}],
        "logprobs": ["x", 3], "top_logprobs": [-1, 1000, "x"], "stream": ["yes", 1],
        "presence_penalty": ["x", 1e300], "frequency_penalty": ["x", 1e300],
        "repetition_penalty": [0, -1, "x"], "tools": ["x", [{}], [3], [{"type": "function"}]],
        "tool_choice": ["sometimes", 3, {"type": "function", "function": {"name": "nobody"}}],
        "response_format": ["x", {}, {"type": "yaml"}, {"type": "json_schema"},
                            {"type": "json_schema", "json_schema": {"schema": {"not": {}}}},
                            {"type": "json_schema",
                             "json_schema": {"schema": {"pattern": "(" * 60_000}}}],
        "stream_options": ["x", 3], "model": [3, "no-such-model"],
        "chat_template_kwargs": ["x", 3],
    }
    for key, values in wrong.items():
        for value in values:
            shown = json.dumps(value)
            yield f"{key} = {shown[:60]}", json.dumps({**GOOD, key: value}).encode()


def raw_requests(server):
    """Name, bytes, and the statuses that may answer them."""
    body = json.dumps(GOOD).encode()
    post = server.head("POST", "/v1/chat/completions", body)
    yield "no HTTP at all", b"\x16\x03\x01\x02\x00" * 40 + b"\r\n\r\n", (400, 0)
    yield "a long request line", b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", (400, 413, 414, 431)
    yield "many headers", post[:-2] + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + b"\r\n", (
        400, 431)
    yield "a large header", post[:-2] + b"X: " + b"y" * 100_000 + b"\r\n\r\n", (400, 431)
    yield "two framings", post[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400,)
    yield "a negative length", b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n" \
        b"Content-Length: -5\r\n\r\n", (400,)
    yield "a huge length", b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n" \
        b"Content-Length: 99999999999\r\n\r\n", (400, 413)
    yield "an unknown route", server.head("GET", "/v1/nothing"), (404,)
    yield "a wrong method", server.head("DELETE", "/v1/chat/completions"), (404, 405)
    yield "another host", b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n" \
        b"Connection: close\r\n\r\n", (400, 403, 421)


async def refused(server, body):
    """What is wrong with the answer to a bad body; empty if it is a clear 4xx."""
    reply = await server.post("/v1/chat/completions", body, 60)
    if not 400 <= reply.status < 500:
        return f"HTTP {reply.status}"
    try:
        message = reply.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return "an error without a message"
    return "" if len(message) > 5 else "an empty message"


async def run(binary, model, short):
    verdict = Verdict("abuse")
    server = Server(binary, model)
    try:
        await server.wait_until_ready()
        expected = await server.stream({"messages": user("Count to ten."), "max_tokens": 32})
        await server.wait_until_idle()
        before = server.proc()
        answers, over = [], asyncio.Event()

        async def faithful():
            while not over.is_set():
                answers.append(await server.stream(
                    {"messages": user("Count to ten."), "max_tokens": 32}))

        task = asyncio.create_task(faithful())
        cases = list(bodies())[::4 if short else 1]
        bad = [f"{name}: {why}" for name, body in cases if (why := await refused(server, body))]
        verdict.check("every bad body gets a clear 4xx", not bad,
                      f"{len(bad)} of {len(cases)} do not; {'; '.join(bad[:8]) if bad else 'none'}")
        bad = []
        for name, data, statuses in raw_requests(server):
            status = (await server.send(data, 60)).status
            if status not in statuses:
                bad.append(f"{name}: HTTP {status}")
        verdict.check("every bad request is refused", not bad, "; ".join(bad) if bad else "none is not")
        over.set()
        await task
        harmed = [a for a in answers if a.error or a.text != expected.text]
        verdict.check("other answers are unharmed", answers and not harmed,
                      f"{len(harmed)} of {len(answers)} differ")
        await check_counts_return(verdict, server, before)
    finally:
        check_stops(verdict, server)
    return verdict.status()
