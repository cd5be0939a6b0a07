"""Tests of lab/speed on small pieces of machine code whose rounds, addresses and costs are known."""

import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "speed"))
import asm_amd
import asm_intel
import asm_nvidia
import asm_processor
import bounds
import cards
import check
import clock
import correlation
import document
import follow
import gemm
import launches
import machine
import pipes
import predict
import report
import wave_amd
import wave_intel
import wave_nvidia

CARDS = cards.cards()


def launch_of(card, args, buffers, groups=(4, 1, 1), local=(64, 1, 1), kernel="k"):
    text = ["c", "m/s", "0000", kernel, "op", "-", "1", *map(str, groups), *map(str, local), "0", "0", "node", "7", args or "-", *buffers]
    launch = launches.Launch(" ".join(text))
    launch.target = CARDS[card]["target"]
    return launch


def clock_of(launch, card, lanes):
    return clock.Clock(launch, CARDS[card], pipes.Costs(CARDS[card], lanes))


SASS = """
.text.k:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   IMAD.MOV.U32 R4, RZ, RZ, RZ ;
        /*0020*/                   IMAD.WIDE.U32 R2, R0, {step}, c[0x0][0x168] ;
.L_x_0:
        /*0030*/                   LDG.E R5, [R2.64] ;
        /*0040*/                   IADD3 R4, R4, 0x1, RZ ;
        /*0050*/                   IADD3 R2, P1, R2, 0x1000, RZ ;
        /*0060*/                   IMAD.X R3, RZ, RZ, R3, P1 ;
        /*0070*/                   FFMA R6, R5, R5, R6 ;
        /*0080*/                   ISETP.NE.U32.AND P0, PT, R4, c[0x0][0x160], PT ;
        /*0090*/               @P0 BRA `(.L_x_0) ;
        /*00a0*/                   EXIT ;
"""


class Sass(unittest.TestCase):
    def follow(self, step, rounds):
        launch = launch_of("rtx4090", struct.pack("<I", rounds).hex(), ["w1000000"])
        code = wave_nvidia.bind(asm_nvidia.parse(SASS.replace("{step}", hex(step)), "k"))
        timer = clock_of(launch, "rtx4090", 32)
        warp = wave_nvidia.Warp(code, launch, timer)
        warp.execute()
        timer.finish()
        return warp, timer

    def test_rounds_are_counted_also_when_they_are_skipped(self):
        for rounds in (1, 2, 3, 7, 1000):
            warp, timer = self.follow(4, rounds)
            self.assertEqual(timer.kinds["load"], rounds)
            self.assertEqual(timer.work["fma"], rounds)
            self.assertEqual(sum(warp.rounds.values()), rounds - 1)
            self.assertEqual(warp.unknown, 0)

    def test_lines_of_a_load_follow_from_the_stride(self):
        for step, lines in ((4, 1), (8, 2), (128, 32)):
            _, timer = self.follow(step, 5)
            self.assertEqual(timer.n_lines["lines"] / timer.n_lines["loads"], lines)

    def test_time_grows_with_the_rounds(self):
        _, ten = self.follow(4, 10)
        _, twenty = self.follow(4, 20)
        self.assertAlmostEqual(twenty.length() / ten.length(), 2, delta=0.15)

    def test_division_by_an_argument(self):
        text = """
.text.k:
        /*0000*/                   I2F.U32.RP R0, c[0x0][0x160] ;
        /*0010*/                   MUFU.RCP R0, R0 ;
        /*0020*/                   IADD3 R2, R0, 0xffffffe, RZ ;
        /*0030*/                   F2I.FTZ.U32.TRUNC.NTZ R3, R2 ;
        /*0040*/                   IMAD.MOV.U32 R2, RZ, RZ, RZ ;
        /*0050*/                   IADD3 R5, RZ, -R3, RZ ;
        /*0060*/                   IMAD R5, R5, c[0x0][0x160], RZ ;
        /*0070*/                   IMAD.HI.U32 R3, R3, R5, R2 ;
        /*0080*/                   IMAD.HI.U32 R7, R3, c[0x0][0x164], RZ ;
        /*0090*/                   EXIT ;
"""
        launch = launch_of("rtx4090", struct.pack("<2I", 7, 100).hex(), [])
        warp = wave_nvidia.Warp(wave_nvidia.bind(asm_nvidia.parse(text, "k")), launch, clock_of(launch, "rtx4090", 32))
        warp.execute()
        self.assertIn(warp.state["R7"], (13, 14))  # one less at most, which compilers correct

    def test_lanes_that_leave_a_loop_wait_for_the_others(self):
        text = """
.text.k:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   IMAD.MOV.U32 R1, RZ, RZ, RZ ;
.L_x_0:
        /*0020*/                   IADD3 R1, R1, 0x1, RZ ;
        /*0030*/                   ISETP.LE.U32.AND P0, PT, R1, R0, PT ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
        /*0050*/                   EXIT ;
"""
        launch = launch_of("rtx4090", "", [])
        warp = wave_nvidia.Warp(wave_nvidia.bind(asm_nvidia.parse(text, "k")), launch, clock_of(launch, "rtx4090", 32))
        warp.execute()
        self.assertEqual(warp.state["R1"], list(range(1, 33)))

    def test_conflicts_of_local_memory(self):
        text = """
.text.k:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   IMAD.SHL.U32 R1, R0, {step}, RZ ;
        /*0020*/                   LDS R2, [R1] ;
        /*0030*/                   EXIT ;
"""
        for step, cycles in ((4, 1), (8, 2), (128, 32), (0, 1)):
            launch = launch_of("rtx4090", "", [])
            timer = clock_of(launch, "rtx4090", 32)
            wave_nvidia.Warp(wave_nvidia.bind(asm_nvidia.parse(text.replace("{step}", hex(step)), "k")), launch, timer).execute()
            timer.finish()
            self.assertEqual(timer.phases[0][2]["local"], cycles)


