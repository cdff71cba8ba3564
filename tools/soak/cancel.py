"""10,000 requests that their clients leave at random moments; others' answers are unharmed."""
import asyncio
import contextlib
import json
import random

from harness import Server, Verdict, check_counts_return, check_stops, user

OPTIONS = ("--max-sequences", 8, "--max-queue", 512)


async def leave(server, choice, prompts):
    """Sends a request, reads for a random while, and is gone."""
    body = json.dumps({"messages": user(choice.choice(prompts) + f" {choice.random()}"),
                       "max_tokens": 64, "stream": choice.random() < 0.8}).encode()
    data = server.head("POST", "/v1/chat/completions", body) + body
    with contextlib.suppress(ConnectionError):
        reader, writer = await server.connect()
        kind = choice.randrange(5)
        if kind == 0:  # in the middle of sending
            data = data[:choice.randrange(1, len(data))]
        writer.write(data)
        with contextlib.suppress(asyncio.TimeoutError):
            if kind == 1:  # in the queue or at the beginning of prefill
                await asyncio.sleep(choice.random() * 0.02)
            elif kind >= 2:  # in prefill or in the middle of the answer
                await asyncio.wait_for(reader.read(choice.choice((1, 400, 4000))),
                                       choice.random() * 2)
        if choice.random() < 0.3:
            writer.transport.abort()  # a reset
        writer.close()


async def run(binary, model, short):
    count = 300 if short else 10_000
    verdict = Verdict("cancel")
    server = Server(binary, model, OPTIONS)
    try:
        await server.wait_until_ready()
        prompts = [await server.words(tokens, tokens) for tokens in (20, 300, 2000)]
        expected = await server.stream({"messages": user("Count to ten."), "max_tokens": 32})
        await server.wait_until_idle()
        before = server.proc()
        left = iter(range(count))
        choice = random.Random(1)

        async def leaver():
            for _ in left:
                await leave(server, choice, prompts)

        answers = []

        async def faithful():
            while not leaving.done():
                answers.append(await server.stream(
                    {"messages": user("Count to ten."), "max_tokens": 32}))

        leaving = asyncio.gather(*[leaver() for _ in range(24)])
        await asyncio.gather(leaving, faithful())
        harmed = [a for a in answers if a.error or a.text != expected.text]
        verdict.check("other answers are unharmed", answers and not harmed and not expected.error,
                      f"{len(harmed)} of {len(answers)} differ; "
                      f"{(harmed[0].error or 'other text') if harmed else 'none'}")
        await check_counts_return(verdict, server, before)
        verdict.check("all were tried", next(left, None) is None, f"{count} requests left")
    finally:
        check_stops(verdict, server)
    return verdict.status()
