// cp.async and ldmatrix from OpenCL C. IS_LONG: a pointer to local memory is an operand of 64 bits ("l"), or
// of 32 ("r").
#if IS_LONG
#    define POINTER ulong
#    define OPERAND "l"
#else
#    define POINTER uint
#    define OPERAND "r"
#endif
kernel void probe(global uint *out)
{
    local uint tile[128] __attribute__((aligned(16)));
    const uint i = get_local_id(0);
    const POINTER at = (POINTER)(size_t)(tile + 4 * i);
    uint x;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" : : OPERAND(at), "l"((ulong)out) : "memory");
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" : : : "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : OPERAND(at) : "memory");
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    out[i] = x + 42; // the buffer was zeros
}