AMD = """
k:
	s_load_dword s6, s[4:5], 0x0
	s_load_dwordx2 s[8:9], s[4:5], 0x8
	v_lshlrev_b32_e32 v1, 2, v0
	s_mov_b32 s7, 0
	s_waitcnt lgkmcnt(0)
.LBB0_1:
	global_load_dword v2, v1, s[8:9] offset:4
	v_add_u32_e32 v1, 0x1000, v1
	s_add_i32 s7, s7, 1
	s_waitcnt vmcnt(0)
	v_fma_f32 v3, v2, v2, v3
	s_cmp_lg_u32 s7, s6
	s_cbranch_scc1 .LBB0_1
	s_endpgm
.Lfunc_end0:
"""


class Amd(unittest.TestCase):
    def test_a_loop(self):
        for rounds in (1, 4, 300):
            launch = launch_of("mi210", struct.pack("<I", rounds).hex(), ["w1000000"])
            code = wave_amd.bind(asm_amd.parse(AMD, "k", 64))
            timer = clock_of(launch, "mi210", 64)
            wave = wave_amd.AmdWave(code, launch, timer, 64)
            wave.execute()
            self.assertEqual(timer.kinds["load"], rounds)
            self.assertEqual(timer.requested[0], rounds * 256)

    def test_masked_lanes_load_nothing(self):
        text = """
k:
	s_load_dwordx2 s[8:9], s[4:5], 0x0
	v_cmp_gt_u32_e32 vcc, 16, v0
	v_lshlrev_b32_e32 v1, 2, v0
	s_and_saveexec_b64 s[10:11], vcc
	s_cbranch_execz .LBB0_2
	global_load_dword v2, v1, s[8:9]
.LBB0_2:
	s_endpgm
.Lfunc_end0:
"""
        launch = launch_of("mi210", "", ["w1000000"])
        timer = clock_of(launch, "mi210", 64)
        wave_amd.AmdWave(wave_amd.bind(asm_amd.parse(text, "k", 64)), launch, timer, 64).execute()
        self.assertEqual(timer.requested[0], 16 * 4)


