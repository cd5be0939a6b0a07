# The HTML pages in a headless Chromium: they open fast, ask for nothing, say nothing on the console, and do what is clicked.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../browser.sh"
[ -n "$browser" ] || skip "no chromium here"

# in_page NAME PAGE: runs the script of stdin in the page and prints what it hands to say(); any error, console line or request is a failure.
in_page() {
  local page=$tmp/in_page.html
  {
    sed 's|</body>.*||; s|</html>.*||' "$2"
    cat <<'END'
<pre id="said"></pre>
<script>
const said = [];
const say = x => said.push(String(x));
const click = e => e.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const key = (e, k) => e.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true }));
const named = () => [...document.querySelectorAll("input, select, button, [tabindex]")].every(e =>
  e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label"));
const node = text => [...document.querySelectorAll(".node")].find(n => n.textContent.includes(text));
say("opened");
try {
END
    cat
    cat <<'END'
} catch (e) { say("error: " + e.message); }
say("requests " + performance.getEntriesByType("resource").filter(r => !r.name.startsWith("data:")).length);
document.getElementById("said").textContent = said.join("|");
</script></body></html>
END
  } >"$page"
  opened "$page" >"$tmp/dom"
  if grep -q "CONSOLE" "$tmp/console"; then fail "$1: the console is empty"; grep "CONSOLE" "$tmp/console" | head -3; else ok "$1: the console is empty"; fi
  said=$(sed -n 's/.*<pre id="said">//; t p; b; :p; s|</pre>.*||; p' "$tmp/dom" | sed 's/&gt;/>/g; s/&lt;/</g; s/&amp;/\&/g')
}

# ---- the graph --------------------------------------------------------------------------------------------------------------------------
check "graph page" "$CLEF" graph --format html --profile --symbols T=4,S=64 -o "$tmp/graph.html"
in_page "graph page" "$tmp/graph.html" <<'END'
say(layers.length);
click($("fold"));
say(document.querySelectorAll(".node.layer").length);
const folded = document.querySelectorAll(".node").length;
node("layer 0").dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
say(document.querySelectorAll(".node").length > folded + 5);
say(document.querySelectorAll(".boxname").length);
click(document.querySelector(".boxname"));
say(document.querySelectorAll(".node").length === folded);
click($("unfold"));
say(document.querySelectorAll(".node.layer").length);
$("search").value = "cached_attention";
$("search").dispatchEvent(new Event("input"));
say(document.querySelectorAll(".node.hit").length === layers.length);
click(document.querySelector("#hits button"));
const side = $("side").textContent;
for (const word of ["is", "type", "formula", "attention", "cost", "device time", "launches", "groups"]) if (!side.includes(word)) say("no " + word);
click(node("logits"));
say(/weights/.test($("side").textContent) || /pack/.test($("side").textContent));
for (const how of ["time", "flops", "bytes"]) {
  $("overlay").value = how;
  $("overlay").dispatchEvent(new Event("change"));
  say(new Set([...document.querySelectorAll(".node.coloured rect")].map(r => r.style.fill)).size > 3);
}
const before = $("view").getAttribute("transform");
$("canvas").dispatchEvent(new WheelEvent("wheel", { deltaY: -300, clientX: 300, clientY: 300, cancelable: true }));
say($("view").getAttribute("transform") !== before);
// Without a mouse: along the edges, into a layer and out of it, to what a box has.
click($("fold"));
const at = () => document.activeElement;
node("layer 0").focus();
key(at(), "ArrowDown");
say(at() === node("layer 1") && document.querySelectorAll('.node[tabindex="0"]').length === 1);
key(at(), " ");
say(document.querySelectorAll(".node").length > folded + 5 && at().matches(".node"));
key(at(), " ");
key(at(), "Enter");
say(at() === node("layer 1") && $("side").textContent.includes("unfold"));
const shown = $("view").getAttribute("transform");
key($("canvas"), "+");
say($("view").getAttribute("transform") !== shown && named());
// Paths between two values; choosing lays nothing out anew.
const boxes = [...document.querySelectorAll(".node")];
choose(byName.get("input_ids"));
click($("start"));
choose(byName.get("logits"));
say([...document.querySelectorAll(".node.path")].filter(n => n.matches(".layer")).length === layers.length && boxes.every(n => n.isConnected));
say(/paths from input_ids/.test($("side").textContent) && !onPath.has(byName.get("pos")));
// Two fingers zoom.
const finger = (type, pointerId, clientX) => $("canvas").dispatchEvent(new PointerEvent(type, { bubbles: true, pointerId, clientX, clientY: 300, buttons: 1 }));
const scale = pan.state().k;
finger("pointerdown", 1, 300);
finger("pointerdown", 2, 400);
finger("pointermove", 2, 450);
say(Math.abs(pan.state().k / scale - 1.5) < 0.01);
END
layers=$("$CLEF" graph --format dot | grep -c cluster)
same "graph page: fold, search, click, overlay, zoom, keys" \
  "opened|$layers|$layers|true|1|true|0|true|true|true|true|true|true|true|true|true|true|true|true|true|requests 0" "$said"
