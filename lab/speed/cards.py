"""The cards of cards.toml and the steps of steps.toml.

As a program, `cards.py [--brief|--steps] TARGET...` prints what list_launches reads: the cards of these targets, models and steps. In
brief: the models that are marked so, and no layers. With --steps: no layers."""

import os
import sys
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
NEEDED = {
    "name": str,
    "target": str,
    "units_reported": int,
    "units": int,
    "simds": int,
    "ghz": float,
    "memory_gbs": (int, float),
    "cache_gbs": (int, float),
    "cache_mb": (int, float),
    "fma": int,
    "latency_ns": list,
    "launch_us": float,
    "sources": list,
}


def load(name):
    path = os.path.join(HERE, name)
    with open(path, "rb") as file:
        return tomllib.load(file)


def cards():
    """By their short name; each has all fields of NEEDED, and its own name as `key`."""
    found = load("cards.toml")
    for key, card in found.items():
        for field, kind in NEEDED.items():
            if not isinstance(card.get(field), kind):
                sys.exit(f"cards.toml: {key}: expected {field}, got {card.get(field)!r}")
        if not card["sources"]:
            sys.exit(f"cards.toml: {key}: expected a source")
        card["key"] = key
    return found


def vendor(target):
    return "nvidia" if target.startswith("sm_") else "amd" if target.startswith("gfx") else "intel"


def wishes(targets, brief=False, steps=False):
    lines = [f"card {c['key']} {c['target']} {c['units_reported']}" for c in cards().values() if c["target"] in targets]
    if brief or steps:
        lines.append("no layers")
    for name, model in load("steps.toml").items():
        if brief and not model.get("brief"):
            continue
        lines.append(f"model {name} lab/kernels/shapes/{model['shape']}.json {model['dtype']} {model['context']}")
        for step, s in model["steps"].items():
            lines.append(f"step {step} {s.get('tokens', 1)} {s.get('depth', 0)} {s.get('sequences', 1)}")
    return lines


if __name__ == "__main__":
    named = sys.argv[1:]
    targets = [t for t in named if not t.startswith("--")]
    print("\n".join(wishes(targets, "--brief" in named, "--steps" in named)))
