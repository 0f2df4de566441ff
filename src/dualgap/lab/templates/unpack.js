"use strict";
// What the page shows is packed by gzip in base64. Whoever needs a part calls unpack(id).
async function unpack(id) {
  const letters = atob(document.getElementById(id).textContent), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
// A browser that cannot unpack shows what it shows without scripts.
function stills() {
  document.querySelectorAll("[data-figure]").forEach((place) => { place.style.minHeight = "0"; place.innerHTML = place.nextElementSibling.textContent; });
  document.querySelectorAll(".explorer").forEach((part) => { part.hidden = true; });
  document.querySelectorAll(".needs-scripts").forEach((note) => { note.hidden = false; });
}