usable "graph page" "$tmp/graph.html" 'open.add("layer0"); $("search").value = "add"; search("add"); choose(items[9].key); overlay = "flops"; draw(true);'

# A graph that trains: its weights' states and gradients fold into the layers that use them, and what follows the loss is a layer of its own.
check "page of a training graph" "$CLEF" graph --train --format html -o "$tmp/train.html"
in_page "page of a training graph" "$tmp/train.html" <<'END'
click($("fold"));
const folded = [...document.querySelectorAll(".node.layer")];
say(folded.length === layers.length && folded.filter(n => n.textContent.includes("backward")).length);
say(document.querySelectorAll(".node").length < 80);
say(values.filter(v => v.drawn && /layer\d/.test(v.name) && !v.layer).map(v => v.name).slice(0, 5).join());
END
same "page of a training graph: folded by layer, forward and backward" "opened|$layers|true||requests 0" "$said"

"$CLEF" graph diff @drop @fuse >"$tmp/diff.txt"
"$CLEF" graph diff @drop @fuse -o "$tmp/diff.html"
same "a page of a difference: its exit code" 1 $?
in_page "page of a difference" "$tmp/diff.html" <<'END'
const of = mark => values.filter(v => v.mark === mark).length;
say(`# ${of("removed")} removed, ${of("added")} added, ${of("changed")} changed`);
say($("side").textContent.startsWith(of("removed") + " removed") && !$("changes").hidden && node("layer 0").textContent.includes("removed"));
click([...document.querySelectorAll("#side button")].find(b => b.textContent === "layer0.attn.qkv"));
say(/waslayer0.attn.qkv = add/.test($("side").textContent) && document.querySelectorAll(".node.removed").length > 5);
search("removed");
say(hits.size === of("removed") && named());
END
same "page of a difference: counts, list, lines, search" "opened|$(tail -n 1 "$tmp/diff.txt")|true|true|true|requests 0" "$said"
usable "page of a difference" "$tmp/diff.html" 'open.add("layer0"); draw(true);'

# ---- attention --------------------------------------------------------------------------------------------------------------------------
check "attention page" "$CLEF" attention -p "Once upon a time </script>" -q -o "$tmp/attention.html"
in_page "attention page" "$tmp/attention.html" <<'END'
const maps = [...document.querySelectorAll("#grid canvas")];
say(maps.length === data.maps.reduce((n, m) => n + m.heads.length, 0));
const T = data.tokens.length;
say(data.tokens.join("").includes("<" + "/script>"));
say(document.querySelectorAll("#map rect.masked").length === T * (T - 1) / 2);
click(maps[maps.length - 1]);
const last = data.maps[data.maps.length - 1], head = last.heads[last.heads.length - 1];
say($("facts").textContent.includes(`layer ${last.layer}, head ${head.head}`));
const cell = document.querySelector('#map rect[data-at="1,0"]');
cell.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 200, clientY: 200 }));
say($("tip").textContent.includes(head.weights[1][0].toPrecision(4)));
document.querySelector('#map rect[data-at="0,1"]').dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
say($("tip").textContent.includes("masked"));
const small = document.querySelectorAll("#grid canvas");
small[0].focus();
key(small[0], "ArrowRight");
key(small[1], "Enter");
say(document.activeElement === small[1] && small[1].classList.contains("chosen") && named());
END
same "attention page: maps, masks, enlarge, hover, keys" "opened|true|true|true|true|true|true|true|requests 0" "$said"
usable "attention page" "$tmp/attention.html"

check "attention page of a picture" "$CLEF" attention "$CLEF_SOURCE/tests/fixtures/tiny-vit" --image "$CLEF_SOURCE/tests/fixtures/pictures/harsh.ppm" \
  -q -o "$tmp/attention.html"
