// An endpoint's page: charts of its traffic by revision, lines where the split changed, and what is new, asked for every few seconds.
"use strict";

(() => {
  const board = document.querySelector("[data-traffic]");
  if (!board || !window.echarts) return;
  const { short, ask, resized } = window.falajDrawing;
  const EVERY = 5000, LATE = 300, TOO_YOUNG = 0.25, SERIES = 10;
  const seconds = Number(board.dataset.seconds);
  const plots = new Map();
  // By the server's clock, as all moments are: the reader's own may be wrong.
  const ahead = Number(board.dataset.clock) - Date.now();
  const clock = () => Date.now() + ahead;
  let palette = {}, points = [], readAt = clock();

  const now = () => document.getElementById("now");
  const markers = () => JSON.parse(now().dataset.markers);
  const nameOf = (revision) => JSON.parse(now().dataset.names)[revision] ?? "";
  const shadows = () => new Set(board.dataset.shadows.split(",").filter(Boolean).map(Number));

  // Points come by revision, and only where something happened: all steps of time are laid out, and what is missing is nothing.

  // A step that has hardly begun says too little by itself: it is counted with the one before.
  const together = (one, other) => ({
    ...Object.fromEntries(["requests", "errors", "shed", "rows", "batches"].map((name) => [name, one[name] + other[name]])),
    ...Object.fromEntries(["p50", "p90", "p99"].map((name) => [name, Math.max(one[name], other[name])])),
  });
  const laidOut = () => {
    if (!points.length) return { slots: [], byRevision: new Map() };
    const width = points[0].seconds * 1000;
    const first = Math.floor((readAt - seconds * 1000) / width);
    let last = Math.floor(readAt / width);
    if (readAt - last * width < width * TOO_YOUNG) last -= 1;
    const slots = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => ({ at: (first + i) * width, seconds: (first + i === last ? readAt - last * width : width) / 1000 }));
    const byRevision = new Map();
    for (const point of points) {
      if (!byRevision.has(point.revision)) byRevision.set(point.revision, new Map());
      const found = byRevision.get(point.revision);
      const at = Math.min(Math.round(Date.parse(point.at) / width), last) * width;
      found.set(at, found.has(at) ? together(found.get(at), point) : point);
    }
    return { slots, byRevision };
  };

  const lines = {
    rate: [["", "solid", (point, slot) => (point ? point.requests / slot.seconds : 0)]],
    latency: [["p50", "dotted", (point) => (point?.requests ? point.p50 : null)], ["p90", "dashed", (point) => (point?.requests ? point.p90 : null)], ["p99", "solid", (point) => (point?.requests ? point.p99 : null)]],
    errors: [["errors", "solid", (point, slot) => (point ? point.errors / slot.seconds : 0)], ["refused", "dashed", (point, slot) => (point ? point.shed / slot.seconds : 0)]],
    batch: [["", "solid", (point) => (point?.batches ? point.rows / point.batches : null)]],
  };

  const seriesOf = (chart, { slots, byRevision }) => [...byRevision.keys()].sort((a, b) => a - b).flatMap((revision) => lines[chart].map(([words, type, value]) => ({
    type: "line", name: `revision ${revision}${words && ` ${words}`}`, animation: false, symbol: "circle", showSymbol: slots.length === 1, symbolSize: 5, connectNulls: false,
    lineStyle: { width: 1.8, type }, itemStyle: { color: palette.series[revision % SERIES] },
    data: slots.map((slot) => [slot.at, value(byRevision.get(revision).get(slot.at), slot)]),
  })));

  // Where the split changed: on a series of its own, so that the lines stand also where nobody called.
  const marked = () => {
    const from = readAt - seconds * 1000;
    return {
      type: "line", name: "", data: [], animation: false, silent: false, tooltip: { show: false },
      markLine: {
        symbol: "none", animation: false, silent: false, lineStyle: { color: palette.soft, type: "solid", width: 1 }, label: { show: false },
        emphasis: { label: { show: true, formatter: (mark) => mark.name, color: palette.ink, backgroundColor: palette.raised, borderColor: palette.line, borderWidth: 1, padding: 5, position: "insideEndTop", rotate: 0, width: 220, overflow: "break" } },
        data: markers().filter((mark) => mark.at >= from && mark.at <= readAt).map((mark) => ({ xAxis: mark.at, name: mark.words })),
      },
    };
  };

  const option = (chart, unit, laid) => {
    const text = { color: palette.soft, fontSize: 11 };
    return {
      animation: false,
      grid: { left: 8, right: 14, top: 12, bottom: 8, containLabel: true },
      xAxis: { type: "time", min: readAt - seconds * 1000, max: readAt, axisLabel: { ...text, hideOverlap: true }, axisLine: { lineStyle: { color: palette.line } }, axisTick: { show: false }, splitLine: { show: false } },
      yAxis: { type: "value", min: 0, splitNumber: 3, axisLabel: { ...text, formatter: (value) => `${short(value)}${unit}`, hideOverlap: true }, splitLine: { lineStyle: { color: palette.line } }, axisLine: { show: false }, axisTick: { show: false } },
      // Drawn on the canvas: a tooltip of HTML would bring styles of its own, which the page's policy forbids.
      tooltip: {
        trigger: "axis", renderMode: "richText", confine: true, backgroundColor: palette.raised, borderColor: palette.line, textStyle: { color: palette.ink, fontSize: 12 }, axisPointer: { lineStyle: { color: palette.soft } },
        formatter: (found) => [new Date(found[0]?.axisValue).toLocaleString(), ...found.filter((one) => one.value[1] !== null).map((one) => `${one.seriesName}  ${short(one.value[1])}${unit}`)].join("\n"),
      },
      series: [...seriesOf(chart, laid), marked()],
    };
  };

  const draw = () => {
    const laid = laidOut();
    for (const figure of board.querySelectorAll("figure[data-chart]")) {
      const holder = figure.querySelector(".chart-plot");
      if (!plots.has(figure)) {
        holder.replaceChildren();
        const plot = echarts.init(holder, null, { renderer: "canvas" });
        plot.group = "traffic";
        plots.set(figure, plot);
        resized.observe(holder);
      }
      const made = option(figure.dataset.chart, figure.dataset.unit, laid);
      plots.get(figure).setOption(made, { notMerge: true, lazyUpdate: true });
      const values = made.series.flatMap((one) => one.data.map((pair) => pair[1])).filter((value) => value !== null);
      const words = values.length ? `from ${short(Math.min(...values))} to ${short(Math.max(...values))}${figure.dataset.unit}` : "nothing yet";
      holder.setAttribute("aria-label", `${figure.querySelector(".chart-name").textContent}: ${words}; the split changed ${made.series.at(-1).markLine.data.length} times`);
      holder.dataset.points = String(values.length);
      holder.dataset.markers = String(made.series.at(-1).markLine.data.length);
    }
    if (points.length) board.querySelector("[data-none]")?.remove();
    tellFigures(laid);
    tellLegend(laid);
  };

  // The numbers above, of the last minutes.
  const tellFigures = ({ slots, byRevision }) => {
    const hidden = shadows();
    const counted = [...byRevision].filter(([revision]) => !hidden.has(revision)).map(([, found]) => found);
    const sum = { calls: 0, errors: 0, shed: 0, seconds: 0, p50: null, p99: null };
    for (const slot of [...slots].reverse()) {
      if (sum.seconds && sum.seconds >= LATE) break;
      sum.seconds += slot.seconds;
      for (const found of counted) {
        const point = found.get(slot.at);
        if (!point) continue;
        sum.calls += point.requests;
        sum.errors += point.errors;
        sum.shed += point.shed;
        if (point.requests) for (const name of ["p50", "p99"]) sum[name] = Math.max(sum[name] ?? 0, point[name]);
      }
    }
    const milliseconds = (value) => (value === null ? "–" : `${value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toFixed(2)} ms`);
    const rate = (count) => `${short(sum.seconds ? Number((count / sum.seconds).toPrecision(3)) : 0)}/s`;
    const share = sum.calls ? (100 * sum.errors) / sum.calls : 0;
    const told = { rate: rate(sum.calls), p50: milliseconds(sum.p50), p99: milliseconds(sum.p99), errors: `${share && share < 0.01 ? "< 0.01" : Number(share.toPrecision(2))} %`, shed: rate(sum.shed) };
    for (const [name, words] of Object.entries(told)) {
      const place = document.querySelector(`[data-figure="${name}"]`);
      if (place) place.textContent = words;
    }
    const last = { rate: told.rate, latency: told.p99, errors: told.errors };
    for (const figure of board.querySelectorAll("figure[data-chart]")) figure.querySelector(".chart-last").textContent = last[figure.dataset.chart] ?? "";
  };

  const tellLegend = ({ byRevision }) => {
    const legend = board.querySelector("[data-legend]");
    const items = [...byRevision.keys()].sort((a, b) => a - b).map((revision) => {
      const item = document.createElement("li");
      const swatch = document.createElement("span");
      const name = document.createElement("bdi");
      swatch.className = `swatch series-${revision % SERIES}`;
      name.className = "soft";
      name.textContent = nameOf(revision);
      item.append(swatch, `revision ${revision} `, name);
      return item;
    });
    if (items.length) legend.replaceChildren(...items, legend.lastElementChild);
  };

  // What changed: the head of the page and its history are drawn anew by the server, unless somebody is at work in them.

  const busy = () => document.querySelector(".sheet:popover-open") || now().contains(document.activeElement);
  const refresh = async () => {
    const seen = await ask(board.dataset.now, {});
    const ready = `${seen.ready}/${seen.planes}`;
    if ((String(seen.serial) === board.dataset.serial && ready === board.dataset.ready) || busy()) return;
    const here = `${location.pathname}?seconds=${seconds}`;
    await htmx.ajax("GET", here, { target: "#now", select: "#now", swap: "outerHTML" });
    if (String(seen.serial) !== board.dataset.serial) await htmx.ajax("GET", here, { target: "#changes", select: "#changes", swap: "outerHTML" });
    board.dataset.serial = String(seen.serial);
    board.dataset.ready = ready;
    board.dataset.shadows = seen.arms.filter((arm) => arm.role === "shadow").map((arm) => arm.revision).join(",");
  };
  const read = async () => {
    const told = await ask(board.dataset.traffic, { seconds });
    points = told.points;
    const hosts = board.querySelector("[data-hosts]");
    hosts.textContent = told.hosts.map((one) => one.sentence).join(" ");
    hosts.hidden = !told.hosts.length;
    readAt = clock();
  };
  const poll = async () => {
    try {
      if (!document.hidden) {
        await refresh();
        await read();
        draw();
      }
      window.falajDrawing.trouble(board, "");
    } catch (error) {
      window.falajDrawing.trouble(board, `No news of this endpoint: ${error.message || "the server does not answer"}. Trying again.`);
    }
    setTimeout(poll, EVERY);
  };

  // A prediction that was refused is shown where its answer would be.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id !== "answer" || event.detail.xhr.status === 401) return;
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  });

  const repaint = () => { palette = window.falajDrawing.palette(board); draw(); };
  palette = window.falajDrawing.palette(board);
  window.falajDrawing.enlarges(board);
  window.falajDrawing.onNewColours(repaint);
  poll();
})();
