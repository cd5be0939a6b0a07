"use strict";
// What the pages share: their data, numbers as text, a tip at the pointer, keys in place of a mouse, pan and zoom of an SVG.
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);
function el(name, attrs, text) {
  const svg = ["svg", "g", "rect", "path", "text", "circle", "line", "polyline", "title"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const k in attrs || {}) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}
function short(x, unit) {
  if (x === 0) return "0 " + unit;
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [n, s] of steps) if (Math.abs(x) >= n) return (x / n).toPrecision(3) + " " + s + unit;
  return +x.toPrecision(3) + " " + unit;
}
function bytes(x) {
  const steps = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  for (const [n, s] of steps) if (x >= n) return (x / n).toFixed(2) + " " + s;
  return x + " B";
}
// JSON has null where a number is NaN or infinite.
const number = (x, text) => x === null ? "NaN" : text(x);
// White to red by a share of the largest.
function heat(x) {
  const t = Math.max(0, Math.min(1, x));
  return `rgb(${Math.round(255 - 20 * t)},${Math.round(250 - 175 * t)},${Math.round(245 - 195 * t)})`;
}
function tip(event, text) {
  const t = $("tip");
  t.textContent = text || "";
  t.style.display = text ? "block" : "none";
  if (!text) return;
  t.style.left = Math.min(event.clientX + 12, innerWidth - t.offsetWidth - 4) + "px";
  t.style.top = Math.min(event.clientY + 14, innerHeight - t.offsetHeight - 4) + "px";
}
// The middle of what is seen of an element.
function middleOf(e) {
  const r = e.getBoundingClientRect();
  return { clientX: (Math.max(0, r.left) + Math.min(innerWidth, r.right)) / 2, clientY: (Math.max(0, r.top) + Math.min(innerHeight, r.bottom)) / 2 };
}
// Focus shows what the pointer would.
function tipOnFocus(e) {
  e.addEventListener("focus", () => e.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, ...middleOf(e) })));
  e.addEventListener("blur", () => e.dispatchEvent(new PointerEvent("pointerleave")));
}
function press(e) { e.dispatchEvent(new MouseEvent("click", { bubbles: true })); }
// Elements as one stop of the Tab key: arrows go from one to the next, Enter and Space click. label(e, i) is what a screen reader says.
function reachable(all, role, label) {
  all.forEach((e, i) => {
    e.setAttribute("tabindex", i ? -1 : 0);
    e.setAttribute("role", role);
    e.setAttribute("aria-label", label(e, i));
    tipOnFocus(e);
    e.addEventListener("keydown", k => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -all.length, End: all.length }[k.key];
      if (!step && k.key !== "Enter" && k.key !== " ") return;
      k.preventDefault();
      if (!step) return press(e);
      const to = all[Math.max(0, Math.min(all.length - 1, i + step))];
      e.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
  });
}
// The keys of a drawing that has the focus itself: arrows move it, + and - zoom, 0 fits it. Each is a function (dx, dy), (factor) or ().
function drawingKeys(svg, move, zoom, fit) {
  svg.setAttribute("tabindex", 0);
  svg.setAttribute("role", "group");
  svg.addEventListener("keydown", k => {
    const by = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[k.key], factor = { "+": 1.25, "=": 1.25, "-": 0.8 }[k.key];
    if (k.target === svg && by) move(...by);
    else if (factor) zoom(factor);
    else if (k.key === "0" && fit) fit();
    else return;
    k.preventDefault();
  });
}
// Drag to pan, wheel or two fingers to zoom about the pointer. Returns {look(x, y, scale), fit(box)}.
function panZoom(svg, group) {
  let x = 0, y = 0, k = 1;
  const fingers = new Map(); // where each pointer was that is down
  const apply = () => group.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
  const zoomAt = (f, clientX, clientY) => {
    const n = Math.max(0.02, Math.min(8, k * f)), r = svg.getBoundingClientRect(), w = clientX - r.left, h = clientY - r.top;
    x = w - (w - x) * n / k;
    y = h - (h - y) * n / k;
    k = n;
    apply();
  };
  const zoom = f => {
    const r = svg.getBoundingClientRect();
    zoomAt(f, r.left + svg.clientWidth / 2, r.top + svg.clientHeight / 2);
  };
  svg.addEventListener("wheel", e => {
    e.preventDefault();
    zoomAt(Math.exp(-e.deltaY * 0.0015), e.clientX, e.clientY);
  }, { passive: false });
  svg.addEventListener("pointerdown", e => fingers.set(e.pointerId, e));
  addEventListener("pointermove", e => {
    const was = fingers.get(e.pointerId), other = [...fingers.values()].find(f => f !== was);
    if (was && !e.buttons) fingers.delete(e.pointerId); // it was released outside the window
    if (!was || !e.buttons) return;
    fingers.set(e.pointerId, e);
    x += e.clientX - was.clientX;
    y += e.clientY - was.clientY;
    const apart = f => Math.max(1, Math.hypot(f.clientX - other.clientX, f.clientY - other.clientY));
    if (other) zoomAt(apart(e) / apart(was), e.clientX, e.clientY);
    else apply();
  });
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, e => fingers.delete(e.pointerId));
  drawingKeys(svg, (dx, dy) => { x += dx; y += dy; apply(); }, zoom);
  return {
    zoom,
    state: () => ({ x, y, k }),
    look(cx, cy, scale) {
      k = scale || k;
      x = svg.clientWidth / 2 - cx * k;
      y = svg.clientHeight / 2 - cy * k;
      apply();
    },
    fit(w, h) {
      k = Math.min(1.2, Math.max(0.05, Math.min(svg.clientWidth / (w + 40), svg.clientHeight / (h + 40))));
      if (h * k < 0.3 * svg.clientHeight || k < 0.35) k = Math.min(1, svg.clientWidth / (w + 40)); // tall: from its top
      x = (svg.clientWidth - w * k) / 2;
      y = Math.max(20, h * k < svg.clientHeight ? (svg.clientHeight - h * k) / 2 : 20);
      apply();
    },
  };
}
