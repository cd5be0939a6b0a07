"""Tests of lab/compare_report.py: which card and which model of the table a report belongs to, and what is printed beside a
measurement."""

import contextlib
import csv
import io
import json
import os
import sys
import tempfile
import unittest

LAB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [LAB, os.path.join(LAB, "speed")]
import check
import compare_report

LLAMA = {"n_layers": 32, "d_model": 4096, "n_vocab": 128256, "dtype": "q4_k", "name": "Meta-Llama-3-8B-Instruct.Q4_K_M.gguf"}
GPT2 = {"n_layers": 12, "d_model": 768, "n_vocab": 50257, "dtype": "f16", "name": "gpt2"}


def rows_of(names):
    return [{"card": name, "model": name} for name in names]


class Names(unittest.TestCase):
    CARDS = ("rtx4090", "a100", "h100", "v100", "rx7900", "rx6800", "mi210", "mi50", "a770", "tigerlake")

    def test_cards(self):
        for device, card in (
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("NVIDIA A100-SXM4-40GB", "a100"),
            ("Tesla V100-SXM2-32GB", "v100"),
            ("AMD Radeon RX 7900 XTX (radeonsi, navi31, LLVM 17.0.6)", "rx7900"),
            ("gfx90a:sramecc+:xnack-", "mi210"),
            ("gfx1100", "rx7900"),
            ("Intel(R) Arc(TM) A770 Graphics", "a770"),
            ("NVIDIA RTX A1000", None),
            ("NVIDIA A100X", None),
            ("NVIDIA GeForce RTX 4090D", None),
            ("cpu-haswell-AMD EPYC 7B13", None),
        ):
            self.assertEqual(compare_report.find_card(rows_of(self.CARDS), device, None), card, device)

    def test_marks_of_a_name_are_no_words(self):
        self.assertEqual(compare_report.find_card(rows_of(("Intel(R)",)), "Intel(R) UHD Graphics", None), "Intel(R)")

    def test_models_by_what_they_are(self):
        rows = rows_of(("llama-3-8b", "llama-3-8b-q8_0", "gpt2"))
        for model, found in (
            (LLAMA, "llama-3-8b"),
            (dict(LLAMA, dtype="q8_0"), "llama-3-8b-q8_0"),
            (dict(LLAMA, dtype="q6_k"), None),
            (dict(LLAMA, name="a model"), "llama-3-8b"),
            (GPT2, "gpt2"),
            (dict(GPT2, n_layers=48, d_model=1600, name="gpt2-xl"), None),
            ({"name": "gpt2"}, None),  # a report that does not say what it is
        ):
            self.assertEqual(compare_report.find_model(rows, model, None), found, model)

    def test_models_that_are_no_steps_by_their_names(self):
        rows = rows_of(("tiny", "demo", "demo-2"))
        for name, found in (("demo", "demo"), ("my-demo-2.gguf", "demo-2"), ("demonstration", None)):
            self.assertEqual(compare_report.find_model(rows, dict(GPT2, name=name), None), found, name)


class Written(unittest.TestCase):
    """A table that check.py writes, of a step with 16 equal launches of 50 µs and another of 200."""

    ROW = {"card": "rtx4090", "step": "gpt2/decode-0", "node": "n", "kernel": "k", "constants": "", "rule": "memory", "share": "80"}
    ROWS = [dict(ROW, us="50", count="16"), dict(ROW, node="m", us="200", count="1")]

    def compared(self, n_units=128, change=lambda rows: rows):
        launch = {"kernel": "k", "node": "n", "op": "o", "variant": "", "step": "decode 1 after 0", "groups": [1, 1, 1]}
        launch.update(local=[64, 1, 1], count=16, us=100.0, least_us=10.0)
        rate = {"what": "decode", "tokens": 8, "depth": 0, "best_tok_s": 500.0, "predicted_tok_s": 1000.0}
        report = {"format": compare_report.FORMAT, "clef": "1", "failure": ""}
        report["device"] = {"name": "NVIDIA GeForce RTX 4090", "driver": "1", "capabilities": {"n_units": n_units}}
        report["models"] = [dict(GPT2, arch="gpt2", launches=[launch], rates=[rate])]
        with tempfile.TemporaryDirectory() as folder:
            path, table = os.path.join(folder, "report.json"), os.path.join(folder, "table.csv")
            with open(path, "w") as file:
                json.dump(report, file)
            check.write(self.ROWS, table)
            rows = change(check.read_csv(table))
            with open(table, "w", newline="") as file:
                writer = csv.DictWriter(file, rows[0].keys(), extrasaction="ignore")
                writer.writeheader()
                writer.writerows(rows)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                compare_report.compare(path, table, None, None)
        return out.getvalue().splitlines()

    def test_a_launch_stands_beside_the_time_of_one(self):
        line = next(x for x in self.compared() if x.startswith("  decode 1 after 0"))
        self.assertEqual(line.split()[-4:], ["50.00", "50", "%", "memory"])

    def test_a_step_has_the_cost_of_its_launches(self):
        lines = self.compared()
        self.assertTrue(any("the table says" in x for x in lines))
        # 1000 µs of kernels, and 17 launches of 5 µs
        self.assertIn(f"{1e6 / 1085:.2f}", next(x for x in lines if x.endswith("tok/s")).split())

    def test_without_the_number_of_launches_it_says_that_they_are_left_out(self):
        lines = self.compared(change=lambda rows: [{k: v for k, v in r.items() if k != "count"} for r in rows])
        self.assertTrue(any("kernels alone" in x for x in lines))
        self.assertIn("1000.00", next(x for x in lines if x.endswith("tok/s")).split())

    def test_another_number_of_compute_units_is_said(self):
        self.assertFalse(any("compute units" in x for x in self.compared()))
        self.assertTrue(any("the device has 76" in x for x in self.compared(76)))


class Words(unittest.TestCase):
    def test_an_unknown_option_is_refused(self):
        with self.assertRaises(compare_report.Wrong) as wrong:
            compare_report.main(["--tabel", "x"])
        for option in ("--tabel", "--table", "--as", "--model"):
            self.assertIn(option, str(wrong.exception))

    def test_help(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            compare_report.main(["--help"])
        self.assertIn("usage: ", out.getvalue())


if __name__ == "__main__":
    unittest.main()
