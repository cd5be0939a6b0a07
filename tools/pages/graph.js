// The graph: values as boxes, layers folded or as boxes of their nodes; laid out in rows by the longest path from the inputs.
const values = data.graph.values, BACKWARD = ", backward";
// Two graphs in one: the later, with what it lost. Lines of the difference begin with + added, - removed, < before and > after.
const changes = (data.difference || "").split("\n").filter(l => /^[-+<>]/.test(l)), marks = new Map(), lost = new Map(), was = new Map();
changes.forEach((line, i) => {
  const m = /^(.) (?!(?:symbol|output) (?!=))(?:(?:input|weight|state|const) (?!=))?("(?:[^"\\]|\\.)*"|\S+)/.exec(line);
  if (!m) return;
  const name = m[2][0] === '"' ? JSON.parse(m[2]) : m[2];
  if (m[1] === "-") lost.set(name, name);
  else if (m[1] !== "<") marks.set(name, m[1] === "+" ? "added" : "changed");
  if (m[1] === ">") was.set(name, changes[i - 1].slice(2));
});
values.forEach(v => { v.mark = marks.get(v.name) || ""; if (lost.has(v.name)) lost.set(v.name, v.name + " (before)"); });
const kept = new Set(values.map(v => v.name)), before = n => lost.get(n) || (kept.has(n) ? n : null);
for (const v of data.before ? data.before.values : [])
  if (lost.has(v.name)) values.push({ ...v, name: before(v.name), inputs: v.inputs && v.inputs.map(before), mark: "removed" });
const byName = new Map(values.map((v, i) => [v.name, i]));
const users = values.map(() => []), launches = new Map();
values.forEach((v, i) => {
  v.i = i;
  const m = /^(?:encoder\.|decoder\.)?layer\d+(?=\.)/.exec(v.name);
  v.layer = m ? m[0] : "";
  v.prefix = v.layer ? v.layer.length + 1 : 0;
  v.drawn = v.kind !== "weight" && v.kind !== "const";
  v.us = 0;
  (v.inputs || []).forEach(n => { if (n !== null) users[byName.get(n)].push(i); });
});
for (const l of data.launches || []) {
  if (!launches.has(l.node)) launches.set(l.node, []);
  launches.get(l.node).push(l);
  if (byName.has(l.node)) values[byName.get(l.node)].us += l.us;
}
// In a graph that trains, what belongs to a weight belongs to the layer that uses it first. A layer's nodes after the loss are a layer of
// their own: folded with those before it, the layer would use what uses it.
if (byName.has("loss.grad")) {
  const lossAt = byName.get("loss");
  const first = w => w === undefined || values[w].kind !== "state" || !users[w].length ? "" : values[users[w][0]].layer.replace(BACKWARD, "");
  for (const v of values) {
    const name = v.op === "accumulate" ? v.inputs[0] : v.name;
    if (!v.layer && v.drawn) v.layer = first(byName.get(name.replace(/^gradients\/|\.grad$/g, "")));
    if (v.layer && v.i > lossAt) v.layer += BACKWARD;
  }
}
// What has more nodes than a page can show at once folds in parts, as if they were layers.
const MANY = 1500, SHOWN = 3000;
const sizes = new Map();
values.forEach(v => { if (v.drawn) sizes.set(v.layer, (sizes.get(v.layer) || 0) + 1); });
const counted = new Map();
for (const v of values) {
  const n = sizes.get(v.layer), whole = v.layer;
  if (!(n > MANY) || !v.drawn || !v.op) continue;
  const size = Math.max(200, Math.ceil(n / 200)), i = counted.get(whole) || 0, first = i - i % size;
  counted.set(whole, i + 1);
  v.layer = `${whole ? whole + ", " : ""}nodes ${first + 1} to ${first + size}`;
}
const layers = [...new Set(values.filter(v => v.layer).map(v => v.layer))];
const title = layer => layer.replace(/\./, " ").replace("layer", "layer ");
const overlays = { none: ["none", () => 0, () => ""], flops: ["operations", v => v.flops || 0, x => short(x, "flop")],
  bytes: ["bytes moved", v => v.bytes || 0, bytes] };
