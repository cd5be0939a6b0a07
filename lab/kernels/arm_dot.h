/* What Arm's compilers declare for cl_arm_integer_dot_product_accumulate_int8: clang has no such built-in,
 * and checks the kernels' syntax with this. */
int __attribute__((overloadable)) arm_dot_acc(char4 a, char4 b, int c);
