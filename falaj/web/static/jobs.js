// Pages of jobs, queues and hosts: parts that the server draws anew every few seconds, charts over time, and a log that grows.
"use strict";

(() => {
  const { short, ask, resized, trouble } = window.falajDrawing;
  const now = () => document.getElementById("now");

  // What is news: the part is drawn by the server, unless somebody is at work in it.

  const busy = (part) => document.querySelector(".sheet:popover-open") || part.contains(document.activeElement);
  const refresh = async () => {
    const part = now();
    const every = Number(part?.dataset.every ?? 0) * 1000;
    if (!every) return;
    if (!document.hidden && !busy(part)) {
      try {
        await htmx.ajax("GET", part.dataset.address, { target: "#now", select: "#now", swap: "outerHTML" });
        trouble(now(), "");
      } catch {
        trouble(now(), "No news: the server does not answer. Trying again.");
      }
    }
    setTimeout(refresh, every);
  };
  if (now()) setTimeout(refresh, Number(now().dataset.every) * 1000 || 0);

  // Charts: points over time, a line for each of their fields, and what was asked for as a line across.

  class Courses {
    constructor(board) {
      this.board = board;
      this.parameters = JSON.parse(board.dataset.parameters ?? "{}");
      this.points = [];
      this.plots = new Map();
      this.palette = window.falajDrawing.palette(board);
      window.falajDrawing.enlarges(board);
      window.falajDrawing.onNewColours(() => { this.palette = window.falajDrawing.palette(board); this.draw(); });
      this.poll();
    }

    async poll() {
      try {
        if (!document.hidden || !this.points.length) {
          this.points = (await ask(this.board.dataset.courses, this.parameters)).points;
          this.draw();
        }
        trouble(this.board, "");
      } catch (error) {
        trouble(this.board, `No figures: ${error.message || "the server does not answer"}.`);
      }
      if (this.board.hasAttribute("data-live")) setTimeout(() => this.poll(), 5000);
      this.board.toggleAttribute("data-live", Number(now()?.dataset.every ?? 0) > 0); // after the end it is read once more
    }

    option(course, unit) {
      const { palette } = this;
      const text = { color: palette.soft, fontSize: 11 };
      const lines = JSON.parse(course.dataset.lines), scale = Number(course.dataset.scale ?? 1), asked = Number(course.dataset.asked ?? 0);
      const series = lines.map(([field, words, type], index) => ({
        type: "line", name: words, animation: false, symbol: "circle", showSymbol: this.points.length === 1, symbolSize: 5,
        lineStyle: { width: 1.8, type }, itemStyle: { color: palette.series[lines.length > 1 ? [9, 0, 1][index] : 0] },
        data: this.points.map((point) => [Date.parse(point.at), point[field] * scale]),
      }));
      if (asked) series[0].markLine = { symbol: "none", animation: false, silent: true, lineStyle: { color: palette.soft, type: "dashed" }, label: { show: false }, data: [{ yAxis: asked }] };
      return {
        animation: false,
        grid: { left: 8, right: 14, top: 12, bottom: 8, containLabel: true },
        xAxis: { type: "time", axisLabel: { ...text, hideOverlap: true }, axisLine: { lineStyle: { color: palette.line } }, axisTick: { show: false }, splitLine: { show: false } },
        yAxis: { type: "value", min: 0, max: (range) => 1.25 * Math.max(range.max, asked) || 1, splitNumber: 3, axisLabel: { ...text, showMaxLabel: false, formatter: (value) => `${short(value)}${unit}`, hideOverlap: true }, splitLine: { lineStyle: { color: palette.line } }, axisLine: { show: false }, axisTick: { show: false } },
        // Drawn on the canvas: a tooltip of HTML would bring styles of its own, which the page's policy forbids.
        tooltip: {
          trigger: "axis", renderMode: "richText", confine: true, backgroundColor: palette.raised, borderColor: palette.line, textStyle: { color: palette.ink, fontSize: 12 }, axisPointer: { lineStyle: { color: palette.soft } },
          formatter: (found) => [new Date(found[0]?.axisValue).toLocaleString(), ...found.map((one) => `${one.seriesName}  ${short(one.value[1])}${unit}`)].join("\n"),
        },
        series,
      };
    }

    draw() {
      if (!this.points.length || !window.echarts) return;
      this.board.querySelector("[data-none]")?.remove();
      for (const course of this.board.querySelectorAll(".course")) {
        const figure = course.querySelector("figure"), holder = figure.querySelector(".chart-plot"), { unit } = figure.dataset;
        if (!this.plots.has(figure)) {
          holder.replaceChildren();
          this.plots.set(figure, echarts.init(holder, null, { renderer: "canvas" }));
          resized.observe(holder);
        }
        const option = this.option(course, unit);
        this.plots.get(figure).setOption(option, { notMerge: true, lazyUpdate: true });
        const values = option.series.flatMap((one) => one.data.map((pair) => pair[1]));
        const main = option.series[option.series.length > 1 ? 1 : 0].data;
        figure.querySelector(".chart-last").textContent = `${short(main.at(-1)[1])}${unit}`;
        holder.setAttribute("aria-label", `${figure.querySelector(".chart-name").textContent}: from ${short(Math.min(...values))} to ${short(Math.max(...values))}${unit}`);
        holder.dataset.points = String(values.length);
      }
    }
  }
  for (const board of document.querySelectorAll("[data-courses]")) new Courses(board);

  // A log: read on from where the page ends, shown as text, the oldest lines left out once there are too many.

  const MOST = 400000, SLOW = 2000;
  const terminal = (text) => text.replaceAll("\r\n", "\n").replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").split("\n").map((line) => line.slice(line.lastIndexOf("\r") + 1)).join("\n");
  const follow = (board) => {
    const pre = board.querySelector("pre.log");
    if (!pre) return;
    let next = Number(board.dataset.next), tries = now()?.dataset.attempts;
    const state = board.querySelector("[data-log-state]");
    const atEnd = () => pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
    const add = (text) => {
      const following = atEnd();
      pre.append(terminal(text));
      if (pre.textContent.length > MOST) {
        pre.textContent = pre.textContent.slice(-MOST / 2).replace(/^[^\n]*\n/, "");
        board.querySelector("[data-left-out]").hidden = false;
      }
      if (following) pre.scrollTop = pre.scrollHeight;
      pre.normalize();
      state.textContent = "";
    };
    const read = async () => {
      let pause = SLOW;
      try {
        const begun = now()?.dataset.attempts;
        if (board.dataset.attempt === "0" && begun !== tries) { // a new try has a log of its own
          [tries, next] = [begun, 0];
          pre.textContent = "";
        }
        if (!document.hidden) {
          const part = await ask(board.dataset.log, { attempt: board.dataset.attempt, offset: next });
          if (part.text) { add(part.text); pause = 100; }
          next = part.next;
          if (part.over && !part.text) return;
        }
        trouble(board, "");
      } catch (error) {
        trouble(board, `The log cannot be read now: ${error.message || "the server does not answer"}. Trying again.`);
        pause = 5 * SLOW;
      }
      setTimeout(read, pause);
    };
    pre.scrollTop = pre.scrollHeight;
    if (board.dataset.over !== "true") read();
  };
  for (const board of document.querySelectorAll("[data-log]")) follow(board);
})();
