// The console's own script: small comforts over pages that work as plain HTML. No page holds a script or a style of its own.
"use strict";

(() => {
  const root = document.documentElement;
  const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";
  const say = (words) => { document.getElementById("said").textContent = words; };
  root.classList.add("js");

  // Times in the reader's zone; the exact RFC 3339 text stays in the title.
  const relative = new Intl.RelativeTimeFormat(root.lang || "en", { numeric: "auto", style: "short" });
  const absolute = new Intl.DateTimeFormat(root.lang || "en", { dateStyle: "medium", timeStyle: "short" });
  const exact = new Intl.DateTimeFormat(root.lang || "en", { dateStyle: "medium", timeStyle: "medium" });
  const styles = { ago: (date) => ago(date), exact: (date) => exact.format(date) };
  const steps = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];
  const ago = (date) => {
    const seconds = (date - Date.now()) / 1000;
    const [unit, size] = steps.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
    return relative.format(Math.round(seconds / size), unit);
  };
  const showTimes = (within) => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const date = new Date(time.dateTime);
      if (!Number.isNaN(date.valueOf())) time.textContent = (styles[time.dataset.show] ?? ((any) => absolute.format(any)))(date);
    }
  };

  // Times in forms are typed in the reader's zone and travel in UTC.
  const pad = (number) => String(number).padStart(2, "0");
  const localText = (date) => `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}T${pad(date.getHours())}:${pad(date.getMinutes())}`;
  const withSeconds = (date) => `${localText(date)}:${pad(date.getSeconds())}`;
  const zoneName = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const wireTimes = (within) => {
    for (const input of within.querySelectorAll("input[data-utc]:not([data-wired])")) {
      const hidden = document.createElement("input");
      hidden.type = "hidden";
      hidden.name = input.name;
      const carry = () => { hidden.value = input.value ? new Date(input.value).toISOString() : ""; };
      if (input.value) input.value = (input.step === "1" ? withSeconds : localText)(new Date(`${input.value}Z`));
      input.removeAttribute("name");
      input.dataset.wired = "";
      input.addEventListener("input", carry);
      input.after(hidden);
      carry();
      const zone = document.querySelector(`[data-zone-of="${input.id}"]`);
      if (zone) zone.textContent = zoneName;
    }
  };

  // Light and dark: the choice is kept in a cookie, so that the server draws the page right the first time.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const toggleTheme = () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    document.cookie = `falaj-theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
    say(root.dataset.theme === "dark" ? "Dark colours" : "Light colours");
  };

  const toggleMenu = (button) => {
    const open = document.querySelector(".side").toggleAttribute("data-open");
    button.setAttribute("aria-expanded", String(open));
  };

  const copy = async (button) => {
    const text = button.closest(".code").querySelector("pre").textContent.trim();
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("Copying is not allowed here; select the text instead.");
    }
  };

  // An upload goes as the bare body: nothing is held in memory on either side, and progress can be seen.
  const upload = (form) => {
    const file = form.querySelector("input[type=file]").files[0];
    const progress = form.querySelector("progress");
    const problem = form.querySelector(".problem");
    const button = form.querySelector("button");
    if (!file) return;
    const query = new URLSearchParams();
    for (const [name, text] of new FormData(form)) if (typeof text === "string" && text && !name.startsWith("_")) query.set(name, text);
    if (form.dataset.nameField) query.set(form.dataset.nameField, query.get(form.dataset.nameField) || file.name);
    if (file.type) query.set("media_type", file.type);
    const request = new XMLHttpRequest();
    const done = (words) => { button.disabled = false; progress.hidden = true; problem.textContent = words; };
    request.open("POST", `${form.dataset.upload}?${query}`);
    request.setRequestHeader("x-csrf-token", meta("csrf-token"));
    request.setRequestHeader("content-type", "application/octet-stream");
    request.upload.onprogress = (event) => { if (event.lengthComputable) progress.value = event.loaded / event.total; };
    request.onerror = () => done("The connection broke; nothing was stored. Try again.");
    request.onload = () => {
      const next = request.getResponseHeader("x-next-page");
      if (request.status < 300 && next) location.assign(next);
      else done(request.responseText.slice(0, 500) || `Refused (${request.status}).`);
    };
    problem.textContent = "";
    progress.value = 0;
    progress.hidden = false;
    button.disabled = true;
    request.send(file);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.matches("[data-theme-toggle]")) toggleTheme();
    if (button.matches("[data-menu]")) toggleMenu(button);
    if (button.matches(".copy")) copy(button);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.matches("form[data-upload]")) {
      event.preventDefault();
      upload(event.target);
    }
  });

  document.addEventListener("htmx:configRequest", (event) => { event.detail.headers["x-csrf-token"] = meta("csrf-token"); });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) location.reload();
    else say("That did not work: the server refused it.");
  });
  document.addEventListener("htmx:sendError", () => say("The server does not answer."));
  document.addEventListener("htmx:afterSwap", (event) => { showTimes(event.target); wireTimes(event.target); });

  // The links that MLflow's client prints: `#/experiments/1/runs/ID?workspace=PROJECT`, or on the project's own page.
  const followPrintedLink = () => {
    const found = location.hash.match(/^#\/experiments\/(\d{1,16})(?:\/runs\/([0-9a-f]{32}))?(?:\?workspace=([a-z0-9][a-z0-9._-]*))?$/);
    if (!found) return;
    const [, experiment, run, workspace] = found;
    const project = workspace ?? location.pathname.match(/^\/projects\/([a-z0-9][a-z0-9._-]*)$/)?.[1] ?? "default";
    location.replace(`/projects/${project}/${run ? `runs/${run}` : `experiments/${experiment}`}`);
  };

  followPrintedLink();
  window.addEventListener("hashchange", followPrintedLink);
  showTimes(document);
  wireTimes(document);
  for (const button of document.querySelectorAll("[data-needs-script]")) button.hidden = false;
  const entrance = document.querySelector("form[data-submit-at-once]");
  if (entrance) {
    history.replaceState(null, "", location.pathname);
    entrance.requestSubmit();
  }
})();