if (data.launches) overlays.time = ["device time", v => v.us, x => x.toFixed(1) + " us"];
for (const k in overlays) $("overlay").append(el("option", { value: k }, overlays[k][0]));
const open = new Set(layers.length > 1 || values.length > 150 ? [] : layers);
let chosen = null, hits = new Set(), items = [], rows = [], edges = [], place = new Map(), overlay = "none";
let start = null, onPath = new Set(); // where paths begin, and what lies on those to the chosen value
const svg = $("canvas"), view = $("view"), pan = panZoom(svg, view);

// What stands for a value now: its own box, or its layer's.
const itemOf = v => v.layer && !open.has(v.layer) ? v.layer : v.i;

function collect() {
  items = [];
  place = new Map();
  for (const v of values) {
    if (!v.drawn) continue;
    const key = itemOf(v);
    if (!place.has(key)) {
      const it = { key, of: [], from: new Set(), to: new Set(), row: 0, x: 0, y: 0, w: 0, h: 0 };
      place.set(key, it);
      items.push(it);
    }
    place.get(key).of.push(v);
  }
  for (const it of items)
    for (const v of it.of)
      for (const n of v.inputs || []) {
        const u = n === null ? null : values[byName.get(n)];
        const s = u && u.drawn ? place.get(itemOf(u)) : null;
        if (s && s !== it) { it.from.add(s); s.to.add(it); }
      }
  for (const o of data.graph.outputs) {
    const s = place.get(itemOf(values[byName.get(o.value)]));
    if (!s || typeof s.key === "string") continue; // of a weight, which is not drawn, or within a folded layer
    const it = { key: "out " + o.name, output: o, of: [], from: new Set([s]), to: new Set(), row: 0 };
    s.to.add(it);
    items.push(it);
    place.set(it.key, it);
  }
}

function labels(it) {
  if (it.output) return [it.output.name, "output"];
  const v = it.of[0];
  if (typeof it.key === "string") {
    const nodes = it.of.filter(u => u.op).length, n = m => it.of.filter(u => u.mark === m).length;
    const differs = ["added", "removed", "changed"].filter(n).map(m => n(m) + " " + m).join(", ");
    return [title(v.layer), nodes + " nodes", differs].filter(Boolean);
  }
  const name = v.name.slice(v.prefix);
  return [v.op || v.kind, name, v.dtype + " [" + v.shape.join(", ") + "]", v.mark].filter(Boolean);
}

// Rows: the longest path from what has no input; leaves go down to just above their first user. Columns: by the middle of the neighbours.
function layout() {
  const visit = it => { // state 1: under way; a folded layer may be part of a ring, which is cut there
    it.state = 1;
    for (const s of it.from) {
      if (!s.state) visit(s);
      if (s.state === 2) it.row = Math.max(it.row, s.row + 1);
    }
    it.state = 2;
  };
  items.forEach(it => { if (!it.state) visit(it); });
  for (const it of items)
    if (!it.from.size && it.to.size) it.row = Math.max(0, Math.min(...[...it.to].map(t => t.row)) - 1);
  rows = [];
  for (const it of items) {
    it.text = labels(it);
    it.w = Math.max(70, 6.3 * Math.max(...it.text.map(t => t.length)) + 16);
    it.h = 10 + 14 * it.text.length;
    (rows[it.row] = rows[it.row] || []).push(it);
  }
  let y = 0;
  for (const row of rows) {
    if (!row) continue;
    row.forEach((it, i) => { it.x = i; it.y = y; });
    y += Math.max(...row.map(it => it.h)) + 26;
  }
  // What many use pulls at nobody but its first users.
  const middle = (s, at) => {
    let n = 0, sum = 0;
    for (const it of s) { const near = 1 / (Math.abs(it.row - at.row) ** 2 || 1); n += near; sum += near * it.x; }
    return n ? sum / n : at.x;
  };
  const spread = row => {
    let x = 0;
    row.forEach(it => { it.want = it.want === null ? it.x : it.want; });
    row.sort((a, b) => a.want - b.want);
    row.forEach(it => { it.x = x + it.w / 2; x += it.w + 18; });
    const shift = row.reduce((s, it) => s + it.want - it.x, 0) / row.length; // keeps the row about its neighbours
    row.forEach(it => { it.x += shift; });
  };
  for (const row of rows) if (row) { row.forEach(it => { it.want = it.from.size ? middle(it.from, it) : 0; }); spread(row); }
  for (let sweep = 0; sweep < 2; sweep++) {
    for (let r = rows.length - 2; r >= 0; r--) if (rows[r]) { rows[r].forEach(it => { it.want = it.to.size ? middle(it.to, it) : it.x; }); spread(rows[r]); }
    for (const row of rows) if (row) { row.forEach(it => { it.want = it.from.size ? middle(it.from, it) : it.x; }); spread(row); }
  }
  const left = Math.min(...items.map(it => it.x - it.w / 2));
  items.forEach(it => { it.x -= left; });
  return { w: Math.max(...items.map(it => it.x + it.w / 2)), h: y };
}

