// Curves of metrics: one chart for each metric, one line for each run, drawn when it comes into view and fed while a run goes on.
"use strict";

(() => {
  const board = document.querySelector("[data-charts]");
  if (!board || !window.echarts) return;
  const runs = board.dataset.runs.split(",");
  const names = JSON.parse(board.dataset.names);
  const POINTS = 1000, MOST_KEPT = 6000, KEYS_AT_ONCE = 10, EVERY = 3000, DASHED_FROM = 10;

  // What the reader likes is kept in this browser.
  const kept = () => { try { return JSON.parse(localStorage.getItem("falaj-charts")) ?? {}; } catch { return {}; } };
  const view = { x: "step", log: false, smooth: 0, ...kept() };
  const keep = () => { try { localStorage.setItem("falaj-charts", JSON.stringify(view)); } catch { /* private windows keep nothing */ } };

  const { short, ask } = window.falajDrawing;
  let palette = {};
  const readPalette = () => { palette = window.falajDrawing.palette(board); };

  const span = (milliseconds) => {
    const seconds = milliseconds / 1000;
    if (Math.abs(seconds) < 120) return `${short(seconds)} s`;
    return seconds < 7200 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
  };

  // An exponential moving average that is right from the first point on.
  const smoothed = (values, weight) => {
    let last = 0, seen = 0;
    return values.map((value) => {
      if (value === null) return null;
      last = last * weight + (1 - weight) * value;
      seen += 1;
      return last / (1 - weight ** seen);
    });
  };

  class Curve {
    constructor() { this.steps = []; this.times = []; this.values = []; this.total = 0; }

    replace(from) { [this.steps, this.times, this.values, this.total] = [from.steps, from.timestamps, from.values, from.total]; }

    // What comes behind the last point; the point itself comes again, for more may have come at its step.
    append(from) {
      const last = this.steps.length - 1;
      const isNew = (i) => last < 0 || from.steps[i] > this.steps[last] || (from.steps[i] === this.steps[last] && from.timestamps[i] > this.times[last]);
      let added = 0;
      for (let i = 0; i < from.steps.length; i += 1) {
        if (!isNew(i)) continue;
        this.steps.push(from.steps[i]);
        this.times.push(from.timestamps[i]);
        this.values.push(from.values[i]);
        added += 1;
      }
      this.total += added;
      return added > 0;
    }

    places() {
      if (view.x === "step") return this.steps;
      return view.x === "time" ? this.times : this.times.map((time) => time - this.times[0]);
    }
  }

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.key = figure.dataset.metric;
      this.holder = figure.querySelector(".chart-plot");
      this.curves = new Map(runs.map((run) => [run, new Curve()]));
      this.asked = false;
      this.seen = false;
      charts.set(this.key, this);
      onScreen.observe(figure);
    }

    take(run, points, whole) {
      const curve = this.curves.get(run);
      if (!curve) return;
      if (whole) curve.replace(points);
      else if (!curve.append(points)) return;
      this.changed = true;
    }

    draw() {
      if (!this.seen) return;
      const points = this.curves.get(runs[0]).total;
      if (runs.length === 1 && points < 2) { this.drawNumber(); return; }
      this.figure.classList.remove("lone");
      if (!this.plot) {
        this.holder.replaceChildren();
        this.plot = echarts.init(this.holder, null, { renderer: "canvas" });
        this.plot.group = "metrics";
        resized.observe(this.holder);
      }
      this.changed = false;
      this.plot.setOption(this.option(), { notMerge: true, lazyUpdate: true });
      this.tell();
    }

    // One point is a number, not a course.
    drawNumber() {
      this.changed = false;
      const { values } = this.curves.get(runs[0]);
      if (!values.length) return;
      const number = document.createElement("p");
      number.className = "chart-number";
      number.textContent = values[0] === null ? "NaN" : short(values[0]);
      this.figure.classList.add("lone");
      this.holder.replaceChildren(number);
      this.tell();
    }

    option() {
      const series = [];
      runs.forEach((run, index) => {
        const curve = this.curves.get(run);
        const paint = palette.series[index % DASHED_FROM];
        const line = { type: "line", showSymbol: curve.values.length === 1, symbolSize: 6, animation: false, lineStyle: { width: 1.8, type: index < DASHED_FROM ? "solid" : "dashed" }, itemStyle: { color: paint } };
        const places = curve.places();
        const pairs = (values) => values.map((value, i) => [places[i], view.log && value !== null && value <= 0 ? null : value]);
        if (view.smooth > 0) {
          series.push({ ...line, name: names[index], data: pairs(curve.values), silent: true, lineStyle: { ...line.lineStyle, width: 1, opacity: 0.28 }, tooltip: { show: false }, z: 1 });
        }
        series.push({ ...line, name: names[index], data: pairs(view.smooth > 0 ? smoothed(curve.values, view.smooth) : curve.values), z: 2 });
      });
      const text = { color: palette.soft, fontSize: 11 };
      const named = { step: "step", time: "time", since: "since the start" };
      return {
        animation: false,
        grid: { left: 8, right: 14, top: 12, bottom: view.wide ? 44 : 22, containLabel: true },
        xAxis: {
          type: view.x === "time" ? "time" : "value", name: named[view.x], nameLocation: "middle", nameGap: 24, nameTextStyle: text, min: "dataMin", max: "dataMax",
          axisLabel: { ...text, hideOverlap: true, formatter: view.x === "since" ? span : view.x === "step" ? short : undefined },
          axisLine: { lineStyle: { color: palette.line } }, axisTick: { show: false }, splitLine: { show: false },
        },
        yAxis: {
          type: view.log ? "log" : "value", scale: true, axisLabel: { ...text, formatter: short, hideOverlap: true }, splitNumber: 4,
          splitLine: { lineStyle: { color: palette.line } }, axisLine: { show: false }, axisTick: { show: false },
        },
        // Drawn on the canvas: a tooltip of HTML would bring styles of its own, which the page's policy forbids.
        tooltip: {
          trigger: "axis", renderMode: "richText", confine: true, order: "valueDesc", backgroundColor: palette.raised, borderColor: palette.line,
          textStyle: { color: palette.ink, fontSize: 12 }, axisPointer: { lineStyle: { color: palette.soft } }, formatter: (points) => this.words(points),
        },
        dataZoom: [{ type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, preventDefaultMouseMove: false }],
        series,
      };
    }

    words(points) {
      const place = points[0]?.axisValue;
      const head = view.x === "step" ? `step ${place}` : view.x === "time" ? new Date(place).toLocaleString() : span(place);
      const seen = new Map(points.map((point) => [point.seriesIndex, point]));
      const lines = [...seen.values()].filter((point) => view.smooth === 0 || point.seriesIndex % 2 === 1);
      const rows = lines.slice(0, 20).map((point) => (runs.length > 1 ? `${point.seriesName.slice(0, 28)}  ${short(point.value[1])}` : short(point.value[1])));
      return [head, ...rows].join("\n");
    }

    // What the picture shows, for those who do not see it.
    tell() {
      const values = [...this.curves.values()].flatMap((curve) => curve.values).filter((value) => value !== null);
      const curve = this.curves.get(runs[0]);
      const last = curve.values.at(-1);
      const count = [...this.curves.values()].reduce((sum, one) => sum + one.total, 0);
      const low = values.reduce((least, value) => Math.min(least, value), Infinity);
      const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
      this.holder.setAttribute("aria-label", `${this.key}: ${count === 1 ? "one point" : `${count} points`} of ${runs.length === 1 ? "one run" : `${runs.length} runs`}, from ${short(low)} to ${short(high)}, last ${short(last)}`);
      if (runs.length === 1 && values.length) {
        this.figure.querySelector(".chart-last").textContent = last === null ? "NaN" : short(last);
      }
      this.holder.dataset.points = String(count);
    }
  }

  // Asking

  const trouble = (words) => window.falajDrawing.trouble(board, words);
  const inPieces = (list, size) => Array.from({ length: Math.ceil(list.length / size) }, (_, i) => list.slice(i * size, (i + 1) * size));
  const readCurves = async (wanted, firstStep) => {
    for (const piece of inPieces(wanted, KEYS_AT_ONCE)) {
      const parameters = [...piece.map((chart) => ["key", chart.key]), ["runs", runs.join(",")], ["points", POINTS]];
      if (firstStep !== undefined) parameters.push(["first_step", firstStep]);
      const found = await ask(board.dataset.charts, parameters);
      for (const points of found.items) charts.get(points.key)?.take(points.run, points, firstStep === undefined);
      for (const chart of piece) if (chart.changed) chart.draw();
    }
  };
  let waiting = false;
  const askSoon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(async () => {
      waiting = false;
      const wanted = [...charts.values()].filter((chart) => chart.seen && !chart.asked);
      for (const chart of wanted) chart.asked = true;
      try {
        await readCurves(wanted);
        trouble("");
      } catch (error) {
        trouble(`The curves could not be read: ${error.message}`);
        for (const chart of wanted) chart.asked = false;
      }
    });
  };

  const charts = new Map();
  const onScreen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const chart = charts.get(entry.target.dataset.metric);
      chart.seen = entry.isIntersecting;
      if (chart.seen && chart.changed) chart.draw();
    }
    askSoon();
  }, { rootMargin: "200px" });
  const { resized } = window.falajDrawing;
  const drawAll = () => { for (const chart of charts.values()) { if (chart.asked) chart.changed = true; if (chart.changed) chart.draw(); } };

  // A run that goes on: ask for what is new, and for metrics that were not there before.

  const addFigure = (key) => {
    const figure = board.querySelector("template").content.firstElementChild.cloneNode(true);
    figure.dataset.metric = key;
    figure.querySelector(".chart-name").textContent = key;
    figure.querySelector("button").setAttribute("aria-label", `Enlarge ${key}`);
    board.querySelector(".charts").append(figure);
    new Chart(figure);
  };
  const follow = async () => {
    if (document.hidden) return;
    const run = await ask(board.dataset.live, {});
    for (const metric of run.metrics) {
      if (!charts.has(metric.key)) addFigure(metric.key);
    }
    board.querySelector("[data-none]")?.remove();
    const wanted = [...charts.values()].filter((chart) => chart.seen && chart.asked);
    const [crowded, others] = [(chart) => chart.curves.get(runs[0]).values.length > MOST_KEPT, (chart) => !crowded(chart)];
    const steps = wanted.filter(others).map((chart) => chart.curves.get(runs[0]).steps.at(-1) ?? 0);
    if (steps.length) await readCurves(wanted.filter(others), Math.min(...steps));
    if (wanted.some(crowded)) await readCurves(wanted.filter(crowded));
    if (run.info.status !== "RUNNING" && run.info.status !== "SCHEDULED") location.reload();
  };
  const poll = async () => {
    try {
      await follow();
      trouble("");
    } catch (error) {
      trouble(`No news of this run: ${error.message || "the server does not answer"}. Trying again.`);
    }
    setTimeout(poll, EVERY);
  };

  // Controls

  const wireControls = () => {
    const controls = board.querySelector(".chart-controls");
    controls.hidden = false;
    const [axis, log, smooth, shown, find] = ["x", "log", "smooth", "smoothness", "find"].map((name) => controls.querySelector(`[data-chart-${name}]`));
    axis.value = view.x;
    log.checked = view.log;
    smooth.value = view.smooth;
    const tellSmooth = () => { shown.textContent = Number(view.smooth) ? Number(view.smooth).toFixed(2) : "off"; };
    tellSmooth();
    axis.addEventListener("change", () => { view.x = axis.value; keep(); drawAll(); });
    log.addEventListener("change", () => { view.log = log.checked; keep(); drawAll(); });
    smooth.addEventListener("input", () => { view.smooth = Number(smooth.value); tellSmooth(); keep(); drawAll(); });
    find?.addEventListener("input", () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const figure of board.querySelectorAll("figure[data-metric]")) {
        figure.hidden = !words.every((word) => figure.dataset.metric.toLowerCase().includes(word));
      }
    });
    window.falajDrawing.enlarges(board);
  };

  readPalette();
  wireControls();
  for (const figure of board.querySelectorAll("figure[data-metric]")) new Chart(figure);
  echarts.connect("metrics");
  const repaint = () => { readPalette(); drawAll(); };
  window.falajDrawing.onNewColours(repaint);
  if (board.dataset.live) setTimeout(poll, EVERY);
})();
