#!/usr/bin/env python3
"""Writes cl/grids.h: the codebooks of GGUF's IQ formats, from the tables of the PyPI package gguf. usage: scripts/grids.py > cl/grids.h"""
import gguf.quants as quants

HEAD = """\
/* The codebooks of GGUF's IQ formats, written by scripts/grids.py. An entry holds 8 numbers of 2 bits, or
 * (IQ3) 4 of 4 bits, the lowest bits first; cl/blocks.h says what the numbers mean. Host and kernels share
 * them. */
#ifndef CLEF_CL_GRIDS_H
#define CLEF_CL_GRIDS_H
"""
FORMATS = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"]
USERS = {"IQ1_S": ["IQ1_S", "IQ1_M"]}

print(HEAD)
for name in FORMATS:
    packed = bytes.fromhex(getattr(quants, name).grid_hex.decode())
    entries = [packed[i] | packed[i + 1] << 8 for i in range(0, len(packed), 2)]
    print("#if " + " || ".join(f"USES_BLOCKS(DTYPE_{user})" for user in USERS.get(name, [name])))
    print(f"BLOCK_TABLE(u16) {name.lower()}_grid[{len(entries)}] = {{")
    for i in range(0, len(entries), 12):
        print("    " + ", ".join(f"0x{e:04x}" for e in entries[i : i + 12]) + ",")
    print(f"}};\n#else\n#  define {name.lower()}_grid NO_TABLE\n#endif\n")
print("#endif")
