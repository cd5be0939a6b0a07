// A step's time: the host's spans and enqueueing above, the device's launches below, joined where one led to the other. The wheel stretches time.
const slices = data.traceEvents.filter(e => e.ph === "X");
const steps = slices.filter(e => e.pid === 1 && e.tid === 1), enqueues = slices.filter(e => e.pid === 1 && e.tid === 2), device = slices.filter(e => e.pid === 2);
const svg = $("canvas"), rows = [["steps", 30], ["enqueue", 66], ["device", 132]], H = 24;
const hue = name => [...name].reduce((h, c) => (h * 31 + c.charCodeAt(0)) % 360, 7);
let from = 0, scale = 1; // us at the left edge, pixels a us
steps.forEach((s, i) => $("step").append(el("option", { value: i }, `${i}: ${s.name}, ${(s.dur / 1e3).toFixed(2)} ms`)));
const part = s => device.map((d, i) => [d, enqueues[i]]).filter(([, q]) => q && q.ts >= s.ts - 1 && q.ts <= s.ts + s.dur);

function box(e, y, text) {
  const x = 90 + (e.ts - from) * scale, w = Math.max(0.6, e.dur * scale);
  if (x + w < 90 || x > svg.clientWidth) return;
  const r = el("rect", { class: "e", x, y, width: w, height: H, fill: `hsl(${hue(e.name)} 55% 74%)` });
  r.addEventListener("pointermove", p => tip(p, `${e.name}, ${e.dur.toFixed(1)} us\n${e.args ? Object.entries(e.args).map(([k, v]) => k + ": " + v).join("\n") : ""}`));
  r.addEventListener("pointerleave", p => tip(p));
  r.about = `${e.name}, ${e.dur.toFixed(1)} us`;
  svg.append(r);
  if (w > 6.5 * text.length + 6) svg.append(el("text", { x: Math.max(x, 90) + 4, y: y + 16 }, text));
}

function draw() {
  svg.textContent = "";
  for (const [d, q] of part(chosen()))
    svg.append(el("path", { d: `M${90 + (q.ts - from) * scale},${rows[1][1] + H}C${90 + (q.ts - from) * scale},${rows[1][1] + H + 20} ` +
      `${90 + (d.ts - from) * scale},${rows[2][1] - 20} ${90 + (d.ts - from) * scale},${rows[2][1]}` }));
  steps.forEach(e => box(e, rows[0][1], e.name));
  enqueues.forEach(e => box(e, rows[1][1], e.name));
  device.forEach(e => box(e, rows[2][1], e.name));
  reachable([...svg.querySelectorAll("rect.e")], "img", r => r.about);
  svg.append(el("rect", { x: 0, y: 0, width: 88, height: 400, class: "cover" }));
  rows.forEach(([name, y]) => svg.append(el("text", { class: "track", x: 8, y: y + 16 }, name)));
  const least = 70 / scale, ten = 10 ** Math.floor(Math.log10(least)), unit = [1, 2, 5, 10].map(n => n * ten).find(u => u >= least);
  for (let t = Math.ceil(from / unit) * unit; (t - from) * scale < svg.clientWidth; t += unit)
    if (t >= from) svg.append(el("text", { class: "track", x: 90 + (t - from) * scale, y: 18 }, unit < 1000 ? `${+(t).toFixed(1)} us` : `${+(t / 1e3).toFixed(2)} ms`));
}

const chosen = () => steps[+$("step").value || 0];
function fit() {
  const s = chosen();
  if (!s) return;
  from = s.ts;
  scale = (svg.clientWidth - 110) / s.dur;
  draw();
  const sums = new Map(), ran = part(s).map(([d]) => d), busy = ran.reduce((n, d) => n + d.dur, 0);
  ran.forEach(d => { const x = sums.get(d.name) || [0, 0]; sums.set(d.name, [x[0] + 1, x[1] + d.dur]); });
  const table = el("table");
  [...sums].sort((a, b) => b[1][1] - a[1][1]).forEach(([name, [n, us]]) => {
    const tr = el("tr"), bar = el("td"), b = el("div");
    b.style.cssText = `height:12px;border-radius:2px;width:${Math.round(320 * us / busy)}px;background:hsl(${hue(name)} 55% 74%)`;
    bar.append(b);
    tr.append(el("td", {}, name), el("td", { class: "n" }, n + " launches"), el("td", { class: "n" }, (us / 1e3).toFixed(3) + " ms"),
      el("td", { class: "n" }, (100 * us / busy).toFixed(1) + " %"), bar);
    table.append(tr);
  });
  $("sums").replaceChildren(table);
  $("about").textContent = `${(s.dur / 1e3).toFixed(3)} ms, ${ran.length} launches, the device is busy for ${(100 * busy / s.dur).toFixed(0)} %`;
}
$("step").addEventListener("change", fit);
$("fit").addEventListener("click", fit);
function zoom(factor, at) {
  const t = from + at / scale;
  scale *= factor;
  from = t - at / scale;
  draw();
}
const zoomMiddle = factor => zoom(factor, (svg.clientWidth - 90) / 2);
$("in").addEventListener("click", () => zoomMiddle(1.25));
$("out").addEventListener("click", () => zoomMiddle(0.8));
svg.addEventListener("wheel", e => {
  e.preventDefault();
  zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - svg.getBoundingClientRect().left - 90);
}, { passive: false });
drawingKeys(svg, dx => { from -= dx / scale; draw(); }, zoomMiddle, fit);
svg.addEventListener("pointermove", e => { if (e.buttons) { from -= e.movementX / scale; draw(); } });
fit();
