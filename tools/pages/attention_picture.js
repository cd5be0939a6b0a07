// The picture with what one row of a head sees, large; and every layer and head small, for the same row.
const { rows, columns, width, height } = data, special = data.special_tokens, MEAN = -1;
const bytesOf = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const layerName = m => m.layer < 0 ? "pooling" : m.layer;
let map = data.maps[data.maps.length - 1], head = map.heads[0], query = data.query;

// The weights are kept as 16 bits until a head is looked at.
function weights(h) {
  if (!h.numbers) {
    const bytes = bytesOf(h.weights);
    h.numbers = new Uint16Array(bytes.length / 2);
    for (let i = 0; i < h.numbers.length; i++) h.numbers[i] = bytes[2 * i] | bytes[2 * i + 1] << 8;
  }
  return h.numbers;
}
const weight = x => x === 65535 ? NaN : x / 65534;
// What the chosen row, or all rows on average, see of each patch.
function seen(h) {
  const w = weights(h), n = data.tokens.length, out = new Array(rows * columns).fill(0), mean = query === MEAN && h.queries > 1;
  const first = mean || h.queries === 1 ? 0 : query, end = mean ? h.queries : first + 1;
  for (let t = first; t < end; t++)
    for (let i = 0; i < out.length; i++) out[i] += weight(w[t * n + special + i]) / (end - first);
  return out;
}

// Dark violet to light yellow by the root of the weight; dark colours cover the grey picture less.
const stops = [[20, 11, 54, .55], [101, 21, 110, .62], [186, 54, 85, .7], [249, 142, 8, .78], [252, 255, 164, .85]];
function colour(share) {
  if (Number.isNaN(share)) return [214, 39, 40, 1];
  const t = Math.sqrt(Math.max(0, Math.min(1, share))) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(t));
  return stops[i].map((x, k) => x + (stops[i + 1][k] - x) * (t - i));
}
const css = c => `rgba(${c.slice(0, 3).map(Math.round).join(",")},${c[3].toFixed(3)})`;

function ground(grey) {
  const c = el("canvas", { width, height }), g = c.getContext("2d"), image = g.createImageData(width, height), rgb = bytesOf(data.rgb);
  for (let i = 0; i < width * height; i++) {
    const [r, gr, b] = rgb.subarray(3 * i, 3 * i + 3), l = (77 * r + 150 * gr + 29 * b) >> 8;
    image.data.set(grey ? [l, l, l, 255] : [r, gr, b, 255], 4 * i);
  }
  g.putImageData(image, 0, 0);
  return c;
}
const grey = ground(true), coloured = ground(false);

function paint(canvas, h) {
  const g = canvas.getContext("2d"), w = canvas.width, k = canvas.height, list = seen(h), most = Math.max(0, ...list.filter(x => !Number.isNaN(x)));
  const x = i => Math.round(i * w * data.covered_x / columns), y = i => Math.round(i * k * data.covered_y / rows);
  g.drawImage(grey, 0, 0, w, k);
  list.forEach((value, i) => {
    const c = i % columns, r = Math.floor(i / columns);
    g.fillStyle = css(colour(most > 0 ? value / most : value));
    g.fillRect(x(c), y(r), x(c + 1) - x(c), y(r + 1) - y(r));
  });
  if (query >= special && h.queries > 1) {
    const c = (query - special) % columns, r = Math.floor((query - special) / columns);
    [["#000", w > 300 ? 5 : 3], ["#fff", w > 300 ? 2 : 1]].forEach(([line, lineWidth]) => {
      Object.assign(g, { strokeStyle: line, lineWidth });
      g.strokeRect(x(c), y(r), x(c + 1) - x(c), y(r + 1) - y(r));
    });
  }
  return { list, most };
}

let shown = null;
function facts(most) {
  const box = $("facts"), table = el("table"), legend = el("canvas", { id: "legend", width: 200, height: 12 }), g = legend.getContext("2d");
  box.textContent = "";
  box.append(el("h2", {}, map.layer < 0 ? `pooling, head ${head.head}` : `layer ${map.layer}, head ${head.head}`));
  [["who looks", head.queries === 1 ? "the pooling query" : query === MEAN ? "all rows, on average" : data.tokens[query]],
    ["entropy of a row", number(head.entropy, x => x.toFixed(3) + " nats")],
    ...(special ? [["weight of the class token", number(head.first, x => x.toFixed(3))]] : []),
    ...(head.queries > 1 ? [["distance it looks", number(head.distance, x => x.toFixed(2) + " patches")]] : [])].forEach(([k, v]) => {
    const tr = el("tr");
    tr.append(el("th", {}, k), el("td", {}, v));
    table.append(tr);
  });
  for (let i = 0; i < 200; i++) {
    g.fillStyle = css([...colour((i / 200) ** 2).slice(0, 3), 1]);
    g.fillRect(i, 0, 1, 12);
  }
  const ends = el("div", { id: "ends" });
  ends.append(el("span", {}, "0"), el("span", {}, most.toPrecision(3)));
  box.append(table, legend, ends, el("p", { class: "soft" }, "Click a patch of the picture: it then looks. Click it again, and the first choice is back. "
    + "Arrow keys move it; with Shift they read the weights. The brightest colour is the head's own largest weight. Click a small picture to see that head."));
}