in_page "attention page of a picture" "$tmp/attention.html" <<'END'
const maps = [...document.querySelectorAll("#grid canvas")], look_of = () => $("over").toDataURL();
say(maps.length === data.maps.reduce((n, m) => n + m.heads.length, 0));
say(Math.abs(shown.list.reduce((a, b) => a + b) + head.numbers[0] / 65534 - 1) < 1e-3);
const r = $("over").getBoundingClientRect(), middle = { bubbles: true, clientX: r.left + r.width / 2, clientY: r.top + r.height / 2 };
const before = look_of();
$("over").dispatchEvent(new MouseEvent("click", middle));
say(query === special + 4 && $("facts").textContent.includes("patch 1,1") && look_of() !== before);
$("over").dispatchEvent(new PointerEvent("pointermove", middle));
say($("tip").textContent === "patch 1,1: " + shown.list[4].toPrecision(3));
$("over").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
say(data.tokens[query]);
$("over").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", shiftKey: true }));
say($("tip").textContent === "patch 0,1: " + shown.list[1].toPrecision(3));
click(maps[0]);
say(map === data.maps[0] && head === map.heads[0] && $("layer").value === "0");
END
same "attention page of a picture: maps, weights, click, hover, keys, another head" "opened|true|true|true|true|patch 1,0|true|true|requests 0" "$said"
usable "attention page of a picture" "$tmp/attention.html"

# ---- logits -----------------------------------------------------------------------------------------------------------------------------
check "logits page" "$CLEF" logits -p "Once upon a time" --top 7 -q -o "$tmp/logits.html"
in_page "logits page" "$tmp/logits.html" <<'END'
const spans = [...document.querySelectorAll("#text span")];
say(spans.length === data.tokens.length);
say(new Set(spans.map(s => s.style.background)).size > 1);
click(spans[spans.length - 1]);
say(document.querySelectorAll("#side tr").length);
say($("side").textContent.includes("rank " + data.tokens[spans.length - 1].rank));
spans[1].dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
say($("tip").textContent.includes("bits"));
spans[1].focus();
key(spans[1], "End");
key(spans[spans.length - 1], "Enter");
say(spans[spans.length - 1].classList.contains("chosen") && named());
END
same "logits page: colours, click, hover, keys" "opened|true|true|7|true|true|true|requests 0" "$said"
usable "logits page" "$tmp/logits.html"

# ---- NaN --------------------------------------------------------------------------------------------------------------------------------
nan_model "$tmp/nan"
check "attention page with NaN" "$CLEF" attention "$tmp/nan" -p "Once upon a time there was" -q -o "$tmp/nan.html"
in_page "attention page with NaN" "$tmp/nan.html" <<'END'
const fill = at => document.querySelector(`#map rect[data-at="${at}"]`).style.fill;
say(fill("3,0") === "rgb(214, 39, 40)" && fill("1,0") !== fill("3,0"));
document.querySelector('#map rect[data-at="3,0"]').dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
say($("tip").textContent.includes("NaN") && $("facts").textContent.includes("NaN"));
END
same "attention page with NaN: its colour, hover, means" "opened|true|true|requests 0" "$said"
check "logits page with NaN" "$CLEF" logits "$tmp/nan" -p "Once upon a time there was" -q -o "$tmp/nan.html"
in_page "logits page with NaN" "$tmp/nan.html" <<'END'
const spans = [...document.querySelectorAll("#text span")];
say(spans.length === data.tokens.length && $("about").textContent.includes("perplexity NaN"));
click(spans[5]);
say($("side").textContent.includes("probability NaN") && spans[5].style.background === "rgb(243, 166, 240)");
spans[5].dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
say($("tip").textContent.includes("NaN bits"));
END
same "logits page with NaN: its colour, click, hover" "opened|true|true|true|requests 0" "$said"

# ---- memory -----------------------------------------------------------------------------------------------------------------------------
check "plan page" "$CLEF" plan -c 64 -o "$tmp/plan.html"
in_page "plan page" "$tmp/plan.html" <<'END'
const part = data.parts[0], boxes = [...document.querySelectorAll("svg rect.t")];
say(boxes.length === part.arena.length);
boxes[0].dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
say($("tip").textContent.includes(part.arena[0].name));
say(document.body.textContent.includes(bytes(part.arena_bytes)));
END
same "plan page: boxes, hover" "opened|true|true|true|requests 0" "$said"
usable "plan page" "$tmp/plan.html"

