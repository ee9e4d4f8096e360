"""llama.cpp's own server on a model of random weights, made on the spot: run by the interpreter of its environment.

`python tiny_llama.py DIRECTORY KEY` says its address on standard output and serves until it is ended.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

WIDTH, HEADS, INNER, LAYERS, CONTEXT = 64, 4, 128, 2, 16384
SLOTS = 2
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def write_model(path: Path) -> None:
    """Half a megabyte that says nonsense in bytes: a vocabulary of all of them, two layers, no training."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *map(chr, range(32, 127))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * 95
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * 259 + [-1.0] * 95)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)  # noqa: FBT003 - the library's signature
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(0)
    shapes = {"token_embd": (len(words), WIDTH), "output": (len(words), WIDTH)}
    for layer in range(LAYERS):
        square = ("attn_q", "attn_k", "attn_v", "attn_output")
        shapes |= {f"blk.{layer}.{name}": (WIDTH, WIDTH) for name in square}
        shapes |= {f"blk.{layer}.{name}": (INNER, WIDTH) for name in ("ffn_gate", "ffn_up")}
        shapes[f"blk.{layer}.ffn_down"] = (WIDTH, INNER)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones((WIDTH,), np.float32))
    writer.add_tensor("output_norm.weight", np.ones((WIDTH,), np.float32))
    for name, shape in shapes.items():
        scale = 0.6 / np.sqrt(shape[-1])
        writer.add_tensor(f"{name}.weight", random.normal(0, scale, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Until it is ended."""
    path = Path(sys.argv[1]) / "tiny.gguf"
    write_model(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {"tiny"}
    params.n_ctx = CONTEXT * SLOTS
    params.n_parallel = SLOTS
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.n_threads_http = SLOTS
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [sys.argv[2]]
    params.endpoint_metrics = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - whoever started it reads it
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
