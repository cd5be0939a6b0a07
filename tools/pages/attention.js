// Layers by heads as small maps; one of them large, with its tokens.
const names = { self: "self-attention", encoder: "encoder", cross: "cross-attention" };
const kinds = [...new Set(data.maps.map(m => m.kind))];
kinds.forEach(k => $("kind").append(el("option", { value: k }, names[k])));
let kind = kinds.includes("cross") ? "cross" : kinds[0], chosen = null;
$("kind").value = kind;
const rowsOf = m => m.kind === "encoder" || !data.target ? data.tokens : data.target;
const columnsOf = m => m.kind === "self" && data.target ? data.target : data.tokens;
// White to blue by the root of the weight, so that small ones are seen; NaN red.
function colour(w) {
  if (w === null) return [214, 39, 40];
  const t = Math.sqrt(w);
  return [255 - 235 * t, 255 - 184 * t, 255 - 89 * t];
}

function small(m, h) {
  const T = h.weights.length, S = h.weights[0].length, c = el("canvas", { width: S, height: T });
  const g = c.getContext("2d"), image = g.createImageData(S, T);
  h.weights.forEach((row, t) => row.forEach((w, s) => {
    image.data.set(w === 0 ? [220, 220, 220, 255] : [...colour(w), 255], 4 * (t * S + s));
  }));
  g.putImageData(image, 0, 0);
  c.title = `layer ${m.layer}, head ${h.head}`;
  c.addEventListener("click", () => enlarge(m, h, c));
  return c;
}

function overview() {
  const grid = $("grid"), maps = data.maps.filter(m => m.kind === kind);
  grid.textContent = "";
  grid.style.gridTemplateColumns = `auto repeat(${Math.max(...maps.map(m => m.heads.length))}, 98px)`;
  const columns = Math.max(...maps.map(m => m.heads.length));
  let first = null;
  grid.append(el("span", { class: "name" }, ""));
  for (let i = 0; i < columns; i++) grid.append(el("span", { class: "name" }, maps[0].heads[i] ? "head " + maps[0].heads[i].head : ""));
  for (const m of maps) {
    grid.append(el("span", { class: "name" }, "layer " + m.layer));
    for (let i = 0; i < columns; i++) {
      const c = m.heads[i] ? small(m, m.heads[i]) : el("span");
      if (!first) first = [m, m.heads[i], c];
      grid.append(c);
    }
  }
  reachable([...grid.querySelectorAll("canvas")], "button", c => c.title);
  $("about").textContent = `${maps.length} layers, ${data.tokens.length} tokens` + (data.target ? `, ${data.target.length} of the target` : "");
  enlarge(...first);
}

function enlarge(m, h, canvas) {
  const rows = rowsOf(m), columns = columnsOf(m), T = h.weights.length, S = h.weights[0].length;
  const size = Math.max(3, Math.min(22, 620 / Math.max(T, S))), left = 110, top = 90, svg = $("map");
  if (chosen) chosen.classList.remove("chosen");
  chosen = canvas;
  canvas.classList.add("chosen");
  svg.textContent = "";
  svg.setAttribute("width", left + S * size + 20);
  svg.setAttribute("height", top + T * size + 4);
  const weightOf = (t, s) => {
    const w = h.weights[t][s];
    return `"${rows[t]}" (${t}) → "${columns[s]}" (${s}): ${w === 0 ? "masked" : number(w, x => x.toPrecision(4))}`;
  };
  const cut = t => (t = t.replace(/\n/g, "⏎"), t.length > 15 ? t.slice(0, 14) + "…" : t);
  for (let t = 0; t < T; t++)
    for (let s = 0; s < S; s++) {
      const w = h.weights[t][s];
      const r = el("rect", { class: "cell" + (w === 0 ? " masked" : ""), x: left + s * size, y: top + t * size, width: size, height: size });
      if (w !== 0) r.style.fill = `rgb(${colour(w).map(Math.round).join(",")})`;
      r.dataset.at = t + "," + s;
      svg.append(r);
    }
  if (size >= 9) {
    rows.forEach((x, t) => svg.append(el("text", { x: left - 6, y: top + (t + .5) * size + 4, "text-anchor": "end" }, cut(x))));
    columns.forEach((x, s) => svg.append(el("text", { transform: `translate(${left + (s + .5) * size + 4},${top - 6}) rotate(-60)` }, cut(x))));
  }
  reachable([...svg.querySelectorAll("rect.cell")], "img", c => weightOf(...c.dataset.at.split(",")));
  const lit = [el("rect", { class: "lit" }), el("rect", { class: "lit" })];
  svg.append(...lit);
  svg.onpointermove = e => {
    const at = e.target.dataset && e.target.dataset.at;
    lit.forEach(l => l.setAttribute("width", 0));
    if (!at) return tip(e);
    const [t, s] = at.split(",").map(Number);
    const box = (l, x, y, width, height) => Object.entries({ x, y, width, height }).forEach(([k, v]) => l.setAttribute(k, v));
    box(lit[0], left, top + t * size, S * size, size);
    box(lit[1], left + s * size, top, size, T * size);
    tip(e, weightOf(t, s));
  };
  svg.onpointerleave = e => { tip(e); lit.forEach(l => l.setAttribute("width", 0)); };
  const facts = $("facts");
  facts.textContent = "";
  facts.append(el("h2", {}, `layer ${m.layer}, head ${h.head}`));
  const table = el("table");
  [["entropy of a row", number(h.entropy, x => x.toFixed(3) + " nats")], ["weight of the first token", number(h.first, x => x.toFixed(3))],
    ...(m.kind === "cross" ? [] : [["distance to the key", number(h.distance, x => x.toFixed(2) + " tokens")]])].forEach(([k, v]) => {
    const tr = el("tr");
    tr.append(el("th", {}, k), el("td", {}, v));
    table.append(tr);
  });
  facts.append(table, el("p", { class: "soft" }, "Rows are queries, columns keys; grey is masked, red NaN. Point at a cell for its weight, click a small map to see it large."));
}

$("kind").addEventListener("change", e => { kind = e.target.value; chosen = null; overview(); });
overview();