// A curve; where boxes are in the way it goes past them: on the left from inputs, else on the right.
function route(s, it) {
  const y0 = s.y + s.h, y1 = it.y, bend = Math.max(12, Math.abs(y1 - y0) / 2);
  const between = rows.slice(s.row + 1, it.row).flat().filter(Boolean);
  const hit = between.some(o => Math.abs(s.x + (it.x - s.x) * (o.y + o.h / 2 - y0) / (y1 - y0) - o.x) < o.w / 2 + 4);
  if (!hit) return `M${s.x},${y0}C${s.x},${y0 + bend} ${it.x},${y1 - bend} ${it.x},${y1}`;
  const left = s.of.length && !s.from.size;
  const near = between.filter(o => Math.abs(o.x - (s.x + it.x) / 2) < 400), of = near.length ? near : between;
  const lane = left ? Math.min(...of.map(o => o.x - o.w / 2)) - 16 : Math.max(...of.map(o => o.x + o.w / 2)) + 16;
  return `M${s.x},${y0}C${s.x},${y0 + 24} ${lane},${y0 + 4} ${lane},${y0 + 40}L${lane},${y1 - 40}C${lane},${y1 - 4} ${it.x},${y1 - 24} ${it.x},${y1}`;
}

const cost = it => it.of.reduce((s, v) => s + overlays[overlay][1](v), 0);

function drawItem(it) {
  const v = it.of[0], g = el("g", { class: "node", transform: `translate(${it.x - it.w / 2},${it.y})` });
  const folded = typeof it.key === "string" && !it.output;
  if (it.output) g.classList.add("output");
  else if (folded) g.classList.add("layer");
  else g.classList.add(v.op ? (/matmul|attention/.test(v.op) ? "matmul" : /^(reshape|permute|slice)$/.test(v.op) ? "view" : "op") : v.kind);
  g.dataset.key = it.key;
  const r = el("rect", { width: it.w, height: it.h, rx: folded ? 8 : 4 });
  const differs = new Set(it.of.map(u => u.mark).filter(Boolean));
  if (differs.size) g.classList.add(differs.size > 1 ? "changed" : [...differs][0]);
  g.append(r);
  it.text.forEach((t, i) => g.append(el("text", { x: it.w / 2, y: 17 + 14 * i, class: i ? "more" : "name" }, t)));
  it.box = g;
  g.setAttribute("tabindex", -1);
  g.setAttribute("role", "button");
  g.setAttribute("aria-label", it.text.join(", ") + (folded ? ", folded" : ""));
  tipOnFocus(g);
  g.addEventListener("focus", () => keepInSight(it));
  g.addEventListener("keydown", e => nodeKey(e, it));
  g.addEventListener("click", () => choose(it.key));
  if (folded) g.addEventListener("dblclick", () => { open.add(v.layer); draw(); });
  g.addEventListener("pointermove", e => tip(e, overlay === "none" || !it.of.length ? "" : overlays[overlay][2](cost(it))));
  g.addEventListener("pointerleave", e => tip(e));
  return g;
}

const nodeOf = key => [...view.children].find(g => g.dataset.key === String(key));

function focusOn(it) {
  const old = view.querySelector('.node[tabindex="0"]'), g = nodeOf(it.key);
  if (old) old.tabIndex = -1;
  g.tabIndex = 0;
  g.focus({ preventScroll: true });
}

function keepInSight(it) {
  const { x, y, k } = pan.state(), at = [x + it.x * k, y + (it.y + it.h / 2) * k];
  if (at[0] < 0 || at[0] > svg.clientWidth || at[1] < 0 || at[1] > svg.clientHeight) pan.look(it.x, it.y + it.h / 2);
}

