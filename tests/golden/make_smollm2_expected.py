#!/usr/bin/env python3
"""Make the reference data for the SmolLM2-135M-Instruct end-to-end tests.

    python make_smollm2_expected.py --model SmolLM2-135M-Instruct.Q4_1.gguf --out DIR

The model file is dequantised to float32 and run through Hugging Face
transformers; the tokenizer is rebuilt with Hugging Face tokenizers from the
vocabulary and the merges in the same file.  Neither shares code with the
engine under test.  Everything is float32, no activation is quantised, and one
thread is used, so that the order of summation does not depend on the number
of cores.  A run takes a few minutes and about 3 GB of memory.

Made with Python 3.11 and

    torch==2.15.0 transformers==5.24.0 tokenizers==0.23.3 gguf==0.19.0 numpy==2.4.6

and written to DIR:

expected.json
    {"model_sha256", "versions", "prompts": [...]}.  A prompt is

    name, text       what it is called, and the text itself
    ids              its tokens (a BOS token first only if the model file asks
                     for one, which SmolLM2's does not)
    logits           a list of slices of the logits at chosen positions of the
                     prompt, the last position always among them:
        position       index into ids; the logits are those computed after it
        id_offset, id_stride, count
                       value k of the slice is the logit of the token
                       id_offset + k * id_stride, for 0 <= k < count
        offset         where the slice starts in expected.f32, in floats
        top_ids, top_logits
                       the five largest logits of the whole row, largest first
    greedy_ids       64 tokens of greedy continuation, computed with a KV
                     cache; the end-of-sequence token does not stop it
    greedy_gaps      for each of them the logit of the chosen token less that
                     of the runner-up, never below MIN_GAP
    greedy_text      greedy_ids decoded, special tokens shown

expected.f32
    The slices, little-endian float32, nothing else.

tokenizer_expected.json
    A list of {"text", "ids", "decoded"}: the tokens of the text, special
    tokens in it recognised and none added, and those tokens decoded again,
    special tokens shown.  "decoded" differs from "text" only where the text
    has bytes for which the vocabulary has no token: those are dropped.

The JSON files are pure ASCII: other characters are \\u escapes, those outside
the basic plane surrogate pairs.
"""

import argparse
import hashlib
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from smollm2_texts import PROMPTS, TOKENIZER_TEXTS

GREEDY_TOKENS = 64
ID_STRIDE = 16
MIN_GAP = 2e-3  # a smaller lead of the best token is not a fair thing to test

TOKEN_CONTROL = int(gguf.TokenType.CONTROL)
TOKEN_USER_DEFINED = int(gguf.TokenType.USER_DEFINED)


# --------------------------------------------------------------------------
# The model