INTEL = """
//ze               - name:            k
//ze                   inline_data_payload_size: 32
//ze                 payload_arguments:
//ze                   - arg_type:        arg_byvalue
//ze                     offset:          0
//ze                     size:            4
//ze                     arg_index:       0
//ze                     source_offset:   0
//ze                 binding_table_indices:
//ze                   - bti_value:       0
//ze                     arg_index:       1
//.kernel k
(W)     mov (8|M0)               r10.0<1>:w    0x76543210:v
        shl (8|M0)               r12.0<1>:d    r10.0<8;8,1>:w    2:w
        mov (1|M0)               r14.0<1>:d    0:w
_0_001:
        send.dc1 (8|M0)          r16      r12      null:0  0x0            0x02105E00           {A@1,$0} // wr:1+0, rd:1; untyped surface read with x // $1
        add (8|M0)               r12.0<1>:d    r12.0<8;8,1>:d    256:w
        add (1|M0)               r14.0<1>:d    r14.0<0;1,0>:d    1:w
        cmp (8|M0)    (lt)f0.0   null<1>:d     r14.0<0;1,0>:d    r1.0<0;1,0>:d
(f0.0)  goto.b (8|M0)                        _0_002            _0_001
_0_002:
        join (8|M0)                          L100
L100:
(W)     send.gtwy (8|M0)         null     r127    null:0  0x0            0x02000010           {EOT,A@1} // wr:1+0, rd:0; end of thread // $9
"""


class Intel(unittest.TestCase):
    def test_a_loop(self):
        for rounds in (1, 3, 200):
            launch = launch_of("a770", struct.pack("<I", rounds).hex(), ["w1000000"])
            code = wave_intel.bind(asm_intel.parse(INTEL, "k"))
            timer = clock_of(launch, "a770", 8)
            thread = wave_intel.Thread(code, launch, timer, 8)
            thread.execute()
            self.assertEqual(timer.kinds["load"], rounds)
            self.assertEqual(timer.requested[0], rounds * 32)

    def test_channels_of_an_if_and_of_a_while(self):
        text = """
//.kernel k
(W)     mov (8|M0)               r10.0<1>:w    0x76543210:v
        mov (8|M0)               r11.0<1>:d    0:w
        cmp (8|M0)    (lt)f0.0   null<1>:d     r10.0<8;8,1>:w    4:w
(f0.0)  if (8|M0)                            _0_002            _0_003
        mov (8|M0)               r11.0<1>:d    100:w
        else (8|M0)                          _0_003            _0_003
_0_002:
        mov (8|M0)               r11.0<1>:d    200:w
_0_003:
        endif (8|M0)                         L1
L1:
        mov (8|M0)               r12.0<1>:d    0:w
_0_004:
        add (8|M0)               r12.0<1>:d    r12.0<8;8,1>:d    1:w
        cmp (8|M0)    (lt)f0.0   null<1>:d     r12.0<8;8,1>:d    r10.0<8;8,1>:w
(f0.0)  while (8|M0)                         _0_004
(W)     send.ts (8|M0)           null     r127    null    0x0            0x02000010           {EOT,@1} // wr:1+0, rd:0; end of thread // $9
"""
        launch = launch_of("tigerlake", "", [], local=(8, 1, 1))
        thread = wave_intel.Thread(wave_intel.bind(asm_intel.parse(text, "k")), launch, clock_of(launch, "tigerlake", 8), 8)
        thread.execute()
        self.assertEqual([thread.state[88 + i] for i in range(8)], [100] * 4 + [200] * 4)
        self.assertEqual([thread.state[96 + i] for i in range(8)], [1, 1, 2, 3, 4, 5, 6, 7])

    def test_bits_of_three_operands(self):
        for op, expected in (("(s0|s1)&s2", 2), ("(s0|s1)^s2", 5), ("(s0|s1)^(s2&s1)", 5), ("s0|s1&s2", 7)):
            text = f"""
//.kernel k
(W)     mov (1|M0)               r10.0<1>:d    5:w
(W)     mov (1|M0)               r11.0<1>:d    2:w
(W)     bfn.({op}) (1|M0)        r12.0<1>:ud   r10.0<0;0>:ud     r11.0<0;0>:ud     r11.0<0>:ud
(W)     send.ts (8|M0)           null     r127    null    0x0            0x02000010           {{EOT,@1}} // wr:1+0, rd:0; end of thread // $9
"""
            launch = launch_of("a770", "", [], local=(8, 1, 1))
            thread = wave_intel.Thread(wave_intel.bind(asm_intel.parse(text, "k")), launch, clock_of(launch, "a770", 8), 8)
            thread.execute()
            self.assertEqual(thread.state[96], expected, op)


