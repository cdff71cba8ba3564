"""1,000 waiting streams, slow and dead readers, half-sent requests; others' tokens come on time."""
import asyncio
import contextlib
import json

from harness import Server, Verdict, check_counts_return, check_stops, percentile, user

OPTIONS = ("--max-sequences", 4, "--max-queue", 2000)


async def healthy(server, count, tokens):
    """Gaps between the tokens of `count` streams at once, and what went wrong."""
    replies = await asyncio.gather(*[
        server.stream({"messages": user(f"Tell story {i}."), "max_tokens": tokens}, 600)
        for i in range(count)])
    return ([gap for r in replies for gap in r.gaps()], [r.error for r in replies if r.error])


async def waiter(server, number, opened, stop):
    """A stream that waits; every third reads a byte at a time, every tenth not at all."""
    body = json.dumps({"messages": user(f"Wait {number}."), "max_tokens": 400,
                       "stream": True}).encode()
    with contextlib.suppress(ConnectionError):
        reader, writer = await server.connect()
        writer.write(server.head("POST", "/v1/chat/completions", body) + body)
        await writer.drain()
        opened.append(number)
        while not stop.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                if number % 10 == 0:
                    await asyncio.wait_for(stop.wait(), 1)
                elif await asyncio.wait_for(reader.read(1 if number % 3 == 0 else 65536), 1) == b"":
                    break
            if number % 3 == 0:
                await asyncio.sleep(0.5)
        writer.transport.abort()


async def half_sender(server, number, stop):
    """Part of a request, and then nothing."""
    body = json.dumps({"messages": user("Half.")}).encode()
    data = server.head("POST", "/v1/chat/completions", body) + body
    with contextlib.suppress(ConnectionError):
        _, writer = await server.connect()
        writer.write(data[:10 + number % (len(data) - 10)])
        await writer.drain()
        await stop.wait()
        writer.transport.abort()


async def run(binary, model, short):
    waiting, halves, tokens = (100, 20, 60) if short else (1000, 100, 300)
    verdict = Verdict("stall")
    server = Server(binary, model, OPTIONS)
    try:
        await server.wait_until_ready()
        await healthy(server, 4, 8)
        await server.wait_until_idle()
        before = server.proc()
        quiet, errors = await healthy(server, 4, tokens)
        measured = asyncio.create_task(healthy(server, 4, tokens))
        await asyncio.sleep(0.5)  # they run before the others queue up
        stop, opened = asyncio.Event(), []
        stalled = [asyncio.create_task(waiter(server, i, opened, stop)) for i in range(waiting)]
        stalled += [asyncio.create_task(half_sender(server, i, stop)) for i in range(halves)]
        loaded, more_errors = await measured
        during = await server.metrics()
        health = (await server.get("/health")).status
        stop.set()
        await asyncio.gather(*stalled)
        errors += more_errors
        verdict.check("all streams were opened", len(opened) == waiting, f"{len(opened)} of {waiting}")
        verdict.check("streams wait in the queue", during.get("quire_num_requests_waiting", 0) > 0,
                      f"{during.get('quire_num_requests_waiting', 0):.0f} waiting")
        verdict.check("healthy streams have no error", not errors, errors[0] if errors else "none")
        slow, fast = percentile(loaded, 0.95), percentile(quiet, 0.95)
        verdict.check("healthy streams' ITL p95 is at most a quarter longer", slow <= 1.25 * fast,
                      f"{1000 * fast:.1f} ms quiet, {1000 * slow:.1f} ms beside them")
        verdict.check("the server answers meanwhile", health == 200, f"/health {health}")
        await check_counts_return(verdict, server, before)
    finally:
        check_stops(verdict, server)
    return verdict.status()
