# The decoders of oracle.sh with CLBlast's matrix products.
gemm=clblast
. "$(dirname "$0")/oracle.sh"
