"""What ./dev bench measures: named sets of cases, each for one or more model files."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str  # "prefill", "decode", "busy" (decode beside a busy process) or "start" (to the first token)
    tokens: int
    depth: int = 0
    batch: int = 1
    kv: str = "f16"
    label: str = ""  # of the model file, where a set has several

    @property
    def name(self) -> str:
        what = {"prefill": "pp", "decode": "tg", "busy": "busy tg", "start": "start"}[self.kind]
        what += str(self.tokens) if self.kind != "start" else ""
        at = f" at {self.depth}" if self.depth else ""
        many = f" x {self.batch}" if self.batch > 1 else ""
        label = f"{self.label} " if self.label else ""
        return label + what + at + many + ("" if self.kv == "f16" else f", {self.kv} cache")


TABLE = [
    Case("prefill", 512),
    Case("prefill", 2048),
    Case("prefill", 7000),
    Case("prefill", 512, depth=2048),
    Case("prefill", 512, depth=2048, kv="q8"),
    Case("decode", 64),
    Case("decode", 48, depth=2048),
    Case("decode", 32, depth=8000),
    Case("decode", 32, depth=8000, kv="q8"),
    Case("decode", 32, batch=4),
    Case("decode", 32, batch=8),
    Case("decode", 32, batch=16),
]

GEMMA = [Case("prefill", 512, label="Gemma-3-270M"), Case("decode", 32, label="Gemma-3-270M")]

BUSY = [Case("busy", 96)]

START = [Case("start", 1)]

TYPES = ["Q4_0", "Q8_0", "F16", "Q4_K", "Q5_0", "Q6_K"]


def of_type(label: str) -> list:
    return [Case("prefill", 512, label=label), Case("decode", 32, label=label)]


SETS = ["table", "types", "gemma", "busy", "start"]