class Machine(unittest.TestCase):
    def test_rounds_until_a_compare_changes(self):
        self.assertEqual(machine.until_change(1, 2, 3, 10, 10, 10), 7)  # 3 .. 10
        self.assertEqual(machine.until_change(9, 6, 3, 0, 0, 0), 1)
        self.assertIsNone(machine.until_change(1, 2, 3, 0, 0, 0))  # they part
        self.assertEqual(machine.until_change(1, 2, 4, 10, 10, 10), 0)  # not even
        self.assertIsNone(machine.until_change(None, 2, 3, 9, 9, 9))

    def test_a_loop_whose_end_depends_on_data_is_left(self):
        text = SASS.replace("{step}", "0x4").replace("c[0x0][0x160]", "R5")
        launch = launch_of("rtx4090", struct.pack("<I", 9).hex(), ["w1000000"])
        warp = wave_nvidia.Warp(wave_nvidia.bind(asm_nvidia.parse(text, "k")), launch, clock_of(launch, "rtx4090", 32))
        warp.execute()
        self.assertGreater(warp.unknown, 0)


class Bounds(unittest.TestCase):
    FIGURES = {"registers": 32, "spilled": 0, "stack": 0, "local": 0, "x": 0}

    def predict(self, n_bytes, groups, rounds, step="0x4", card=CARDS["rtx4090"]):
        launch = launch_of("rtx4090", struct.pack("<I", rounds).hex(), [f"w{n_bytes}"], groups=(groups, 1, 1), local=(256, 1, 1))
        timer = clock_of(launch, "rtx4090", 32)
        warp = wave_nvidia.Warp(wave_nvidia.bind(asm_nvidia.parse(SASS.replace("{step}", step), "k")), launch, timer)
        warp.execute()
        timer.finish()
        return bounds.predict(launch, card, [(timer, warp)], 32, self.FIGURES)

    def test_much_streaming_is_ruled_by_memory(self):
        rounds, groups = 8, 20000
        p = self.predict(groups * 256 * 4 * rounds, groups, rounds)
        self.assertEqual(p.rule, "memory")
        self.assertGreater(p.share, 0.6)
        self.assertLess(p.share, 0.93)

    def test_the_second_cache_rules_also_where_the_first_is_the_busiest_pipe(self):
        p = self.predict(2 << 30, 20000, 8, "0x80", dict(CARDS["rtx4090"], cache_gbs=100))
        self.assertEqual((p.pipe_name, p.rule), ("cache", "cache"))
        self.assertGreater(p.cache, p.pipe)

    def test_one_group_is_ruled_by_latency(self):
        p = self.predict(1 << 20, 1, 50)
        self.assertEqual(p.rule, "latency")
        self.assertLess(p.share, 0.1)

    def test_registers_and_local_memory_limit_what_is_resident(self):
        launch = launch_of("rtx4090", "", [], local=(256, 1, 1))
        few = bounds.resident_groups(CARDS["rtx4090"], dict(self.FIGURES, registers=255), launch, 8)
        local = bounds.resident_groups(CARDS["rtx4090"], dict(self.FIGURES, local=48 << 10), launch, 8)
        many = bounds.resident_groups(CARDS["rtx4090"], self.FIGURES, launch, 8)
        self.assertEqual((few, local, many), (1, 2, 6))


    def test_every_card_has_the_schedulers_of_its_targets_limits(self):
        schedulers = {}
        with open(os.path.join(cards.HERE, "..", "compile", "occupancy.txt")) as file:
            for line in file:
                if not line.startswith("#"):
                    schedulers[line.split()[0]] = int(line.split()[2])
        for key, card in CARDS.items():
            self.assertIn(card["target"], bounds.LIMITS, key)
            self.assertEqual(card["simds"], schedulers[card["target"]], key)


