// mma.sync of bytes from OpenCL C: zeros times zeros, plus 42.
kernel void probe(global uint *out)
{
    const uint i = get_local_id(0);
    const uint a0 = out[i], a1 = out[i], b0 = out[i];
    int d0 = 42, d1 = 42, d2 = 42, d3 = 42;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3)
                 : "r"(a0), "r"(a1), "r"(b0));
    out[i] = (uint)(d0 + d1 + d2 + d3) / 4;
}
