"""64 clients in multi-turn conversations with a shared 1k-token system prompt, ten minutes."""
import asyncio
import time

from harness import Server, Verdict, check_counts_return, check_stops, user

OPTIONS = ("--max-sequences", 16, "--max-queue", 512)


async def converse(server, system, client, end, records):
    """Conversations of six turns, one after the other, each turn with all that was said before."""
    number = 0
    while time.monotonic() < end:
        messages = [{"role": "system", "content": system}]
        for turn in range(6):
            if time.monotonic() >= end:
                return
            messages += user(f"Client {client}, talk {number}, question {turn}: name one thing.")
            reply = await server.stream({"messages": messages, "max_tokens": 24}, 600)
            records.append(reply)
            if reply.error:
                return
            messages.append({"role": "assistant", "content": reply.text})
        number += 1


async def memory(server):
    """Resident bytes beyond the pages, which may grow up to their budget."""
    return server.proc()["rss"] - (await server.metrics()).get("quire_kv_bytes_held", 0)


async def run(binary, model, short):
    clients, seconds = (8, 30) if short else (64, 600)
    verdict = Verdict("chat")
    server = Server(binary, model, OPTIONS)
    try:
        await server.wait_until_ready()
        system = "Answer in a few words. " + await server.words(1000)
        await server.stream({"messages": [{"role": "system", "content": system}, *user("Hello")],
                             "max_tokens": 8})
        before = server.proc()
        records = []
        end = time.monotonic() + seconds
        tasks = [asyncio.create_task(converse(server, system, i, end, records))
                 for i in range(clients)]
        await asyncio.sleep(seconds / 3)
        early = await memory(server)
        await asyncio.gather(*tasks)
        errors = [r.error for r in records if r.error]
        verdict.check("no error", not errors and len(records) >= clients,
                      f"{len(errors)} of {len(records)} requests; {errors[0] if errors else 'none'}")
        prompt = sum(r.usage.get("prompt_tokens", 0) for r in records)
        cached = sum(r.cached() for r in records)
        share = cached / prompt if prompt else 0
        verdict.check("at least 85 % of the prompts are cached", share >= 0.85,
                      f"{100 * share:.1f} % of {prompt} tokens")
        await check_counts_return(verdict, server, before)
        late = await memory(server)
        verdict.check("memory beyond the pages is flat", late <= early * 1.05 + (16 << 20),
                      f"{early / 2**20:.0f} MiB after a third, {late / 2**20:.0f} MiB at the end")
    finally:
        check_stops(verdict, server)
    return verdict.status()