class ModelFile:
    """Metadata and tensors of a GGUF file of the llama architecture."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}
        if self.get("general.architecture") != "llama":
            sys.exit(f"{path}: not of the llama architecture")

    def get(self, key, default=None):
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def tensor(self, name):
        """The named tensor as float32, rows first."""
        t = self.tensors[name]
        values = gguf.dequantize(t.data, t.tensor_type)
        rows_first = tuple(int(n) for n in reversed(t.shape))
        return np.array(values, dtype=np.float32).reshape(rows_first)


def half_split_rows(weight, heads):
    """Undo the row order that GGUF files of this architecture have in Q and K.

    They store the two halves of each head interleaved (row 2i and 2i + 1 make
    the pair that RoPE rotates by angle i); transformers wants the halves one
    after the other (rows i and i + head_dim / 2).
    """
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def build_model(file):
    heads = file.get("llama.attention.head_count")
    kv_heads = file.get("llama.attention.head_count_kv", heads)
    hidden = file.get("llama.embedding_length")
    layers = file.get("llama.block_count")
    head_dim = file.get("llama.attention.key_length", hidden // heads)
    if file.get("llama.rope.dimension_count", head_dim) != head_dim:
        sys.exit("partial RoPE is not supported")
    if file.get("llama.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in file.tensors:
        sys.exit("scaled RoPE is not supported")

    tied = "output.weight" not in file.tensors
    config = LlamaConfig(
        vocab_size=len(file.get("tokenizer.ggml.tokens")),
        hidden_size=hidden,
        intermediate_size=file.get("llama.feed_forward_length"),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        hidden_act="silu",
        max_position_embeddings=file.get("llama.context_length"),
        rms_norm_eps=file.get("llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={
            "rope_type": "default",
            "rope_theta": file.get("llama.rope.freq_base", 10000.0),
        },
        tie_word_embeddings=tied,
        attention_bias=False,
        mlp_bias=False,
        bos_token_id=file.get("tokenizer.ggml.bos_token_id"),
        eos_token_id=file.get("tokenizer.ggml.eos_token_id"),
        attn_implementation="eager",
        dtype="float32",
    )

    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "token_embd.weight" if tied else "output.weight",
    }
    for i in range(layers):
        for theirs, ours in (
            ("input_layernorm", "attn_norm"),
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("post_attention_layernorm", "ffn_norm"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
        ):
            names[f"model.layers.{i}.{theirs}.weight"] = f"blk.{i}.{ours}.weight"
    unused = set(file.tensors) - set(names.values())
    if unused:
        sys.exit(f"tensors without a place in the model: {sorted(unused)}")

    state = {}
    for theirs, ours in names.items():
        weight = file.tensor(ours)
        if ours.endswith("attn_q.weight"):
            weight = half_split_rows(weight, heads)
        elif ours.endswith("attn_k.weight"):
            weight = half_split_rows(weight, kv_heads)
        state[theirs] = torch.from_numpy(np.ascontiguousarray(weight))

    model = LlamaForCausalLM(config).to(torch.float32)
    model.load_state_dict(state, strict=True)
    assert model.config._attn_implementation == "eager"
    assert all(p.dtype == torch.float32 for p in model.parameters())
    return model.eval()


@torch.inference_mode()
def run(model, ids):
    """Return the logits of each position, and a greedy continuation with its gaps."""
    cache = DynamicCache(config=model.config)
    prompt = model(torch.tensor([ids]), cache=cache, use_cache=True).logits[0]
    row = prompt[-1]
    greedy, gaps = [], []
    while True:
        top = torch.topk(row, 2)
        greedy.append(int(top.indices[0]))
        gaps.append(float(top.values[0] - top.values[1]))
        if len(greedy) == GREEDY_TOKENS:
            return prompt, greedy, gaps
        row = model(torch.tensor([greedy[-1:]]), cache=cache, use_cache=True).logits[0, -1]


# --------------------------------------------------------------------------
# The tokenizer


def build_tokenizer(file):
    if file.get("tokenizer.ggml.model") != "gpt2" or file.get("tokenizer.ggml.pre") != "smollm":
        sys.exit("not a SmolLM tokenizer")
    tokens = file.get("tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in file.get("tokenizer.ggml.merges")]
    types = file.get("tokenizer.ggml.token_type")

    # There is no unknown token: bytes that the vocabulary lacks are dropped.
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, normalized=False, special=True)
         for t, kind in zip(tokens, types) if kind == TOKEN_CONTROL]
    )
    tokenizer.add_tokens(
        [AddedToken(t, normalized=False)
         for t, kind in zip(tokens, types) if kind == TOKEN_USER_DEFINED]
    )
    assert tokenizer.get_vocab_size() == len(tokens)
    return tokenizer


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def decode(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=False)


def cut(tokenizer, text, count):
    """The start of the text that is exactly so many tokens long."""
    ids = encode(tokenizer, text)
    if len(ids) < count:
        sys.exit(f"{text[:40]!r}: has {len(ids)} tokens, {count} are wanted")
    start = decode(tokenizer, ids[:count])
    if encode(tokenizer, start) != ids[:count] or not text.startswith(start):
        sys.exit(f"{text[:40]!r}: cannot be cut at {count} tokens")
    return start


# --------------------------------------------------------------------------


def json_lines(values):
    """A JSON list with one element a line."""
    return "[\n" + ",\n".join(json.dumps(v) for v in values) + "\n]"


def slice_positions(count):
    """Up to four positions of a prompt, spread out, the last one among them."""
    return sorted({0, count // 3, (2 * count) // 3, count - 1})


def short(value):
    """A float32 value with as many decimal digits as it takes to read it back."""
    return float(str(np.float32(value)))


def main():
    parser = argparse.ArgumentParser(
        description="Make the reference data for the SmolLM2 end-to-end tests."
    )
    parser.add_argument("--model", required=True, type=Path, metavar="FILE.gguf")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    args = parser.parse_args()

    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    file = ModelFile(args.model)
    tokenizer = build_tokenizer(file)
    bos = []
    if file.get("tokenizer.ggml.add_bos_token", False):
        bos = [file.get("tokenizer.ggml.bos_token_id")]

    cases = []
    for text in TOKENIZER_TEXTS:
        ids = encode(tokenizer, text)
        cases.append({"text": text, "ids": ids, "decoded": decode(tokenizer, ids)})
    (args.out / "tokenizer_expected.json").write_text(json_lines(cases) + "\n")
    lossy = sum(c["text"] != c["decoded"] for c in cases)
    print(f"tokenizer: {len(cases)} texts, {lossy} of them with bytes that have no token")

    model = build_model(file)
    vocab_size = model.config.vocab_size
    prompts, values, offset, slices, smallest = [], [], 0, 0, float("inf")
    for name, text, count in PROMPTS:
        if count is not None:
            text = cut(tokenizer, text, count)
        ids = bos + encode(tokenizer, text)
        logits, greedy, gaps = run(model, ids)
        smallest = min(smallest, *gaps)
        entries = []
        for position in slice_positions(len(ids)):
            row = logits[position]
            top = torch.topk(row, 5)
            id_offset = (5 * slices) % ID_STRIDE  # 5 and 16 are coprime: all take turns
            values.append(row[id_offset:vocab_size:ID_STRIDE].numpy().astype("<f4"))
            entries.append(
                {
                    "position": position,
                    "id_offset": id_offset,
                    "id_stride": ID_STRIDE,
                    "offset": offset,
                    "count": len(values[-1]),
                    "top_ids": top.indices.tolist(),
                    "top_logits": [short(v) for v in top.values],
                }
            )
            offset += len(values[-1])
            slices += 1
        prompts.append(
            {
                "name": name,
                "text": text,
                "ids": ids,
                "logits": entries,
                "greedy_ids": greedy,
                "greedy_gaps": [short(g) for g in gaps],
                "greedy_text": decode(tokenizer, greedy),
            }
        )
        print(f"{name}: {len(ids)} tokens, smallest gap {min(gaps):.4g}")

    head = {
        "model_sha256": hashlib.sha256(args.model.read_bytes()).hexdigest(),
        "versions": {
            "python": platform.python_version(),
            **{p: version(p) for p in ("torch", "transformers", "tokenizers", "gguf", "numpy")},
        },
    }
    (args.out / "expected.json").write_text(
        json.dumps(head, indent=0)[:-2] + ',\n"prompts": ' + json_lines(prompts) + "\n}\n"
    )
    (args.out / "expected.f32").write_bytes(np.concatenate(values).tobytes())
    print(f"{slices} slices, smallest gap {smallest:.4g}")
    if smallest < MIN_GAP:
        sys.exit(f"a greedy gap is below {MIN_GAP}: choose another text for that prompt")


if __name__ == "__main__":
    main()
