// Each part's bytes as bars, and its arena: values along x, offsets along y, each value a rectangle as long as it lives.
$("about").textContent = `${data.device}, context ${data.context}: ${bytes(data.total_bytes)} in all`;
const rows = { weight_bytes: "weights", state_bytes: "KV cache and states", arena_bytes: "arena", scratch_bytes: "scratch", io_bytes: "inputs",
  staging_bytes: "staging (host)", mapped_bytes: "mapped, not copied" };
for (const part of data.parts) {
  const section = el("section"), table = el("table"), most = Math.max(...Object.keys(rows).map(k => part[k]));
  section.append(el("h2", {}, part.name));
  for (const k in rows) {
    const tr = el("tr"), bar = el("div", { class: "bar" }), cell = el("td");
    bar.style.width = 400 * part[k] / most + "px";
    cell.append(bar);
    tr.append(el("td", {}, rows[k]), el("td", { class: "n" }, bytes(part[k])), cell);
    table.append(tr);
  }
  section.append(table, el("p", { class: "soft" }, `The arena: ${bytes(part.unshared_bytes)} without sharing; at most ${bytes(part.live_peak_bytes)} ` +
    `live at once, at ${part.peak_at}; ${bytes(part.arena_bytes - part.live_peak_bytes)} are waste. Drag or arrow keys move it; the wheel, + and - zoom; Tab goes on to its values.`));
  const from = Math.min(...part.arena.map(t => t.first)), n = part.values - from, W = 1000, H = 380, svg = el("svg"), g = el("g");
  svg.append(g);
  section.append(svg);
  $("main").append(section);
  part.arena.forEach((t, i) => {
    const r = el("rect", { class: "t", x: W * (t.first - from) / n, y: H * t.offset / part.arena_bytes,
      width: W * (t.last - t.first + 1) / n, height: H * t.bytes / part.arena_bytes, fill: `hsl(${i * 47 % 360} 55% 72%)` });
    r.addEventListener("pointermove", e => {
      r.classList.add("lit");
      tip(e, `${t.name}\n${bytes(t.bytes)} at ${t.offset}\nvalues ${t.first} to ${t.last}` + (t.in_place_of ? `\nin place of ${t.in_place_of}` : ""));
    });
    r.addEventListener("pointerleave", e => { r.classList.remove("lit"); tip(e); });
    g.append(r);
  });
  svg.setAttribute("aria-label", "The arena of " + part.name);
  reachable([...g.children], "img", (e, i) => `${part.arena[i].name}, ${bytes(part.arena[i].bytes)}`);
  panZoom(svg, g).look(W / 2, H / 2, Math.min(svg.clientWidth / (W + 20), svg.clientHeight / (H + 20)));
}