class Gate(unittest.TestCase):
    ROW = {
        "card": "rtx4090",
        "step": "m/decode",
        "node": "n",
        "kernel": "k",
        "constants": "WG=64",
        "share": "80",
        "rule": "memory",
        "us": "10",
        "count": "2",
    }

    def table(self, share, us):
        return [
            {
                "card": "rtx4090",
                "step": "m/decode",
                "node": "n",
                "kernel": "k",
                "constants": "",
                "share": share,
                "rule": "memory",
                "us": us,
            },
            {"card": "rtx4090", "step": "m/decode", "node": "", "kernel": "", "constants": "", "share": "", "rule": "", "us": us},
        ]

    def test_equal_passes(self):
        self.assertEqual(check.compare([self.ROW], self.table("80", "20"), []), (2, []))

    def test_a_share_that_fell_by_more_than_five_points_fails(self):
        self.assertEqual(len(check.compare([self.ROW], self.table("86", "20"), [])[1]), 1)
        self.assertEqual(check.compare([self.ROW], self.table("84", "20"), [])[1], [])
        self.assertEqual(check.compare([self.ROW], self.table("86", "20"), [("k", ["rtx4090"])])[1], [])
        self.assertEqual(len(check.compare([self.ROW], self.table("86", "20"), [("k", ["a100"])])[1]), 1)

    def test_a_slower_step_fails(self):
        self.assertEqual(len(check.compare([self.ROW], self.table("80", "18"), [])[1]), 1)

    def test_only_what_was_predicted_is_counted_and_a_step_that_is_missing_fails(self):
        table = self.table("80", "20") + [dict(t, step="m/prefill") for t in self.table("80", "20")]
        self.assertEqual(check.compare([self.ROW], table, []), (2, []))
        self.assertEqual(check.compare([self.ROW], table, [], {("a100", "m/prefill")}), (2, []))
        n, failures = check.compare([self.ROW], table, [], {("rtx4090", "m/decode"), ("rtx4090", "m/prefill")})
        self.assertEqual((n, len(failures)), (3, 1))
        self.assertIn("m/prefill", failures[0])

    def test_the_table_has_the_time_of_one_launch(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.csv")
            check.write([self.ROW, dict(self.ROW, us="40", count="1")], path)
            step, kernel = check.read_csv(path)
        self.assertEqual((step["us"], step["count"]), ("60.0", "3"))
        self.assertEqual((kernel["us"], kernel["count"]), ("20.00", "3"))

    def test_wishes(self):
        wished = cards.wishes(["sm_89"], brief=True)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "wishes")
            with open(path, "w") as file:
                file.write("\n".join(wished) + "\n")
            found = check.read_wishes(path)
        self.assertIn(("rtx4090", "gpt2/decode-960"), found)
        self.assertNotIn(("rtx4090", "llama-2-7b/decode-0"), found)


class Failures(unittest.TestCase):
    """What cannot be followed is named, with the reason."""

    class Kept:
        def __init__(self, assembly):
            self.text = assembly

        def figures(self, *_):
            return Bounds.FIGURES

        def assembly(self, *_):
            return self.text

    def reason(self, assembly, card="rtx4090"):
        launch = launch_of(card, struct.pack("<I", 3).hex(), ["w1000000"])
        launch.card = card
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "0000.cl"), "w") as file:
                file.write("// options: -D WG=64\n")
            predict.state.update(kept=self.Kept(assembly), cards=CARDS, folder=folder)
            done, failed = predict.work([launch])
        self.assertEqual((len(done), len(failed)), (0, 1) if failed else (1, 0))
        return failed[0] if failed else None

    def test_none(self):
        self.assertIsNone(self.reason(SASS.replace("{step}", "0x4")))

    def test_no_assembly_and_none_of_the_kernel(self):
        self.assertEqual(self.reason(None), "rtx4090: k WG=64 in m/s: its assembly is not kept")
        self.assertIn("does not have it", self.reason(SASS.replace(".text.k:", ".text.other:")))

    def test_code_that_the_reader_does_not_expect(self):
        self.assertIsNone(self.reason(INTEL, "a770"))
        self.assertRegex(self.reason(INTEL.replace("(lt)f0.0", "(xx)f0.0"), "a770"), "^a770: k WG=64 in m/s: TypeError: ")


