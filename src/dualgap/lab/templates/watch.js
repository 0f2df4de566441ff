
// -------------------------------------------------------------------------------------------------------------- watch it happen
(async function () {
  const place = document.getElementById("watching");
  if (!place) return;
  const runs = JSON.parse(await unpack("watch-data"));
  if (!runs.length) return;
  const select = document.getElementById("watch-run"), slider = document.getElementById("watch-epoch");
  const told = document.getElementById("watch-told"), play = document.getElementById("watch-play");
  const plane = document.getElementById("watch-plane"), chart = document.getElementById("watch-chart");
  let run = runs[0], box, state;

  // The part of the line a·x + b·y + c = 0 inside the box.
  function segment(a, b, c) {
    const [x0, x1, y0, y1] = box, points = [];
    if (Math.abs(b) > 1e-12) [x0, x1].forEach((x) => { const y = -(a * x + c) / b; if (y >= y0 && y <= y1) points.push([x, y]); });
    if (Math.abs(a) > 1e-12) [y0, y1].forEach((y) => { const x = -(b * y + c) / a; if (x > x0 && x < x1) points.push([x, y]); });
    return points.slice(0, 2);
  }

  function open(i) {
    run = runs[i];
    slider.max = run.looks.length - 1;
    slider.value = 0;
    const xs = run.points.map((p) => p[0]), ys = run.points.map((p) => p[1]), room = 0.06;
    const span = (v) => { const low = Math.min(...v), high = Math.max(...v), r = room * (high - low || 1); return [low - r, high + r]; };
    box = [...span(xs), ...span(ys)];
    drawPlane();
    drawChart();
    move();
  }

  function drawPlane() {
    plane.replaceChildren();
    const W = 440, H = 360, [x0, x1, y0, y1] = box;
    const sx = (x) => 34 + ((x - x0) / (x1 - x0)) * (W - 44), sy = (y) => H - 34 - ((y - y0) / (y1 - y0)) * (H - 44);
    drawn(plane, "rect", { x: 34, y: 10, width: W - 44, height: H - 44, class: "frame" });
    const margins = [drawn(plane, "line", { class: "margin" }), drawn(plane, "line", { class: "margin" })], line = drawn(plane, "line", { class: "boundary" });
    const dots = run.points.map((p, i) => drawn(plane, "circle", { cx: sx(p[0]).toFixed(1), cy: sy(p[1]).toFixed(1), r: 3, class: run.y[i] > 0 ? "positive" : "negative" }));
    drawn(plane, "text", { x: 34 + (W - 44) / 2, y: H - 8, "text-anchor": "middle" }, run.names[0]);
    drawn(plane, "text", { x: 14, y: 10 + (H - 44) / 2, "text-anchor": "middle", transform: "rotate(-90 14 " + (10 + (H - 44) / 2) + ")" }, run.names[1]);
    state = { sx, sy, margins, line, dots };
  }

  function drawChart() {
    chart.replaceChildren();
    const W = 440, H = 360, looks = run.looks, finite = looks.flatMap((l) => [l.primal, l.dual]).filter((v) => v !== null && isFinite(v));
    // P may start far above: the axis ends a little above the first value that is not.
    const last = looks[looks.length - 1], low = Math.min(0, ...finite), high = Math.min(Math.max(...finite), 4 * last.primal + 1e-12);
    const most = Math.log10(Math.max(last.epoch, 2)), sx = (e) => 66 + (Math.log10(Math.max(e, 1)) / most) * (W - 80);
    const sy = (v) => H - 34 - (Math.min(Math.max((v - low) / (high - low || 1), 0), 1)) * (H - 48);
    drawn(chart, "rect", { x: 66, y: 10, width: W - 76, height: H - 44, class: "frame" });
    [low, (low + high) / 2, high].forEach((v) => drawn(chart, "text", { x: 60, y: sy(v) + 4, "text-anchor": "end" }, shown(v)));
    [1, 10, 100, 1000].filter((e) => e * 3 < last.epoch).concat(last.epoch).forEach((e) => drawn(chart, "text", { x: sx(e), y: H - 20, "text-anchor": e === 1 ? "start" : e === last.epoch ? "end" : "middle" }, String(e)));
    drawn(chart, "text", { x: 66 + (W - 76) / 2, y: H - 6, "text-anchor": "middle" }, "epochs");
    const path = (key) => looks.filter((l) => isFinite(l[key])).map((l, i) => (i ? "L" : "M") + sx(l.epoch).toFixed(1) + " " + sy(l[key]).toFixed(1)).join("");
    drawn(chart, "path", { d: path("primal"), class: "primal" });
    drawn(chart, "path", { d: path("dual"), class: "dual" });
    drawn(chart, "text", { x: W - 14, y: H - 68, "text-anchor": "end", class: "primal-name" }, "P, this model");
    drawn(chart, "text", { x: W - 14, y: H - 48, "text-anchor": "end", class: "dual-name" }, "D, the bound");
    state.gap = drawn(chart, "line", { class: "gap" });
    state.chart = { sx, sy };
  }

  function move() {
    const look = run.looks[Number(slider.value)], [a, b, c] = look.line;
    [[state.line, 0], [state.margins[0], 1], [state.margins[1], -1]].forEach(([line, shift]) => {
      const ends = segment(a, b, c - shift);
      line.style.display = ends.length < 2 ? "none" : "";
      ends.forEach((end, i) => { line.setAttribute("x" + (i + 1), state.sx(end[0]).toFixed(1)); line.setAttribute("y" + (i + 1), state.sy(end[1]).toFixed(1)); });
    });
    const inside = new Set(look.inside);
    state.dots.forEach((dot, i) => dot.classList.toggle("support", inside.has(i)));
    const { sx, sy } = state.chart, x = sx(look.epoch).toFixed(1);
    [["x1", x], ["x2", x], ["y1", sy(look.primal).toFixed(1)], ["y2", sy(look.dual).toFixed(1)]].forEach(([key, value]) => state.gap.setAttribute(key, value));
    told.textContent = "epoch " + look.epoch + ": P = " + shown(look.primal) + ", D = " + shown(look.dual) + ", gap " + shown(look.primal - look.dual) + ", " +
      inside.size + " of the " + run.points.length + " rows shown on or inside the margin" + (look.test_error === null ? "" : ", test error " + shown(look.test_error));
    slider.setAttribute("aria-valuetext", "epoch " + look.epoch);
  }

  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) >= Number(slider.max)) slider.value = 0;
    play.textContent = "Stop";
    timer = setInterval(() => {
      if (Number(slider.value) >= Number(slider.max)) return stop();
      slider.value = Number(slider.value) + 1;
      move();
    }, 250);
  });
  runs.forEach((each, i) => select.add(new Option(each.title, String(i))));
  select.addEventListener("change", () => { stop(); open(Number(select.value)); });
  slider.addEventListener("input", () => { stop(); move(); });
  place.hidden = false;
  open(0);
})().catch((error) => { still(); throw error; });
