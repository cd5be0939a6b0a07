"""Follows waves of a launch through its code, on one card."""

import asm_amd
import asm_intel
import asm_nvidia
import cards
import clock
import pipes
import wave_amd
import wave_intel
import wave_nvidia

parsed = {}


def lanes_of(target, figures):
    vendor = cards.vendor(target)
    if vendor == "nvidia":
        return 32
    if vendor == "amd":
        return 32 if target.startswith("gfx1") else 64
    return figures["x"] or 16


def code_of(kept, launch, lanes):
    """The kernel's instructions: none where its assembly does not have it. None where no assembly is kept."""
    key = (launch.program, launch.target, launch.kernel)
    if key not in parsed:
        text = kept.assembly(launch.program, launch.target)
        vendor = cards.vendor(launch.target)
        if text is None:
            parsed[key] = None
        elif vendor == "nvidia":
            parsed[key] = wave_nvidia.bind(asm_nvidia.parse(text, launch.kernel))
        elif vendor == "amd":
            parsed[key] = wave_amd.bind(asm_amd.parse(text, launch.kernel, lanes))
        else:
            parsed[key] = wave_intel.bind(asm_intel.parse(text, launch.kernel))
    return parsed[key]


def groups_of(launch):
    """Groups whose first waves are followed: one in the middle, or several where causal attention gives them different work."""
    n = launch.n_groups
    places = [n // 2]
    if launch.kernel.startswith("attention") and n > 8:
        places = sorted({int(n * ((0.31 + 0.618 * i) % 1.0)) for i in range(3)})
    gx, gy = launch.groups[0], launch.groups[1]
    return [(p % gx, p // gx % gy, p // (gx * gy)) for p in places]


def wave_of(code, launch, timer, lanes, group):
    vendor = cards.vendor(launch.target)
    if vendor == "nvidia":
        return wave_nvidia.Warp(code, launch, timer, group)
    if vendor == "amd":
        return wave_amd.AmdWave(code, launch, timer, lanes, group)
    return wave_intel.Thread(code, launch, timer, lanes, group)


def follow(kept, launch, card, reuse=None):
    """([(clock, wave)] of the followed waves, lanes, figures of the compilation). Raises Stop or LookupError."""
    figures = kept.figures(launch.program, launch.target, launch.kernel)
    if figures is None:
        raise LookupError("it does not compile")
    lanes = lanes_of(launch.target, figures)
    code = code_of(kept, launch, lanes)
    if code is None:
        raise LookupError("its assembly is not kept")
    if not code:
        raise LookupError("the assembly that is kept does not have it")
    out = []
    for group in groups_of(launch):
        timer = clock.Clock(launch, card, pipes.Costs(card, lanes), reuse)
        wave = wave_of(code, launch, timer, lanes, group)
        wave.execute()
        timer.finish()
        out.append((timer, wave))
    return out, lanes, figures
