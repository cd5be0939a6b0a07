# Kernels in a row as one launch (CLEF_DEBUG=fused=1: or an error) give what they give launch by launch, beyond the lengths at which arguments
# change, for each type of cache, in steps of several tokens, of several architectures, and beside other work.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
llama=${CLEF_SHARED:-}/data/stories260K/stories260K.gguf

# Whether both give the same text, and more than nothing: alike WHAT MODEL FLAGS..
alike() {
  local what=$1 model=$2 want
  shift 2
  want=$(CLEF_DEBUG=$CLEF_DEBUG,fused=0 "$CLEF" run -m "$model" -q --temp 0 --ignore-eos "$@")
  same "$what" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,fused=1 "$CLEF" run -m "$model" -q --temp 0 --ignore-eos "$@")"
  if [ -n "$want" ]; then ok "$what: a text"; else fail "$what: a text"; fi
}

for type in auto f32 q8_0; do alike "gpt2, cache in $type" "$demo" -p "Once upon a time" -n 150 --kv-type $type; done
alike "gpt2, a draw" "$demo" -p "Once upon" -n 60 --temp 0.9 -s 3
alike "gpt2 in steps of 2" "$demo" -p "Once upon a time there was" -n 20 -b 2
(while :; do :; done) &
busy=$!
alike "gpt2 beside other work" "$demo" -p "The cat" -n 100
kill $busy
[ -f "$llama" ] && alike "llama" "$llama" -p "Once upon a time" -n 200
check "a profile is of launches" sh -c "'$CLEF' bench '$demo' --prompt 0 --gen 4 --rounds 1 --profile 2>/dev/null | grep -q attention_cpu_decode"
finish
