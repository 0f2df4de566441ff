"use strict";
// What the page shows is packed by gzip in base64. Whoever needs a part calls unpack(id).
async function unpack(id) {
  const letters = atob(document.getElementById(id).textContent), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
// A browser that cannot unpack shows what it shows without scripts.
function still() {
  document.querySelectorAll(".explorer").forEach((part) => { part.hidden = true; });
  document.querySelectorAll(".needs-scripts").forEach((note) => { note.hidden = false; });
}
function drawn(parent, name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}
function shown(v) { return v === 0 ? "0" : Math.abs(v) < 1e-3 || Math.abs(v) >= 1e5 ? v.toExponential(1) : Number(v.toPrecision(4)).toString(); }
// A link to a statement opens it; printing opens all.
function openTarget() { const target = location.hash && document.getElementById(location.hash.slice(1)); if (target instanceof HTMLDetailsElement) target.open = true; }
window.addEventListener("hashchange", openTarget);
openTarget();
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