function showLarge() {
  shown = paint($("over"), head);
  if ($("plain").checked) $("over").getContext("2d").drawImage(coloured, 0, 0, $("over").width, $("over").height);
  facts(shown.most);
  $("layer").value = data.maps.indexOf(map);
  $("head").value = head.head;
  $("query").value = query < special ? query : "patch";
  document.querySelectorAll("#grid canvas").forEach(c => c.classList.toggle("chosen", c.of === head));
}
function showAll() {
  document.querySelectorAll("#grid canvas").forEach(c => paint(c, c.of));
  showLarge();
}
function choose(m, h) { map = m; head = h; fillHeads(); showLarge(); }
function look(q) { query = q; showAll(); }

function fillHeads() {
  $("head").textContent = "";
  map.heads.forEach(h => $("head").append(el("option", { value: h.head }, h.head)));
}
function start() {
  const scale = Math.max(1, Math.round(640 / Math.max(width, height)));
  Object.assign($("over"), { width: scale * width, height: scale * height });
  data.maps.forEach((m, i) => $("layer").append(el("option", { value: i }, layerName(m))));
  data.tokens.slice(0, special).forEach((name, i) => $("query").append(el("option", { value: i }, name)));
  $("query").append(el("option", { value: MEAN }, "all rows, on average"), el("option", { value: "patch", disabled: "" }, "a patch (click one)"));
  const most = Math.max(...data.maps.map(m => m.heads.length)), grid = $("grid");
  grid.style.gridTemplateColumns = `auto repeat(${most}, 98px)`;
  grid.append(el("span", { class: "name" }));
  for (let i = 0; i < most; i++) grid.append(el("span", { class: "name" }, "head " + data.maps[0].heads[i].head));
  for (const m of data.maps) {
    grid.append(el("span", { class: "name" }, m.layer < 0 ? "pooling" : "layer " + m.layer));
    for (let i = 0; i < most; i++) {
      const c = el(m.heads[i] ? "canvas" : "span", { width: 96, height: Math.max(1, Math.round(96 * height / width)) });
      if (m.heads[i]) {
        c.of = m.heads[i];
        c.title = (m.layer < 0 ? "pooling" : `layer ${m.layer}`) + `, head ${m.heads[i].head}`;
        c.addEventListener("click", () => choose(m, m.heads[i]));
      }
      grid.append(c);
    }
  }
  $("about").textContent = `${rows} × ${columns} patches` + (special ? `, ${special} special token${special > 1 ? "s" : ""}` : "");
  fillHeads();
  showAll();
}

function patchAt(e) {
  const r = $("over").getBoundingClientRect(), c = Math.floor((e.clientX - r.left) / r.width / data.covered_x * columns),
    row = Math.floor((e.clientY - r.top) / r.height / data.covered_y * rows);
  return c >= 0 && c < columns && row >= 0 && row < rows ? row * columns + c : -1;
}
$("over").addEventListener("click", e => {
  const i = patchAt(e);
  if (i >= 0) look(query === i + special ? data.query < special ? data.query : special ? 0 : MEAN : i + special);
});
$("over").addEventListener("pointermove", e => {
  const i = patchAt(e);
  tip(e, i < 0 ? "" : `${data.tokens[i + special]}: ${number(Number.isNaN(shown.list[i]) ? null : shown.list[i], x => x.toPrecision(3))}`);
});
$("over").addEventListener("pointerleave", e => tip(e));
let read = 0; // the patch whose weight the keys show
$("over").addEventListener("blur", e => tip(e));
$("over").addEventListener("keydown", e => {
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[e.key], i = query - special + by;
  if (!by) return;
  e.preventDefault();
  if (e.shiftKey) {
    const r = $("over").getBoundingClientRect();
    if (read + by >= 0 && read + by < rows * columns) read += by;
    return $("over").dispatchEvent(new PointerEvent("pointermove", {
      clientX: r.left + (read % columns + .5) / columns * data.covered_x * r.width,
      clientY: r.top + (Math.floor(read / columns) + .5) / rows * data.covered_y * r.height }));
  }
  look(query < special ? special + Math.floor(rows / 2) * columns + Math.floor(columns / 2) : i >= 0 && i < rows * columns ? special + i : query);
});
$("layer").addEventListener("change", e => { const m = data.maps[e.target.value]; choose(m, m.heads.find(h => h.head === head.head) || m.heads[0]); });
$("head").addEventListener("change", e => choose(map, map.heads.find(h => h.head === +e.target.value)));
$("query").addEventListener("change", e => look(+e.target.value));
$("plain").addEventListener("change", showLarge);
start();
