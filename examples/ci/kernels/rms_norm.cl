/* y[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight. One work-group a row. */
kernel void rms_norm(int n, float eps, global const float *x, global const float *weight, global float *y)
{
    local float sums[64];
    const int row = get_group_id(0), me = get_local_id(0), all = get_local_size(0);
    float sum = 0;
    for (int i = me; i < n; i += all)
        sum += x[row * n + i] * x[row * n + i];
    sums[me] = sum;
    for (int half_size = all / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < half_size)
            sums[me] += sums[me + half_size];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float scale = rsqrt(sums[0] / n + eps);
    for (int i = me; i < n; i += all)
        y[row * n + i] = x[row * n + i] * scale * weight[i];
}
