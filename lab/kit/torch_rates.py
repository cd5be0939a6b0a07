"""What PyTorch reaches on the GPU: products at the shapes of an 8B model, attention, and copies. A line each, as it comes."""

import time

import torch

WIDTH, INNER, HEADS, SHARED, HEAD = 4096, 14336, 32, 8, 128


def seconds(run, n=20):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(n):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / n


def product(rows, width, out):
    x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(out, width, device="cuda", dtype=torch.bfloat16)
    s = seconds(lambda: x @ w.T)
    print(f"product {rows} x {width} x {out}: {1e6 * s:.1f} us, {2e-12 * rows * width * out / s:.1f} TFLOPS", flush=True)


def attention(tokens):
    q = torch.randn(1, HEADS, tokens, HEAD, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(1, HEADS, tokens, HEAD, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    s = seconds(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), 5)
    print(f"attention of {tokens}: {1e6 * s:.1f} us", flush=True)


def main():
    print(torch.__version__, torch.cuda.get_device_name(), flush=True)
    block = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    other = torch.empty_like(block)
    print(f"copy on the device: {2e-9 * block.numel() / seconds(lambda: other.copy_(block)):.1f} GB/s", flush=True)
    for rows in (1, 8, 512):
        for width, out in ((WIDTH, WIDTH), (WIDTH, 2 * INNER), (INNER, WIDTH)):
            product(rows, width, out)
    for tokens in (512, 4096, 32768):
        attention(tokens)


main()
