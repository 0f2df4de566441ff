
// ------------------------------------------------------------------------------------------------------------------- the curves
(async function () {
  const curves = JSON.parse(await unpack("curve-data")), plot = document.getElementById("explorer");
  if (!curves.problems.length) return;
  const choice = { problem: 0, x: "cpu_seconds", y: "relative_gap", middle: "mean", hidden: new Set() };
  const xLog = document.getElementById("x-log"), yLog = document.getElementById("y-log"), told = document.getElementById("curve-told");
  const DASH = { solid: "", dash: "7 3", dot: "2 2", dashdot: "7 2 2 2" }, H = 440, LEFT = 66, RIGHT = 14, TOP = 10, BOTTOM = 48;
  const paint = (style) => "var(--" + style.colour.slice(1) + ", " + style.colour + ")";
  const can = (v, log) => v !== null && isFinite(v) && (v > 0 || !log);

  // Ticks of an axis: on a log axis powers of ten, or 1, 2 and 5 times these where it spans few, or even steps where it spans less.
  function ticks(low, high, log) {
    let out = [];
    const within = (v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9), span = log ? Math.log10(high / low) : 0;
    if (log) {
      const step = Math.max(1, Math.round(span / 6));
      for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++)
        if (span > 2) { if (k % step === 0) out.push(10 ** k); } else out.push(...[1, 2, 5].map((m) => Number((m * 10 ** k).toPrecision(2))));
      out = out.filter(within);
    }
    if (out.length < 2) {
      const rough = (high - low) / 5 || 1, unit = 10 ** Math.floor(Math.log10(rough)), step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough);
      out = [];
      for (let v = Math.ceil(low / step) * step; v <= high * (1 + 1e-9); v += step) out.push(Number(v.toPrecision(6)));
    }
    return out;
  }

  function axis(values, log, from, to) {
    const kept = values.filter((v) => can(v, log));
    let low = kept.reduce((a, b) => Math.min(a, b), Infinity), high = kept.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!kept.length) [low, high] = [1, 10];
    if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    const t = log ? Math.log10 : (v) => v;
    return { low, high, log, at: (v) => from + ((t(v) - t(low)) / (t(high) - t(low))) * (to - from), ticks: ticks(low, high, log) };
  }

  let points = [], marker = null;
  function show() {
    const problem = curves.problems[choice.problem], W = Math.max(plot.clientWidth, 280);
    const lines = problem.lines.filter((line) => line.y[choice.y] && !choice.hidden.has(line.solver));
    const x = axis(lines.flatMap((line) => line.x[choice.x]), xLog.checked, LEFT, W - RIGHT);
    const y = axis(lines.flatMap((line) => line.y[choice.y][choice.middle].flat()), yLog.checked, H - BOTTOM, TOP);
    plot.replaceChildren();
    plot.setAttribute("viewBox", "0 0 " + W + " " + H);
    points = [];
    for (const v of x.ticks) {
      drawn(plot, "line", { x1: x.at(v), x2: x.at(v), y1: TOP, y2: H - BOTTOM, class: "grid" });
      drawn(plot, "text", { x: x.at(v), y: H - BOTTOM + 18, "text-anchor": "middle" }, shown(v));
    }
    for (const v of y.ticks) {
      drawn(plot, "line", { x1: LEFT, x2: W - RIGHT, y1: y.at(v), y2: y.at(v), class: "grid" });
      drawn(plot, "text", { x: LEFT - 7, y: y.at(v) + 4, "text-anchor": "end" }, shown(v));
    }
    drawn(plot, "text", { x: (LEFT + W - RIGHT) / 2, y: H - 8, "text-anchor": "middle", class: "axis" }, curves.names[choice.x]);
    drawn(plot, "text", { x: 13, y: (H - BOTTOM) / 2, "text-anchor": "middle", class: "axis", transform: "rotate(-90 13 " + (H - BOTTOM) / 2 + ")" }, curves.names[choice.y]);
    for (const line of lines) {
      const style = curves.styles[line.solver], xs = line.x[choice.x], [middle, low, high] = line.y[choice.y][choice.middle];
      const place = (values, i) => (can(xs[i], x.log) && can(values[i], y.log) ? [x.at(xs[i]), y.at(values[i])] : null);
      const path = (values, order) => order.map((i) => place(values, i)).filter(Boolean).map((p) => p[0].toFixed(1) + " " + p[1].toFixed(1));
      const order = xs.map((_, i) => i);
      if (low) {
        const around = [...path(low, order), ...path(high, order.slice().reverse())];
        if (around.length > 2) drawn(plot, "path", { d: "M" + around.join("L") + "Z", class: "band", style: "fill:" + paint(style) });
      }
      const along = path(middle, order);
      if (along.length) drawn(plot, "path", { d: "M" + along.join("L") + (along.length < 2 ? "h.1" : ""), class: "curve", style: "stroke:" + paint(style) + (along.length < 2 ? ";stroke-width:7;stroke-linecap:round" : ""), "stroke-dasharray": DASH[style.dash] });
      order.forEach((i) => { const at = place(middle, i); if (at) points.push([at[0], at[1], line.label, xs[i], middle[i]]); });
    }
    marker = drawn(plot, "circle", { r: 4.5, class: "marker", visibility: "hidden" });
  }

  // The nearest point of a curve, in words below the drawing.
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect(), x = ((event.clientX - box.left) * plot.viewBox.baseVal.width) / box.width, y = ((event.clientY - box.top) * H) / box.height;
    let best = null, least = 40;
    for (const point of points) { const far = Math.hypot(point[0] - x, point[1] - y); if (far < least) [best, least] = [point, far]; }
    marker.setAttribute("visibility", best ? "visible" : "hidden");
    if (!best) return;
    marker.setAttribute("cx", best[0]);
    marker.setAttribute("cy", best[1]);
    told.textContent = best[2] + ": " + shown(best[4]) + " (" + curves.names[choice.y] + ") at " + shown(best[3]) + " " + curves.names[choice.x];
  });

  function button(place, text, pressed, data, click) {
    const made = document.createElement("button");
    made.type = "button";
    Object.assign(made.dataset, data);
    made.append(...text);
    made.setAttribute("aria-pressed", String(pressed));
    made.addEventListener("click", () => { click(made); show(); });
    place.append(made);
    return made;
  }

  function choices(place, columns, key) {
    const made = columns.map((column) => button(place, [curves.short[column] || column], column === choice[key], { column }, () => {
      choice[key] = column;
      if (key === "y") yLog.checked = curves.log.includes(column);
      made.forEach((each) => each.setAttribute("aria-pressed", String(each.dataset.column === column)));
    }));
  }

  function chips() {
    const place = document.getElementById("solvers");
    place.replaceChildren();
    for (const line of curves.problems[choice.problem].lines) {
      const style = curves.styles[line.solver], swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      for (const [key, value] of [["width", 24], ["height", 6], ["aria-hidden", "true"]]) swatch.setAttribute(key, value);
      drawn(swatch, "line", { x1: 0, y1: 3, x2: 24, y2: 3, style: "stroke:" + paint(style), "stroke-width": 3, "stroke-dasharray": DASH[style.dash] });
      button(place, [swatch, line.label], !choice.hidden.has(line.solver), { solver: line.solver }, (made) => {
        if (!choice.hidden.delete(line.solver)) choice.hidden.add(line.solver);
        made.setAttribute("aria-pressed", String(!choice.hidden.has(line.solver)));
      });
    }
  }

  const select = document.getElementById("problem");
  curves.problems.forEach((problem, i) => select.add(new Option(problem.title, String(i))));
  select.addEventListener("change", () => { choice.problem = Number(select.value); chips(); show(); });
  choices(document.getElementById("x-axis"), curves.x, "x");
  choices(document.getElementById("y-axis"), curves.y, "y");
  choices(document.getElementById("middle"), curves.middles, "middle");
  xLog.addEventListener("change", show);
  yLog.addEventListener("change", show);
  new ResizeObserver(show).observe(plot.parentElement);
  chips();
  show();
})().catch((error) => { still(); throw error; });
