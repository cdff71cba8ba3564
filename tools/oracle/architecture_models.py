"""One tiny model or more of every architecture: its config.json as the hub would have it.

`make_architecture_models.py` gives each random weights. All matrices lie on the grid of Q8_0 with
scales that are powers of two, so that the same numbers are exact in f16, in bf16 and, written by
llama.cpp's converter, in Q8_0: one golden serves folder and GGUF.
"""

from dataclasses import dataclass, field

WINDOW = 32
CONTEXT = 256


@dataclass(frozen=True)
class ArchitectureModel:
    name: str
    config: dict
    pre: str = "gpt2"  # of its tokenizer
    # How config.json differs in what is converted: GGUF has no place for some numbers.
    gguf_config: dict | None = field(default_factory=dict)  # None: no GGUF
    tokens: int = 150  # of the golden
    # Also a golden of a prompt that fits this window (LongRoPE looks at it).
    short_window: int = 0
    dtype: str = "F16"  # of the folder


def decoder(architecture: str, model_type: str, **rest) -> dict:
    """A config.json of the usual spelling; `rest` adds, or removes what is None... by REMOVED."""
    config = {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 288,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "torch_dtype": "float16",
    } | rest
    return {key: value for key, value in config.items() if value is not REMOVED}


REMOVED = object()


def factors(first: float, step: float, count: int) -> list[float]:
    return [first + step * i for i in range(count)]


LLAMA = ("LlamaForCausalLM", "llama")

