"""Pairs of measurements, taken turn by turn, and what they say.

Plain functions over dictionaries of name -> figure; they know no engine, so that tests can hand in made-up
contestants.
"""

import statistics
from pathlib import Path

MOST_STOLEN = 0.10
HOPELESS = 0.7  # of the best peer's speed
TRIAL_PAIRS = 2


def processor_ticks() -> tuple:
    fields = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields), fields[7]


def run_pairs(contestants: dict, count: int, ours: str, less_is_better: bool = False,
              ticks=processor_ticks) -> dict:
    """`contestants`: name -> function that measures once. Ratios say how many times `ours` is as good as the
    best other of the same pair."""
    left_out = set()
    taken = []
    for number in range(count):
        if number == TRIAL_PAIRS:
            left_out = hopeless(taken, ours, less_is_better)
        before = ticks()
        figures = {name: measure() for name, measure in contestants.items() if name not in left_out}
        after = ticks()
        stolen = (after[1] - before[1]) / max(1, after[0] - before[0])
        taken.append({"figures": figures, "stolen": round(stolen, 4)})
    return summarize(taken, left_out, ours, less_is_better)


def speeds(figures: dict, less_is_better: bool) -> dict:
    return {name: 1 / figure if less_is_better else figure for name, figure in figures.items()}


def hopeless(taken: list, ours: str, less_is_better: bool) -> set:
    """Peers that were far behind the best one in every pair."""
    shares = {}
    for pair in taken:
        peers = {n: s for n, s in speeds(pair["figures"], less_is_better).items() if n != ours}
        for name, speed in peers.items():
            shares.setdefault(name, []).append(speed / max(peers.values()))
    return {name for name, seen in shares.items() if max(seen) < HOPELESS}


def summarize(taken: list, left_out: set, ours: str, less_is_better: bool) -> dict:
    kept = [pair for pair in taken if pair["stolen"] <= MOST_STOLEN]
    result = {"pairs": len(kept), "dropped": len(taken) - len(kept), "raw": taken}
    # Where the undisturbed pairs came after a peer was left out, it has no figure.
    names = list(dict.fromkeys(name for pair in kept for name in pair["figures"]))
    if not kept:
        return result
    result["engines"] = {}
    for name in names:
        figures = [pair["figures"][name] for pair in kept if name in pair["figures"]]
        result["engines"][name] = spread(figures) | {"left_out": name in left_out}
    ratios = []
    for pair in kept:
        rates = speeds(pair["figures"], less_is_better)
        ratios.append(rates[ours] / max(rate for name, rate in rates.items() if name != ours))
    of_ratios = spread(ratios, digits=2)
    return result | {"ratio": of_ratios["median"], "ratio_p10": of_ratios["p10"], "ratio_p90": of_ratios["p90"]}


def spread(figures: list, digits: int = 3) -> dict:
    return {"median": shown(statistics.median(figures), digits), "p10": shown(quantile(figures, 0.1), digits),
            "p90": shown(quantile(figures, 0.9), digits)}


def shown(figure: float, digits: int) -> float:
    """Ratios with two places; speeds as precise as they are large."""
    return round(figure, digits if figure < 10 else 1)


def quantile(figures: list, share: float) -> float:
    """Between the two nearest of the sorted figures."""
    ordered = sorted(figures)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
