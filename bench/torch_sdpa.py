#!/usr/bin/env python3
"""PyTorch's scaled_dot_product_attention on the shapes of bench_attention, on contiguous keys and values.

    python3 bench/torch_sdpa.py [THREADS]

Needs torch; not part of the tests. Prints medians.
"""

import sys
import time

import torch
import torch.nn.functional as F

HEADS, KV_HEADS, HEAD_SIZE = 32, 8, 128


def median_seconds(run, runs: int = 3) -> float:
    run()  # warms up
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[runs // 2]


def tensors(batch: int, queries: int, keys: int, dtype: torch.dtype):
    shapes = ((HEADS, queries), (KV_HEADS, keys), (KV_HEADS, keys))
    return [torch.randn(batch, heads, length, HEAD_SIZE, dtype=dtype) for heads, length in shapes]


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")
    for batch, keys in ((8, 8192), (1, 65536)):
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v = tensors(batch, 1, keys, dtype)
            seconds = median_seconds(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
            gigabytes = 2 * k.numel() * k.element_size() * 1e-9
            print(f"decode  {dtype} B={batch} S={keys:<6} {seconds * 1e3:8.2f} ms {gigabytes / seconds:7.2f} GB/s")
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = tensors(1, 2048, 2048, dtype)
        seconds = median_seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))
        flops = 4 * HEADS * HEAD_SIZE * 2048 * 2048 / 2
        print(f"prefill {dtype} S=2048 {seconds * 1e3:8.2f} ms {flops / seconds * 1e-9:7.2f} GFLOP/s")


if __name__ == "__main__":
    main()
