"""OpenVINO GenAI on the same GGUF file: prefill, and decode at a depth.

Prefill speed is prompt tokens over time to the first token; decode speed is the tokens after the first
over the time they took. Tokens of each call differ, so that nothing is found from the call before.
"""

import numpy as np
import openvino_genai
from openvino import Tensor

NAME = "OpenVINO"


class Peer:
    def __init__(self, model: str, threads: int):
        self._pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
        self._calls = 0

    def variants(self, case) -> list:
        """A prompt is read whole, so there is no prefill at a depth."""
        reads = case.kind == "prefill" and case.depth == 0
        runs = case.kv == "f16" and (reads or case.kind == "decode")
        return ["default"] if runs else []

    def close(self) -> None:
        self._pipeline = None

    def speed(self, case, variant: str) -> float:
        self._calls += 1
        prompt = case.tokens if case.kind == "prefill" else case.depth + 1
        starts = 7919 * self._calls + 613 * np.arange(case.batch)[:, None]
        ids = (1000 + (np.arange(prompt)[None, :] + starts) % 20000).astype(np.int64)
        inputs = openvino_genai.TokenizedInputs(Tensor(ids), Tensor(np.ones_like(ids)))
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = 1 if case.kind == "prefill" else case.tokens + 1
        config.ignore_eos = True
        config.do_sample = False
        metrics = self._pipeline.generate(inputs, config).perf_metrics
        if case.kind == "prefill":
            return prompt * 1000.0 / metrics.get_ttft().mean
        # Not get_tpot(): for several sequences it is divided by their number.
        decoding = metrics.get_generate_duration().mean - metrics.get_ttft().mean
        return case.batch * case.tokens * 1000.0 / decoding