class Validation(unittest.TestCase):
    def test_rank_correlation(self):
        self.assertAlmostEqual(correlation.spearman([1, 2, 3, 4], [10, 20, 30, 40]), 1)
        self.assertAlmostEqual(correlation.spearman([1, 2, 3, 4], [4, 3, 2, 1]), -1)
        self.assertAlmostEqual(correlation.spearman([1, 2, 3], [5, 5, 5]), 0)
        self.assertEqual(correlation.ranks([7, 3, 7]), [2.5, 1, 2.5])

    def test_pairs_count_where_predictions_differ(self):
        self.assertEqual(correlation.pairs_in_order([1, 2, 3], [1.0, 1.1, 3.0], 1.2), (2, 2))
        self.assertEqual(correlation.pairs_in_order([3, 2, 1], [1.0, 1.1, 3.0], 1.2), (0, 2))

    def test_a_table_goes_between_its_marks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.md")
            for text, fails in (("a\n<b>\nold\n<e>\nz\n", False), ("a\n<e>\n<b>\n", True), ("a\n", True)):
                with open(path, "w") as file:
                    file.write(text)
                if fails:
                    with self.assertRaises(SystemExit):
                        document.write_between(path, "<b>", "<e>", ["new"])
                else:
                    document.write_between(path, "<b>", "<e>", ["new"])
                    with open(path) as file:
                        self.assertEqual(file.read(), "a\n<b>\n\nnew\n\n<e>\nz\n")

    def test_sets_of_parameters_fill_the_matrices(self):
        """Tiles divide the matrices, and groups divide the tiles, as CLBlast's kernel wants it."""
        for card, entry, variants in gemm.measured():
            self.assertTrue(entry["source"])
            self.assertGreater(len(variants), 20)
            for v in variants:
                s = v.set
                self.assertEqual(entry["size"] % s["MWG"] + entry["size"] % s["NWG"], 0)
                self.assertEqual(s["MWG"] % (s["MDIMC"] * s["VWM"]) + s["NWG"] % (s["NDIMC"] * s["VWN"]), 0)
                self.assertEqual(s["MWG"] % (s["MDIMA"] * s["VWM"]) + s["NWG"] % (s["NDIMB"] * s["VWN"]), 0)
                self.assertGreater(v.ms, 7.0)  # what the card's f32 units take

    def test_a_line_of_another_length_is_refused(self):
        with self.assertRaises(SystemExit):
            gemm.Variant("0", ["MWG", "NWG"], "64 1.5", "x")

    def test_every_published_card_has_a_base_and_a_source(self):
        for kind in ("clpeak", "llama"):
            for p in cards.load("published.toml")[kind]:
                self.assertIn(p.get("base") or p["card"], CARDS)
                self.assertTrue(p["source"])


OBJDUMP = """
    1000:       xor    %eax,%eax
    1002:       vpxor  %xmm0,%xmm0,%xmm0
    1006:       mov    (%rdi,%rax,1),%ecx
    100a:       vpdpbusd (%rsi),%zmm1,%zmm2
    1010:       vpdpbusd %ymm3,%ymm1,%ymm2
    1016:       vfmadd231ps (%rdx){1to16},%zmm4,%zmm5
    101c:       inc    %rax
    1020:       jne    100a <k+0xa>
    1022:       cmp    %rax,%r8
    1025:       jne    1006 <k+0x6>
    1027:       ret
"""


class Processor(unittest.TestCase):
    def loops(self):
        found = (asm_processor.LINE.match(line) for line in OBJDUMP.splitlines())
        return asm_processor.innermost([(int(m[1], 16), m[2]) for m in found if m])

    def test_the_inner_loop_is_found_and_its_products_are_counted(self):
        loops = self.loops()
        self.assertEqual(len(loops), 1)
        self.assertEqual(len(loops[0].body), 5)
        self.assertEqual(loops[0].products, 64 + 32)  # of bytes; the multiply-add of floats scales their sums

    def test_products_of_an_instruction(self):
        for text, products in (
            ("vfmadd231ps %ymm1,%ymm2,%ymm3", (8, False)),
            ("vfnmadd213ps %zmm1,%zmm2,%zmm3", (16, False)),
            ("vdpbf16ps %zmm1,%zmm2,%zmm3", (32, True)),
            ("vfmadd231ss %xmm1,%xmm2,%xmm3", (0, False)),
            ("vaddps %zmm1,%zmm2,%zmm3", (0, False)),
            ("add %rax,%rbx", (0, False)),
        ):
            self.assertEqual(asm_processor.products_of(text), products)


class Steps(unittest.TestCase):
    def test_shapes_are_there_and_have_layers(self):
        for model in cards.load("steps.toml").values():
            self.assertGreater(report.layers_of(model), 0)


if __name__ == "__main__":
    unittest.main()
