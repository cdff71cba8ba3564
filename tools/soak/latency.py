"""What a long prefill does to others, what a batch gains, what the cache saves."""
import asyncio
import statistics

from harness import Server, Verdict, check_stops, percentile, user

OPTIONS = ("--max-sequences", 16)


async def beside_a_prefill(server, tokens, seed):
    """p95 of the gaps of a stream alone, and beside the prefill of another's prompt."""
    quiet = await server.stream({"messages": user(f"Tell a story. {seed}"), "max_tokens": 60})
    prompt = await server.words(tokens, seed)
    story = asyncio.create_task(server.stream(
        {"messages": user(f"Tell a story. {seed}"), "max_tokens": 400}))
    await asyncio.sleep(0.3)
    other = await server.stream({"messages": user(f"{seed} {prompt}"), "max_tokens": 1})
    began, ended = other.sent, other.times[0] if other.times else other.sent
    reply = await story
    gaps = [b - a for a, b in zip(reply.times, reply.times[1:]) if began <= a and b <= ended]
    return percentile(quiet.gaps(), 0.95), percentile(gaps, 0.95), len(gaps)


async def rate(server, streams, tokens):
    """Tokens a second of so many streams, from the first token of all to the last."""
    replies = await asyncio.gather(*[
        server.stream({"messages": user(f"Write about {i}."), "max_tokens": tokens})
        for i in range(streams)])
    times = [t for r in replies for t in r.times]
    return (len(times) - streams) / (max(times) - min(times)) if len(times) > streams else 0.0


async def cold_and_warm(server, seed):
    """TTFT of a 2k-token turn, cold, and of the next turn with few new tokens."""
    messages = user(f"{seed} " + await server.words(2000, seed))
    cold = await server.stream({"messages": messages, "max_tokens": 4})
    messages += [{"role": "assistant", "content": cold.text}, *user("And then?")]
    warm = await server.stream({"messages": messages, "max_tokens": 4})
    new = warm.usage.get("prompt_tokens", 0) - warm.cached()
    return cold.ttft(), warm.ttft(), new


async def run(binary, model, short):
    runs, prefill = (1, 2000) if short else (5, 6000)
    verdict = Verdict("latency")
    server = Server(binary, model, OPTIONS)
    try:
        await server.wait_until_ready()
        await server.stream({"messages": user("Hello"), "max_tokens": 16})
        pairs = [await beside_a_prefill(server, prefill, i) for i in range(runs)]
        ratios = [loaded / quiet for quiet, loaded, gaps in pairs if quiet > 0 and gaps > 0]
        ratio = statistics.median(ratios) if ratios else float("inf")
        verdict.check(f"during a {prefill}-token prefill ITL p95 is at most 2.5 times its quiet value",
                      ratio <= 2.5 and len(ratios) == runs,
                      f"median of {len(ratios)}: {ratio:.2f}")
        one = statistics.median([await rate(server, 1, 48) for _ in range(3)])
        many = await rate(server, 16, 48)
        verdict.check("16 streams decode at least 3 times the rate of one", many >= 3 * one,
                      f"{one:.1f} and {many:.1f} tokens a second")
        turns = [await cold_and_warm(server, 50 + i) for i in range(1 if short else 3)]
        gain = statistics.median(cold / warm for cold, warm, _ in turns)
        new = max(new for _, _, new in turns)
        verdict.check("a warm 2k-token turn's TTFT is at least 20 times shorter than cold",
                      gain >= 20 and new <= 32, f"{gain:.1f} times, {new} new tokens")
        await server.wait_until_idle()
    finally:
        check_stops(verdict, server)
    return verdict.status()