// Down and up along the edges, left and right along the row; Enter chooses, Space folds and unfolds.
function nodeKey(e, it) {
  const nearest = all => all.sort((a, b) => Math.abs(a.x - it.x) - Math.abs(b.x - it.x))[0];
  const row = d => nearest(items.filter(o => o.row === it.row && d * (o.x - it.x) > 0));
  const next = { ArrowDown: () => nearest([...it.to]), ArrowUp: () => nearest([...it.from]), ArrowLeft: () => row(-1), ArrowRight: () => row(1) }[e.key];
  const layer = it.of.length && it.of[0].layer;
  if (next) {
    const to = next();
    if (to) focusOn(to);
  } else if (e.key === "Enter") choose(it.key);
  else if (e.key === " " && layer) {
    if (!open.delete(layer)) open.add(layer);
    draw();
    focusOn(place.get(itemOf(it.of[0])));
  } else return;
  e.preventDefault();
}

function drawBoxes(out) {
  for (const l of open) {
    const inside = items.filter(it => typeof it.key === "number" && values[it.key].layer === l);
    if (!inside.length) continue;
    const x0 = Math.min(...inside.map(it => it.x - it.w / 2)) - 10, x1 = Math.max(...inside.map(it => it.x + it.w / 2)) + 10;
    const y0 = Math.min(...inside.map(it => it.y)) - 12, y1 = Math.max(...inside.map(it => it.y + it.h)) + 8;
    out.append(el("rect", { class: "box", x: x0, y: y0, width: x1 - x0, height: y1 - y0, rx: 8 }));
    const name = el("text", { class: "boxname", x: x0 + 8, y: y0 + 12 }, title(l) + " (fold)");
    name.addEventListener("click", () => { open.delete(l); draw(); });
    out.append(name);
    reachable([name], "button", () => "fold " + title(l));
  }
}

// What may change without another layout: what is found, chosen and on a path, and the colours of costs.
function look() {
  const most = Math.max(1e-30, ...items.map(cost)), coloured = it => overlay !== "none" && it.of.length > 0;
  for (const it of items) {
    it.lit = it.of.some(u => onPath.has(u.i));
    it.box.classList.toggle("hit", it.of.some(u => hits.has(u.i)));
    it.box.classList.toggle("chosen", chosen === it.key);
    it.box.classList.toggle("path", it.lit);
    it.box.classList.toggle("coloured", coloured(it));
    it.box.firstChild.style.fill = coloured(it) ? heat(Math.sqrt(cost(it) / most)) : "";
  }
  for (const [e, s, it] of edges) e.classList.toggle("lit", onPath.size ? s.lit && it.lit : chosen === it.key || chosen === s.key);
  const old = view.querySelector('.node[tabindex="0"]'), stop = place.get(chosen) || items[0];
  if (old) old.tabIndex = -1;
  if (stop) stop.box.tabIndex = 0;
}

function draw(fit) {
  collect();
  const size = layout();
  const focused = document.activeElement && document.activeElement.closest(".node"), key = focused && focused.dataset.key;
  view.textContent = "";
  drawBoxes(view);
  edges = items.flatMap(it => [...it.from].map(s => [el("path", { class: "edge", d: route(s, it) }), s, it]));
  view.append(...edges.map(([e]) => e), ...items.map(drawItem));
  look();
  if (key && nodeOf(key)) nodeOf(key).focus({ preventScroll: true });
  if (fit) pan.fit(size.w, size.h);
}

function link(name, text) {
  const a = el("button", { class: "link" }, text || name);
  a.addEventListener("click", () => show(name));
  return a;
}

// Brings a value into sight, its layer unfolded.
function show(name) {
  const v = values[byName.get(name)];
  if (!v) return;
  if (v.layer && !open.has(v.layer)) {
    open.add(v.layer);
    draw();
  }
  const key = v.drawn ? itemOf(v) : users[v.i].length ? itemOf(values[users[v.i][0]]) : null;
  choose(key, v);
  const it = place.get(key);
  if (it) pan.look(it.x, it.y + it.h / 2, Math.max(pan.state().k, 0.8));
}