# ---- time -------------------------------------------------------------------------------------------------------------------------------
check "trace page" "$CLEF" run -p "Once upon a time" -n 4 -q --trace "$tmp/trace.html"
in_page "trace page" "$tmp/trace.html" <<'END'
say(steps.length === $("step").options.length && steps.length === 4);
say(document.querySelectorAll("rect.e").length > 10 && document.querySelectorAll("#canvas path").length === part(steps[0]).length);
say($("about").textContent.includes("busy"));
$("step").value = "2";
$("step").dispatchEvent(new Event("change"));
say(from === steps[2].ts);
const was = scale;
$("canvas").dispatchEvent(new WheelEvent("wheel", { deltaY: -300, clientX: 300, clientY: 150, cancelable: true }));
say(scale > was);
const closer = scale;
click($("out"));
say(scale < closer);
document.querySelector("rect.e").dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
say($("tip").textContent.includes(" us"));
END
same "trace page: steps, joins, zoom, hover" "opened|true|true|true|true|true|true|true|requests 0" "$said"
usable "trace page" "$tmp/trace.html"

# ---- the server's page ------------------------------------------------------------------------------------------------------------------
sed 's|<script>|<script>fetch = () => Promise.reject();|' "$CLEF_SOURCE/tools/pages/chat.html" >"$tmp/chat.html"
in_page "chat page" "$tmp/chat.html" <<'END'
const text = addTurn("assistant", "").querySelector(".text");
for (const token of ["a", "b", "c"]) addToken(text, { token, logprob: -1, top: [{ token, logprob: -1 }] });
say(document.querySelectorAll('.token[tabindex="0"]').length);
text.firstElementChild.focus();
key(document.activeElement, "ArrowRight");
say(document.activeElement.textContent + document.querySelectorAll('.token[tabindex="0"]').length);
END
same "chat page: one stop for all tokens, arrows" "opened|1|b1|requests 0" "$said"
usable "chat page" "$tmp/chat.html" 'at("gear").click(); addTurn("user", "Who?"); const turn = addTurn("assistant", ""), me = { token: "I", logprob: -1 };
  addToken(turn.querySelector(".text"), { ...me, top: [me] }); takeReasoning({ turn, text: turn.lastChild }, "Hm."); addError(turn, "stopped");'

# ---- 32 layers -------------------------------------------------------------------------------------------------------------------------
{
  echo "symbol T <= 64"
  echo "input x f32 [T, 64]"
  last=x
  for l in $(seq 0 31); do
    echo "weight layer$l.w f32 [64, 64]"
    for k in 0 1 2 3 4 5 6; do
      echo "layer$l.m$k = matmul($last, layer$l.w) transpose_b=1"
      echo "layer$l.g$k = gelu(layer$l.m$k)"
      echo "layer$l.a$k = add(layer$l.g$k, $last)"
      last=layer$l.a$k
    done
  done
  echo "output y = $last"
} >"$tmp/deep.clef"
check "graph page of 32 layers" "$CLEF" graph "$tmp/deep.clef" --after build --format html -o "$tmp/deep.html"
in_page "graph page of 32 layers" "$tmp/deep.html" <<'END'
say(document.querySelectorAll(".node.layer").length);
click($("unfold"));
say(document.querySelectorAll(".node").length > 600);
END
same "graph page of 32 layers: folded, unfolded" "opened|32|true|requests 0" "$said"
# A hundred thousand nodes without layers: a page shows parts of them, and unfolds as many as it can.
awk 'BEGIN { print "symbol T <= 64\ninput x f32 [T, 64]"; last = "x"
  for (i = 0; i < 100000; i++) { print "a" i " = gelu(" last ")"; last = "a" i }
  print "output y = " last }' >"$tmp/long.clef"
check "graph page of 100,000 nodes" "$CLEF" graph "$tmp/long.clef" --after build --format html -o "$tmp/long.html"
in_page "graph page of 100,000 nodes" "$tmp/long.html" <<'END'
say(values.length > 100000);
say(document.querySelectorAll(".node").length < 300);
click($("unfold"));
const n = document.querySelectorAll(".node").length;
say(n > 1000 && n < 4000 && /of 200 layers/.test($("side").textContent));
END
same "graph page of 100,000 nodes: folded, unfolded in part" "opened|true|true|true|requests 0" "$said"
if ! "$CLEF" graph --format svg 2>&1 | grep -q "without Graphviz"; then
  for format in svg png; do
    check "32 layers as $format" within 5 "$CLEF" graph "$tmp/deep.clef" --after build --format $format --expand 3 -o "$tmp/deep.$format"
  done
  same "the layers are in the svg" 31 "$(grep -c '<text.*>layer [0-9]*<' "$tmp/deep.svg")"
  same "a png" "PNG" "$(head -c 4 "$tmp/deep.png" | tail -c 3)"
fi
finish
