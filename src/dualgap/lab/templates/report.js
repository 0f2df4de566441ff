
(async function () {
  const [plotly, curves, figures] = await Promise.all([unpack("plotly"), unpack("curve-data").then(JSON.parse), unpack("figure-data").then(JSON.parse)]);
  const script = document.createElement("script");
  script.textContent = plotly;
  document.head.append(script);
  // No button that sends data anywhere; the page's policy forbids it as well.
  const settings = {
    responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    showSendToCloud: false, showEditInChartStudio: false, plotlyServerURL: "",
  };
  // Plotly reads some tags in text: a name is shown as it is written.
  const literal = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const faded = (colour, opacity) => "rgba(" + [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)).join(",") + "," + opacity + ")";

  // ------------------------------------------------------------------------------------------------------------ the explorer
  const choice = { problem: 0, x: "cpu_seconds", y: "relative_gap", hidden: new Set() };
  const xLog = document.getElementById("x-log"), yLog = document.getElementById("y-log"), plot = document.getElementById("explorer");

  function positive(values, log) { return log ? values.map((v) => (v > 0 ? v : null)) : values; }

  function traces(problem) {
    const out = [];
    for (const line of problem.lines) {
      const y = line.y[choice.y], style = curves.styles[line.solver];
      if (!y || choice.hidden.has(line.solver)) continue;
      const x = positive(line.x[choice.x], xLog.checked), name = literal(line.label);
      if (y.low) {
        const edge = { type: "scatter", mode: "lines", x: x, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
        out.push(Object.assign({}, edge, { y: positive(y.low, yLog.checked) }));
        out.push(Object.assign({}, edge, { y: positive(y.high, yLog.checked), fill: "tonexty", fillcolor: faded(style.colour, 0.15) }));
      }
      out.push({
        type: "scatter", mode: x.length > 1 ? "lines" : "markers", x: x, y: positive(y.mean, yLog.checked), name: name, showlegend: false,
        line: { color: style.colour, width: 2.2, dash: style.dash }, marker: { color: style.colour, size: 8, symbol: style.marker },
        hovertemplate: name + "<br>%{x:.4g}<br>%{y:.5g}<extra></extra>",
      });
    }
    return out;
  }

  // On a log axis: powers of ten over several decades, 1, 2 and 5 times those over fewer.
  function marks(shown, key) {
    const values = shown.flatMap((trace) => trace[key].filter((v) => v > 0));
    if (!values.length) return {};
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b)), span = Math.log10(high / low);
    if (span > 1.5) return { exponentformat: "power", dtick: Math.ceil(span / 8) };
    const ticks = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++) [1, 2, 5].forEach((m) => ticks.push(Number((m * 10 ** k).toPrecision(2))));
    const kept = ticks.filter((tick) => tick >= 0.9 * low && tick <= 1.1 * high);
    return kept.length > 1 ? { tickvals: kept, ticktext: kept.map(String) } : {};
  }

  function axis(title, log, shown, key) {
    const shared = { title: { text: literal(title), standoff: 8 }, gridcolor: "#e4e8ee", linecolor: "#8a94a3", ticks: "outside", tickcolor: "#8a94a3", zeroline: false, automargin: true };
    return Object.assign(shared, log ? Object.assign({ type: "log" }, marks(shown, key)) : { type: "linear" });
  }

  function show() {
    const problem = curves.problems[choice.problem];
    if (!problem) return;
    const shown = traces(problem);
    Plotly.react(plot, shown, {
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 13, color: "#1b2430" },
      margin: { l: 70, r: 14, t: 14, b: 56 }, hovermode: "closest", paper_bgcolor: "#fff", plot_bgcolor: "#fff",
      xaxis: axis(curves.names[choice.x], xLog.checked, shown, "x"), yaxis: axis(curves.names[choice.y], yLog.checked, shown, "y"),
    }, settings);
  }

  function buttons(place, columns, key) {
    const made = columns.map((column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.column = column;
      button.textContent = curves.short[column];
      button.addEventListener("click", () => {
        choice[key] = column;
        if (key === "y") yLog.checked = curves.log.includes(column);
        press();
        show();
      });
      place.append(button);
      return button;
    });
    const press = () => made.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.column === choice[key])));
    press();
  }

  function chips() {
    const place = document.getElementById("solvers");
    place.replaceChildren();
    for (const line of curves.problems[choice.problem].lines) {
      const style = curves.styles[line.solver], button = document.createElement("button");
      const dash = { solid: "", dash: "6 3", dot: "2 2", dashdot: "6 2 2 2" }[style.dash];
      button.type = "button";
      button.dataset.solver = line.solver;
      button.innerHTML = '<svg width="24" height="6" aria-hidden="true"><line x1="0" y1="3" x2="24" y2="3" stroke-width="3"></line></svg>';
      const stroke = button.querySelector("line");
      stroke.setAttribute("stroke", style.colour);
      stroke.setAttribute("stroke-dasharray", dash);
      button.append(document.createTextNode(line.label));
      button.setAttribute("aria-pressed", String(!choice.hidden.has(line.solver)));
      button.addEventListener("click", () => {
        if (!choice.hidden.delete(line.solver)) choice.hidden.add(line.solver);
        button.setAttribute("aria-pressed", String(!choice.hidden.has(line.solver)));
        show();
      });
      place.append(button);
    }
  }

  if (curves.problems.length) {
    const select = document.getElementById("problem");
    curves.problems.forEach((problem, i) => select.add(new Option(problem.title, String(i))));
    select.addEventListener("change", () => { choice.problem = Number(select.value); chips(); show(); });
    buttons(document.getElementById("x-axis"), curves.x, "x");
    buttons(document.getElementById("y-axis"), curves.y, "y");
    xLog.addEventListener("change", show);
    yLog.addEventListener("change", show);
    chips();
    show();
  } else {
    document.getElementById("curves").hidden = true;
  }

  // --------------------------------------------------------------------------------------------------------------- the figures
  const draw = (place) => {
    if (place.dataset.drawn) return;
    place.dataset.drawn = "yes";
    const figure = figures[Number(place.dataset.figure)], columns = fitting(figure, place);
    place.dataset.columns = columns;
    place.style.minHeight = figure.layouts[columns].height + "px";
    Plotly.newPlot(place, figure.data, figure.layouts[columns], settings);
  };
  // The most panels side by side that leave each of them 250 pixels.
  const fitting = (figure, place) => {
    const choices = Object.keys(figure.layouts).map(Number), width = place.clientWidth || 1000;
    return String(Math.max(...choices.filter((k) => k === 1 || width / k >= 250)));
  };
  let resized = null;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => places.forEach((place) => {
      const figure = figures[Number(place.dataset.figure)], columns = fitting(figure, place);
      if (!place.dataset.drawn || place.dataset.columns === columns) return;
      place.dataset.columns = columns;
      place.style.minHeight = figure.layouts[columns].height + "px";
      Plotly.react(place, figure.data, figure.layouts[columns], settings);
    }), 150);
  });
  const places = document.querySelectorAll("[data-figure]");
  places.forEach((place) => { const figure = figures[Number(place.dataset.figure)]; place.style.minHeight = figure.layouts[fitting(figure, place)].height + "px"; });
  // What comes into view is drawn at once, the rest while the page is idle; before printing, all of it.
  const watcher = new IntersectionObserver((seen) => seen.forEach((entry) => { if (entry.isIntersecting) draw(entry.target); }), { rootMargin: "600px" });
  places.forEach((place) => watcher.observe(place));
  const waiting = Array.from(places);
  const next = () => { const place = waiting.shift(); if (place) { draw(place); setTimeout(next, 30); } };
  setTimeout(next, 300);
  window.addEventListener("beforeprint", () => {
    places.forEach(draw);
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
  });
})().catch((error) => { stills(); throw error; });
