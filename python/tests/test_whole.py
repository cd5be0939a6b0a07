"""The package reaches the whole of the C API."""
import re
from pathlib import Path

import pytest

from conftest import ROOT

import clef_cl as clef

# Functions that Python does not need, and why.
EXCEPTIONS = {
    "clef_shape_1": "shapes are tuples", "clef_shape_2": "shapes are tuples", "clef_shape_3": "shapes are tuples",
    "clef_shape_4": "shapes are tuples",
    "clef_constraint_cache_create": "a Constraint is an object that the caller keeps",
    "clef_constraint_cache_destroy": "as above", "clef_constraint_cache_put": "as above",
    "clef_constraint_cache_take": "as above", "clef_constraint_cache_give": "as above",
    "clef_lora_set_count": "a Model has one adapter or none",
    "clef_lora_set_release": "sessions give memory back by themselves; a Plan may read a weight again",
    "clef_model_release": "as above",
    "clef_model_path": "Model.path",
    "clef_ranks_own": "Ranks.rank",
    "clef_ranks_compare": "training on several ranks is done by the command", "clef_ranks_sum": "as above",
    "clef_model_trainer_n_at_once": "as above",
    "clef_plan_device": "Plan.device",
    "clef_ranks_before_end": "a function that runs while the process ends needs the interpreter, which may wait itself",
    "clef_plan_input_bytes": "arrays know their sizes",
    "clef_plan_read_start": "a read of two halves needs memory that stays in place between calls",
    "clef_plan_read_wait": "as above",
    "clef_batch_pause": "a Batch has one caller, who has nobody to give the turn to", "clef_batch_resume": "as above",
    "clef_tool_format_has_tag": "answers are read whole, with the tags of calls",
    "clef_model_generation": "`clef info` prints what generation_config.json asks for", "clef_model_unread": "as above",
    "clef_model_left_out": "as above",
    "clef_model_padding": "`clef eval` looks for padding in its inputs",
    "clef_stop_reset": "each text has stop strings of its own",
}


def functions():
    found = set()
    for header in (ROOT / "include" / "clef").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        found |= set(re.findall(r"CLEF_API[^;{]*?\b(clef_\w+)\s*\(", text))
    return found


@pytest.mark.skipif(not (ROOT / "include").is_dir(), reason="no headers beside the tests")
def test_every_function_is_reached():
    source = "".join(path.read_text() for path in Path(clef.__file__).parent.glob("*.py"))
    reached = set(re.findall(r"\b_?lib\.(clef_\w+)", source))
    known = functions()
    assert len(known) > 300
    assert known - reached - EXCEPTIONS.keys() == set(), "not reached by Python"
    assert EXCEPTIONS.keys() & reached == set(), "reached, and listed as an exception"
    assert EXCEPTIONS.keys() - known == set(), "an exception that is not a function"


# Ops that the library makes itself, and why nobody else does.
MADE_BY_THE_LIBRARY = {
    "pack": "plans pack weights", "panel_matmul": "as above", "panel_experts": "as above",
    "expert_gated": "plans make them of what follows expert_matmul", "expert_sum": "as above",
    "reduce": "sum(), mean() and max()", "sum_axes": "sum() with axes",
    "all_reduce": "only Graph.of_rank() knows which ranks take part", "all_gather": "as above", "send": "as above",
    "receive": "as above",
}


def test_every_op_has_a_method():
    made_by_the_library = {name for name in clef.ops() if name.endswith("_grad")} | MADE_BY_THE_LIBRARY.keys()
    assert MADE_BY_THE_LIBRARY.keys() - clef.ops().keys() == set(), "no op"
    assert [name for name in clef.ops() if name not in made_by_the_library and not hasattr(clef.Graph, name)] == []


def test_help_names_every_export():
    for name in clef.__all__:
        thing = getattr(clef, name)
        assert thing.__doc__, f"{name} has no documentation"