function row(table, name, ...cells) {
  const tr = el("tr");
  tr.append(el("th", {}, name));
  const td = el("td");
  cells.forEach(c => td.append(c));
  tr.append(td);
  table.append(tr);
}

const type = v => v.dtype + " [" + v.shape.join(", ") + "]";
function list(names) {
  const div = el("div");
  names.forEach(n => {
    const p = el("div");
    if (n === null) p.append("(absent)");
    else { p.append(link(n)); p.append(el("span", { class: "soft" }, " " + type(values[byName.get(n)]))); }
    div.append(p);
  });
  return div;
}

function describe(v) {
  const side = $("side"), t = el("table");
  side.textContent = "";
  side.append(el("h2", {}, v.name));
  row(t, "is", v.op || v.kind, v.mark ? ", " + v.mark : "");
  if (was.has(v.name)) row(t, "was", el("code", {}, was.get(v.name)));
  row(t, "type", el("code", {}, type(v)));
  if (v.op) row(t, "formula", el("code", {}, data.formulas[v.op] || ""));
  const attrs = Object.entries(v.attributes || {});
  if (attrs.length) row(t, "attributes", el("code", {}, attrs.map(([k, x]) => k + "=" + JSON.stringify(x)).join(" ")));
  const inputs = v.inputs || [], leaf = n => n !== null && ["weight", "const"].includes(values[byName.get(n)].kind);
  if (inputs.some(n => !leaf(n))) row(t, "inputs", list(inputs.filter(n => !leaf(n))));
  if (inputs.some(leaf)) row(t, "weights", list(inputs.filter(leaf)));
  if (users[v.i].length) row(t, "used by", list(users[v.i].map(i => values[i].name)));
  if (v.op) row(t, "cost", short(v.flops, "flop") + ", " + bytes(v.bytes) + " moved " + binding());
  const ran = launches.get(v.name) || [];
  if (data.launches && v.op) row(t, "device time", v.us.toFixed(1) + " us");
  if (ran.length) {
    if (ran[0].variant) row(t, "variant", ran[0].variant);
    row(t, "launches", ...ran.map(l => el("div", {}, `${l.kernel} (${l.source}.cl), groups ${l.groups.join(" x ")}, items ${l.local.join(" x ")}, ` +
      l.us.toFixed(1) + " us")));
  }
  side.append(t);
  if (v.drawn) describePaths(v);
}

// All that can be reached from a value, each with the one that it was first reached from.
function reached(i, next) {
  const found = new Map([[i, null]]);
  for (const at of found.keys()) for (const n of next(at)) if (!found.has(n)) found.set(n, at);
  return found;
}

// Paths lead from the value that a button names to the one that is chosen, along the edges.
function describePaths(v) {
  const side = $("side"), b = el("button", { id: "start" }, "paths from here");
  b.addEventListener("click", () => { start = v.i; onPath = new Set(); look(); describe(v); $("start").focus(); });
  side.append(b);
  if (start === null) return;
  if (start === v.i) return side.append(el("p", { class: "soft" }, "Choose where the paths end."));
  const back = i => (values[i].inputs || []).filter(n => n !== null).map(n => byName.get(n));
  const down = reached(start, i => users[i]), up = reached(v.i, back), shortest = [];
  onPath = new Set([...down.keys()].filter(i => up.has(i)));
  look();
  for (let i = onPath.size ? v.i : null; i !== null; i = down.get(i)) shortest.unshift(values[i].name);
  side.append(el("h2", {}, onPath.size ? `${onPath.size} values on paths from ${values[start].name}; the shortest path:` : `no path from ${values[start].name}`),
    list(shortest.slice(0, 500)));
}

function describeLayer(it) {
  const side = $("side"), t = el("table"), of = it.of, l = of[0].layer;
  side.textContent = "";
  side.append(el("h2", {}, title(l)));
  const b = el("button", { id: "open-layer" }, "unfold");
  b.addEventListener("click", () => { open.add(l); draw(); });
  side.append(b);
  const sum = f => of.reduce((s, v) => s + f(v), 0);
  row(t, "nodes", String(of.filter(v => v.op).length));
  row(t, "cost", short(sum(v => v.flops || 0), "flop") + ", " + bytes(sum(v => v.bytes || 0)) + " moved " + binding());
  if (data.launches) row(t, "device time", sum(v => v.us).toFixed(1) + " us");
  const ops = {};
  of.forEach(v => { if (v.op) ops[v.op] = (ops[v.op] || 0) + 1; });
  row(t, "ops", Object.entries(ops).map(([k, n]) => n > 1 ? k + " x" + n : k).join(", "));
  const weights = new Set();
  of.forEach(v => (v.inputs || []).forEach(n => { if (n !== null && values[byName.get(n)].kind === "weight") weights.add(n); }));
  if (weights.size) row(t, "weights", list([...weights]));
  side.append(t);
}

