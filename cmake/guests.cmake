# The guests: rooms that use the core, and that the core does not know (docs/ARCHITECTURE.md, "The house"). Each can be
# left out. CLEF_WITH_NAME is 1 or 0 in every source.
option(CLEF_CORE_ONLY "Leave all guests out: the library and the command run models, and do nothing else" OFF)
set(default ON)
if(CLEF_CORE_ONLY)
  set(default OFF)
endif()
option(CLEF_TEXT "Build text/: chat templates, constraints, tool calls; `clef chat` and `clef serve` need them" ${default})
option(CLEF_TRAIN "Build train/: gradients of graphs, optimisers, `clef train`" ${default})
option(CLEF_EXPORT "Build export/: ONNX, and pictures by Graphviz and cairo" ${default})
option(CLEF_LAB "With the tests, build lab/: what studies hardware that is not here" ${default})
foreach(guest TEXT TRAIN EXPORT)
  add_compile_definitions(CLEF_WITH_${guest}=$<BOOL:${CLEF_${guest}}>)
endforeach()
