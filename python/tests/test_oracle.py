"""Every family beside PyTorch's answers, and beside the command's ids."""
import json

import numpy as np
import pytest

import clef_cl as clef

from conftest import FAMILIES, ORACLE, run_command

TOLERANCE = 1e-4
TAPS = ("attention_0", "hidden_last", "encoder_last", "cross_attention_0")


def expected_of(family):
    return clef.files.load_file(ORACLE / family / "expected.safetensors")


def relative_error(got, wanted, keep):
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    assert a.shape == b.shape
    return np.abs(a - b)[keep].max() / np.abs(b)[keep].max()


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_pytorchs(family, device):
    expected = expected_of(family)
    ids, target = expected["input_ids"], expected.get("decoder_input_ids")
    mask = expected.get("attention_mask", np.ones_like(ids))
    taps = [name for name in TAPS if name in expected]
    with clef.Model(ORACLE / family, device=device, exact=True) as model:
        got = model.evaluate(ids, target=target, attention_mask=mask, taps=taps)
    for name in ("logits", *taps):
        wanted = expected[name]
        if target is not None and name in ("logits", "cross_attention_0"):
            keep = np.ones(wanted.shape, bool)
        elif name == "attention_0":
            keep = np.broadcast_to(mask[:, None, :, None] != 0, wanted.shape)
        else:
            keep = np.broadcast_to(mask[..., None] != 0, wanted.shape)
        assert relative_error(got[name], wanted, keep) <= TOLERANCE, name


@pytest.mark.parametrize("family", FAMILIES)
def test_last_logits_are_pytorchs(family, device):
    expected = expected_of(family)
    mask = expected.get("attention_mask", np.ones_like(expected["input_ids"]))
    if "decoder_input_ids" in expected or not mask[0].all():
        pytest.skip("no decoder with a row without padding")
    ids, wanted = expected["input_ids"][0], expected["logits"][0]
    with clef.Model(ORACLE / family, device=device, exact=True) as model:
        if model.is_encoder:
            pytest.skip("an encoder")
        for n in (1, len(ids)):
            error = np.abs(model.logits(ids[:n]) - wanted[n - 1]).max() / np.abs(wanted).max()
            assert error <= TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_the_commands(family, device):
    expected = expected_of(family)
    if "greedy_ids" not in expected:
        pytest.skip("it generates nothing")
    is_pair = "decoder_input_ids" in expected
    prompt = [int(i) for i in (expected["input_ids"][0] if is_pair else expected["greedy_ids"][0][:16])]
    options = [[], ["--seed", "11", "--temp", "0.9", "--top-k", "50", "--top-p", "0.9"]]
    given = [{"temperature": 0}, {"seed": 11, "temperature": 0.9, "top_k": 50, "top_p": 0.9}]
    with clef.Model(ORACLE / family, device=device) as model:
        for flags, sampling in zip(options, given):
            wanted = run_command("run", ORACLE / family, "--ids", ",".join(map(str, prompt)), "-n", 16, "--ignore-eos",
                                 "--print-ids", "-q", *(flags or ["--temp", "0"]))
            got = model.generate_ids(prompt, max_tokens=16, ignore_eos=True, **sampling)
            assert got.tolist() == json.loads(f"[{wanted}]"), flags
