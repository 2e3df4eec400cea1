#!/usr/bin/env python3
"""Writes what PyTorch says of the attention problems that the oracle is checked with.

    python3 tests/golden/make_oracle_expected.py > tests/data/oracle_expected.json

Needs torch (any version of the last years; 2.15 was used). Run by hand: the tests read the file. Inputs are
integers of a small generator over 2^15, so that C++ makes the same ones to the bit.
"""

import json
import math

import torch
import torch.nn.functional as F

CASES = [
    dict(name="causal"),
    dict(name="one_query", query_len=1),
    dict(name="whole_prompt", query_len=23),
    dict(name="not_causal", causal=False),
    dict(name="scale", scale=0.3),
    dict(name="group", num_heads=6, num_kv_heads=1),
    dict(name="value_size", head_size_v=4),
    dict(name="window", window=4),
    dict(name="window_one", window=1),
    dict(name="window_not_causal", window=4, causal=False),
    dict(name="chunk", chunk=8),
    dict(name="chunk_not_causal", chunk=8, causal=False),
    dict(name="soft_cap", soft_cap=2.0, scale=3.0),
    dict(name="alibi", alibi=True),
    dict(name="alibi_not_causal", alibi=True, causal=False),
    dict(name="sinks", sinks=True),
    dict(name="tree", tree=[1, 3, 5, 11, 17]),
    dict(name="tree_window_alibi", tree=[1, 3, 7, 11, 16], window=6, alibi=True),
    dict(name="all", window=9, chunk=16, soft_cap=4.0, alibi=True, sinks=True, scale=1.5),
]
DEFAULTS = dict(num_heads=4, num_kv_heads=2, head_size=8, head_size_v=8, query_len=5, seq_len=23, causal=True,
                window=0, chunk=0, soft_cap=0.0, alibi=False, sinks=False, tree=[])


def values(count: int, seed: int) -> torch.Tensor:
    state, out = seed, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        out.append(((state >> 8) % 2**16) / 2**15 - 1)
    return torch.tensor(out, dtype=torch.float64)


def mask_and_distance(c: dict) -> tuple[torch.Tensor, torch.Tensor]:
    context = c["seq_len"] - c["query_len"]
    position = list(range(c["seq_len"]))
    for t, bits in enumerate(c["tree"]):
        position[context + t] = context + bits.bit_count() - 1
    key = torch.tensor(position)
    query = key[context:]
    index = torch.arange(c["seq_len"])
    visible = torch.ones(c["query_len"], c["seq_len"], dtype=torch.bool)
    if c["tree"]:
        for i, bits in enumerate(c["tree"]):
            for u in range(c["query_len"]):
                visible[i, context + u] = bool(bits >> u & 1)
    elif c["causal"]:
        visible &= index[None, :] <= index[context:, None]
    distance = (query[:, None] - key[None, :]).abs()
    if c["window"]:
        visible &= distance < c["window"]
    if c["chunk"]:
        visible &= query[:, None] // c["chunk"] == key[None, :] // c["chunk"]
    return visible, distance.double()


def attend(c: dict) -> tuple[torch.Tensor, torch.Tensor]:
    heads, kv = c["num_heads"], c["num_kv_heads"]
    q = values(c["query_len"] * heads * c["head_size"], 1).view(c["query_len"], heads, -1).transpose(0, 1)
    k = values(c["seq_len"] * kv * c["head_size"], 2).view(c["seq_len"], kv, -1).transpose(0, 1)
    v = values(c["seq_len"] * kv * c["head_size_v"], 3).view(c["seq_len"], kv, -1).transpose(0, 1)
    k, v = k.repeat_interleave(heads // kv, 0), v.repeat_interleave(heads // kv, 0)
    visible, distance = mask_and_distance(c)
    scale = c.get("scale", 1 / math.sqrt(c["head_size"]))
    scores = q @ k.transpose(1, 2) * scale
    if c["soft_cap"]:
        scores = c["soft_cap"] * torch.tanh(scores / c["soft_cap"])
    bias = torch.zeros(heads, *visible.shape, dtype=torch.float64)
    if c["alibi"]:
        bias -= torch.tensor([2.0 ** -(h + 1) for h in range(heads)]).double()[:, None, None] * distance
    bias = bias.masked_fill(~visible, -math.inf)
    scores = scores + bias
    sinks = torch.tensor([h - 1.5 for h in range(heads)]).double()[:, None, None].expand(heads, c["query_len"], 1)
    full = torch.cat([scores, sinks], -1) if c["sinks"] else scores
    out = torch.softmax(full, -1)[..., : c["seq_len"]] @ v
    if not c["sinks"] and not c["soft_cap"]:  # what PyTorch's own attention can do
        own = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
        assert (own - out).abs().max() < 1e-12, c["name"]
    return out.transpose(0, 1), torch.logsumexp(full, -1).transpose(0, 1)


def main() -> None:
    results = []
    for case in CASES:
        c = DEFAULTS | case
        c.setdefault("scale", 1 / math.sqrt(c["head_size"]))
        out, lse = attend(c)
        results.append(c | dict(out=out.flatten().tolist(), lse=lse.flatten().tolist()))
    print(json.dumps(dict(torch=torch.__version__, cases=results)))


if __name__ == "__main__":
    main()
