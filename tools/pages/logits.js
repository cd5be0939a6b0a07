// The text, each token coloured by its surprise; the one chosen with what was expected in its place.
const surprise = t => t.bits === null && t.p === 0 ? "∞" : number(t.bits, x => x.toFixed(2));
const colour = t => t.rank === undefined ? "transparent" : t.p === null ? "#f3a6f0" : bitsColour(t.bits === null ? 99 : t.bits);
const bitsColour = bits => `hsl(${Math.max(0, 120 - 12 * bits)} 70% ${Math.max(72, 92 - 2 * bits)}%)`;
const seen = t => t.replace(/\n/g, "⏎\n");
$("about").textContent = `perplexity ${number(data.perplexity, x => x.toFixed(3))}, ${number(data.nats_per_token, x => (x / Math.LN2).toFixed(3))} bits a token, ` +
  `${data.tokens_scored} tokens scored`;
[0, 2, 4, 6, 8, 10].forEach(b => { const s = el("span", {}, b + " bits"); s.style.background = bitsColour(b); $("legend").append(s); });
let chosen = null;
function choose(t, span) {
  if (chosen) chosen.classList.remove("chosen");
  chosen = span;
  span.classList.add("chosen");
  const side = $("side");
  side.textContent = "";
  side.append(el("h2", {}, JSON.stringify(t.token)));
  if (t.rank === undefined) return side.append(el("p", { class: "soft" }, "Nothing was expected here: it begins the text."));
  side.append(el("p", {}, `probability ${number(t.p, x => x.toPrecision(4))}, surprise ${surprise(t)} bits, rank ${number(t.rank, x => x)}`));
  const table = el("table");
  for (const g of t.top) {
    const tr = el("tr", g.id === t.id ? { class: "is" } : {}), bar = el("div", { class: "bar" });
    bar.style.width = Math.round(160 * g.p) + "px";
    const cell = el("td");
    cell.append(bar);
    tr.append(el("td", {}, JSON.stringify(g.token)), el("td", { class: "n" }, number(g.p, x => x.toFixed(4))), cell);
    table.append(tr);
  }
  side.append(table);
}
data.tokens.forEach((t, i) => {
  const span = el("span", t.rank === undefined ? {} : { class: "scored" }, seen(t.token));
  span.style.background = colour(t);
  span.addEventListener("click", () => choose(t, span));
  span.addEventListener("pointermove", e => tip(e, t.rank === undefined ? "" : `${surprise(t)} bits, rank ${number(t.rank, x => x)}`));
  span.addEventListener("pointerleave", e => tip(e));
  $("text").append(span);
  if (i === Math.min(1, data.tokens.length - 1)) choose(t, span);
});
reachable([...document.querySelectorAll("#text span")], "button", (e, i) => JSON.stringify(data.tokens[i].token));