const binding = () => data.graph.symbols.length ? "at " + data.graph.symbols.map(s => s.name + " = " + s.bound).join(", ") : "";

function choose(key, value) {
  chosen = key;
  onPath = new Set();
  look();
  const it = place.get(key);
  if (value) describe(value);
  else if (it && it.output) show(it.output.value);
  else if (it && typeof it.key === "string") describeLayer(it);
  else if (it) describe(it.of[0]);
}

function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean), side = $("side");
  hits = new Set();
  if (words.length)
    for (const v of values)
      if (words.every(w => v.name.toLowerCase().includes(w) || (v.op || v.kind).includes(w) || v.mark === w ||
        (v.inputs || []).some(n => n !== null && values[byName.get(n)].kind === "weight" && n.toLowerCase().includes(w)))) hits.add(v.i);
  look();
  side.textContent = "";
  if (!words.length) return;
  side.append(el("h2", {}, hits.size + " found"));
  const div = el("div", { id: "hits" });
  [...hits].slice(0, 500).forEach(i => { const p = el("div"); p.append(link(values[i].name)); p.append(el("span", { class: "soft" }, " " + (values[i].op || values[i].kind))); div.append(p); });
  side.append(div);
}

$("search").addEventListener("input", e => search(e.target.value));
$("search").addEventListener("keydown", e => { if (e.key === "Enter" && hits.size) show(values[[...hits][0]].name); });
$("fold").addEventListener("click", () => { open.clear(); draw(true); });
function unfoldAll() {
  const inside = new Map();
  values.forEach(v => { if (v.drawn) inside.set(v.layer, (inside.get(v.layer) || 0) + 1); });
  let n = inside.get("") || 0;
  open.clear();
  for (const l of layers) if ((n += inside.get(l)) <= SHOWN || !open.size) open.add(l);
  draw(true);
  if (open.size < layers.length) $("side").replaceChildren(el("p", {}, `${open.size} of ${layers.length} layers are unfolded: a page shows ${SHOWN} nodes at once.`));
}
$("unfold").addEventListener("click", unfoldAll);
$("in").addEventListener("click", () => pan.zoom(1.25));
$("out").addEventListener("click", () => pan.zoom(0.8));
$("fit").addEventListener("click", () => draw(true));
$("overlay").addEventListener("change", e => { overlay = e.target.value; look(); });
$("about").textContent = [layers.length + " layers", values.filter(v => v.op).length + " nodes", binding(), data.device].filter(Boolean).join(" · ");
draw(true);
function listChanges() {
  const of = m => values.filter(v => v.mark === m), rest = changes.filter(l => /^. (symbol|output) /.test(l));
  const parts = ["added", "removed", "changed"].map(m => [m, of(m)]).filter(([, vs]) => vs.length);
  $("side").replaceChildren(...parts.flatMap(([m, vs]) => [el("h2", {}, vs.length + " " + m), list(vs.slice(0, 500).map(v => v.name))]),
    ...rest.map(l => el("div", {}, l)), ...(changes.length ? [] : [el("h2", {}, "The graphs are equal")]));
}
$("changes").hidden = !data.before;
$("changes").addEventListener("click", listChanges);
if (data.before) listChanges();
else $("side").append(el("h2", {}, "What to do here"), el("p", { class: "soft" },
  "Drag to move, wheel to zoom. Click a box for its shapes, formula, weights and cost; double-click a layer to unfold it; click a layer's name to fold it. " +
  "The paths between two values: choose one, press its button, choose the other."), el("p", { class: "soft" },
  "Keys: Tab goes to the graph, whose arrows move it and whose + and - zoom; once more, to a box. There arrows follow the edges, Enter shows, Space folds and unfolds."));
