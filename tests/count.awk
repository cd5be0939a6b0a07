# Counts single tests in CTest's log: cmocka's, and the lines `ok …` and `FAIL …` of scripts. A program that fails without a failed
# check counts as one failure; one that succeeds without a check counts as one pass. The exit code is 1 when anything failed.
function close_test() {
  if (!open) return
  if (result == "failed" && !bad) bad = 1
  if (result == "passed" && !good && !bad) good = 1
  if (result == "skipped" && !why) print "skipped: " name
  passed += good; failed += bad
  open = 0
}
/^[0-9]+\/[0-9]+ Testing: / { close_test(); open = 1; name = $3; good = bad = why = 0; result = "failed" }
# These may be anywhere in a line: cmocka writes them to stderr, which can end up inside a line of stdout.
match($0, /\[  PASSED  \] [0-9]+ test/) { good += substr($0, RSTART + 13) + 0 }
match($0, /\[  FAILED  \] [0-9]+ test/) { bad += substr($0, RSTART + 13) + 0 }
/^ok / { good++ }
/^FAIL / { bad++ }
match($0, /skipped: .+/) { why = 1; print "skipped: " name " (" substr($0, RSTART + 9) ")" }
/^Test Passed\./ { result = "passed" }
/^Test Failed\./ { result = "failed" }
/^Test (Skipped|Not Run)/ { result = "skipped" }
END {
  close_test()
  printf "%d passed, %d failed\n", passed, failed
  exit failed > 0
}