MODELS = [
    ArchitectureModel(
        "qwen2",
        # use_sliding_window is false: the window must have no effect.
        decoder("Qwen2ForCausalLM", "qwen2", tie_word_embeddings=True, use_sliding_window=False,
                sliding_window=WINDOW, max_window_layers=1, rms_norm_eps=1e-6, rope_theta=1000000.0),
        pre="qwen2",
    ),
    ArchitectureModel(
        "qwen2_window",
        decoder("Qwen2ForCausalLM", "qwen2", num_hidden_layers=3, use_sliding_window=True,
                sliding_window=WINDOW, max_window_layers=1),
        pre="qwen2",
        gguf_config=None,
        dtype="BF16",
    ),
    ArchitectureModel(
        "qwen3",
        decoder("Qwen3ForCausalLM", "qwen3", head_dim=32, attention_bias=False, rms_norm_eps=1e-6),
        pre="qwen2",
    ),
    ArchitectureModel(
        "granite",
        decoder("GraniteForCausalLM", "granite", tie_word_embeddings=True, embedding_multiplier=6.0,
                attention_multiplier=0.4, residual_multiplier=0.6, logits_scaling=3.0, attention_bias=False),
    ),
    ArchitectureModel("olmo2", decoder("Olmo2ForCausalLM", "olmo2", rms_norm_eps=1e-6)),
    ArchitectureModel(
        "phi3",
        decoder("Phi3ForCausalLM", "phi3", sliding_window=WINDOW, rope_scaling=None,
                original_max_position_embeddings=CONTEXT),
    ),
    ArchitectureModel(
        # As phi-3-mini-128k: the older spelling, the short length at top level.
        "phi3_long",
        decoder("Phi3ForCausalLM", "phi3", num_key_value_heads=4, sliding_window=None,
                original_max_position_embeddings=64,
                rope_scaling={"type": "longrope", "short_factor": factors(1.0, 0.25, 8),
                              "long_factor": factors(1.5, 1.5, 8)}),
        short_window=64,
    ),
    ArchitectureModel(
        # As phi-4-mini: three quarters of each head rotate.
        "phi3_partial",
        decoder("Phi3ForCausalLM", "phi3", sliding_window=None, original_max_position_embeddings=64,
                partial_rotary_factor=0.75, tie_word_embeddings=True,
                rope_scaling={"type": "longrope", "short_factor": factors(1.0, 0.0, 6),
                              "long_factor": factors(1.0, 2.0, 6)}),
    ),
    ArchitectureModel(
        "gemma2",
        decoder("Gemma2ForCausalLM", "gemma2", num_hidden_layers=3, head_dim=24, query_pre_attn_scalar=24,
                sliding_window=WINDOW, hidden_act=REMOVED, hidden_activation="gelu_pytorch_tanh",
                attn_logit_softcapping=4.0, final_logit_softcapping=6.0, rms_norm_eps=1e-6,
                tie_word_embeddings=REMOVED),
    ),
    ArchitectureModel(
        "gemma2_scalar",
        # The scale of attention is no function of head_dim here, and there are no caps.
        decoder("Gemma2ForCausalLM", "gemma2", head_dim=16, query_pre_attn_scalar=40, sliding_window=WINDOW,
                hidden_act=REMOVED, hidden_activation="gelu_pytorch_tanh", attn_logit_softcapping=None,
                final_logit_softcapping=None, tie_word_embeddings=REMOVED,
                layer_types=["full_attention", "sliding_attention"]),
        gguf_config=None,
        dtype="BF16",
    ),
    ArchitectureModel(
        # GGUF has no window for it; head_dim as in Mistral Nemo.
        "mistral",
        decoder("MistralForCausalLM", "mistral", head_dim=32, sliding_window=WINDOW),
        gguf_config={"sliding_window": None},
    ),
    ArchitectureModel(
        "smollm3",
        decoder("SmolLM3ForCausalLM", "smollm3", num_hidden_layers=5, tie_word_embeddings=True,
                intermediate_size=64, no_rope_layers=[1, 1, 1, 0, 1], no_rope_layer_interval=4,
                use_sliding_window=False, sliding_window=None, rope_theta=5000000.0),
        pre="llama-bpe",
    ),
    ArchitectureModel(
        "llama_yarn",
        decoder(*LLAMA, head_dim=32,
                rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}),
    ),
    ArchitectureModel(
        "llama_yarn_full",
        decoder(*LLAMA, rope_theta=REMOVED,
                rope_parameters={"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "beta_fast": 16.0,
                                 "beta_slow": 2.0, "attention_factor": 0.9,
                                 "original_max_position_embeddings": 128}),
    ),
    ArchitectureModel(
        # Biases of q and k are permuted in GGUF as their rows are.
        "llama_linear",
        decoder(*LLAMA, attention_bias=True, mlp_bias=True, rope_scaling={"type": "linear", "factor": 4.0}),
    ),
    ArchitectureModel(
        "gpt2",
        {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4,
         "n_positions": CONTEXT, "n_ctx": CONTEXT, "vocab_size": 288, "activation_function": "gelu_new",
         "layer_norm_epsilon": 1e-5, "bos_token_id": 1, "eos_token_id": 2},
    ),
    ArchitectureModel(
        "starcoder",
        {"architectures": ["GPTBigCodeForCausalLM"], "model_type": "gpt_bigcode", "n_embd": 64, "n_layer": 2,
         "n_head": 4, "n_positions": CONTEXT, "vocab_size": 288, "activation_function": "gelu_pytorch_tanh",
         "layer_norm_epsilon": 1e-5, "multi_query": True, "bos_token_id": 1, "eos_token_id": 2},
    ),
    ArchitectureModel(
        "starcoder_heads",
        {"architectures": ["GPTBigCodeForCausalLM"], "model_type": "gpt_bigcode", "n_embd": 64, "n_layer": 2,
         "n_head": 4, "n_positions": CONTEXT, "vocab_size": 288, "activation_function": "gelu_pytorch_tanh",
         "layer_norm_epsilon": 1e-3, "n_inner": 80, "multi_query": False, "bos_token_id": 1, "eos_token_id": 2},
        gguf_config=None,
        dtype="BF16",
    ),
    ArchitectureModel(
        "starcoder2",
        decoder("Starcoder2ForCausalLM", "starcoder2", hidden_act="gelu_pytorch_tanh", rms_norm_eps=REMOVED,
                norm_epsilon=1e-5, use_bias=True, sliding_window=WINDOW, tie_word_embeddings=REMOVED),
        gguf_config={"sliding_window": None},
    ),
    ArchitectureModel(
        # As falcon-7b: num_kv_heads lies, activation and rope_theta are missing.
        "falcon",
        {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 64,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_kv_heads": 4, "vocab_size": 288,
         "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False, "bias": False,
         "alibi": False, "layer_norm_epsilon": 1e-5, "ffn_hidden_size": 256, "bos_token_id": 1,
         "eos_token_id": 2},
        # The converter believes num_kv_heads.
        gguf_config={"num_kv_heads": 1},
    ),
    ArchitectureModel(
        "falcon_new",
        {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 64,
         "num_hidden_layers": 2, "num_attention_heads": 8, "num_kv_heads": 2, "vocab_size": 288,
         "new_decoder_architecture": True, "parallel_attn": True, "bias": False, "alibi": False,
         "layer_norm_epsilon": 1e-5, "activation": "gelu", "rope_theta": 10000.0, "bos_token_id": 1,
         "eos_token_id": 2},
    ),
    ArchitectureModel(
        "falcon_sequential",
        {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 64,
         "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 288, "multi_query": False,
         "parallel_attn": False, "new_decoder_architecture": False, "bias": True, "alibi": False,
         "layer_norm_epsilon": 1e-4, "ffn_hidden_size": 96, "bos_token_id": 1, "eos_token_id": 2},
        gguf_config=None,
        dtype="BF16",
    ),
    ArchitectureModel(
        "mixtral",
        decoder("MixtralForCausalLM", "mixtral", intermediate_size=64, num_local_experts=4, num_experts_per_tok=2,
                head_dim=None, sliding_window=None, rope_theta=1000000.0),
    ),
    ArchitectureModel(
        # One dense layer among the sparse ones, a shared expert, shares that do not sum to 1.
        "qwen2moe",
        decoder("Qwen2MoeForCausalLM", "qwen2_moe", num_hidden_layers=3, num_experts=5, num_experts_per_tok=2,
                moe_intermediate_size=32, shared_expert_intermediate_size=64, decoder_sparse_step=1,
                mlp_only_layers=[1], norm_topk_prob=False, use_sliding_window=False, sliding_window=WINDOW,
                rms_norm_eps=1e-6),
        pre="qwen2",
        gguf_config={"mlp_only_layers": []},  # its list of GGUF tensors has no dense ones
    ),
    ArchitectureModel(
        "qwen3moe",
        decoder("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=32, num_experts=8, num_experts_per_tok=3,
                moe_intermediate_size=32, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True,
                attention_bias=False, use_sliding_window=False, rms_norm_eps=1e-6),
        pre="qwen2",
    ),
]
