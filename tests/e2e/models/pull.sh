# clef pull: models from a Hub that the test runs itself, with everything that may go wrong on the way; the cache is huggingface_hub's.
. "$(dirname "$0")/../lib.sh"
"$CLEF" pull a/b 2>&1 </dev/null | grep -q "built without libcurl" && skip "built without libcurl"
command -v python3 >/dev/null || skip "no python3"
export CLEF_TUNE=0 CLEF_PROOF=0 HUB_PYTHON
HUB_PYTHON=$(oracle transformers 2>/dev/null) || HUB_PYTHON=
python3 "$(dirname "$0")/pull.py" "$tmp"
