// The script of the catalog page. What comes from agents is only ever put into the page as text.
"use strict";

const find = (id) => document.getElementById(id);

/** Add an element with a text behind what is in `parent`. */
function add(parent, tag, kind, text) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

// ---- Light and dark -------------------------------------------------------------------------------------------------

const root = document.documentElement;
const isDark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const themeButton = find("theme");
const labelTheme = () => (themeButton.textContent = isDark() ? "Light" : "Dark");
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // It holds for this page, then.
  }
  labelTheme();
});
labelTheme();

document.addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key !== "/" || !search || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  search.focus();
});

// ---- Copy the call --------------------------------------------------------------------------------------------------

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const shown = find(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(shown.textContent);
      button.textContent = "Copied";
    } catch {
      // Without TLS there is no clipboard: select it, so that a key copies it.
      getSelection().selectAllChildren(shown);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}

function writeCalls(message) {
  for (const shown of document.querySelectorAll("pre[data-template]")) {
    let literal = JSON.stringify(message);
    if (shown.dataset.language === "curl") literal = literal.replaceAll("'", "'\\''");
    shown.textContent = shown.dataset.template.replace("__MESSAGE__", () => literal);
  }
}

// ---- Try it ---------------------------------------------------------------------------------------------------------

const form = find("try-form");
if (form) {
  const log = find("try-log");
  const [send, stop, fresh] = [form.querySelector("[type=submit]"), find("try-stop"), find("try-new")];
  let task = {};
  let running = null;
  let artifacts = new Map();
  form.hidden = false;
  form.elements.text.addEventListener("input", () => writeCalls(form.elements.text.value));
  form.elements.text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  stop.addEventListener("click", () => running && running.abort());
  fresh.addEventListener("click", () => {
    task = {};
    log.replaceChildren();
    send.textContent = "Send";
    fresh.disabled = true;
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return;
    running = new AbortController();
    [send.disabled, stop.disabled, fresh.disabled] = [true, false, true];
    const value = (name) => (form.elements[name] ? form.elements[name].value : "");
    const asked = { text: value("text"), stream: form.elements.stream.checked, ...task };
    if (value("address")) asked.address = Number(value("address"));
    if (value("as")) asked.as = value("as");
    else if (value("credential")) asked.credential = value("credential");
    artifacts = new Map();
    add(log, "div", "mine", asked.text);
    const frames = [];
    const raw = document.createElement("details");
    add(raw, "summary", "", "Answer as it came");
    const rawText = add(raw, "pre");
    const heard = (text) => {
      frames.push(text);
      rawText.textContent = frames.join("\n\n");
      show(text);
    };
    try {
      const answer = await fetch(form.dataset.url, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-A2A-Gateway-Page": "1" },
        body: JSON.stringify(asked),
        signal: running.signal,
      });
      frames.push(`HTTP ${answer.status}  x-request-id: ${answer.headers.get("x-request-id") || "none"}`);
      if ((answer.headers.get("content-type") || "").startsWith("text/event-stream")) await readEvents(answer, heard);
      else heard(await answer.text());
    } catch (error) {
      add(log, "div", "failed", error.name === "AbortError" ? "Stopped." : String(error));
    }
    log.append(raw);
    running = null;
    [send.disabled, stop.disabled, fresh.disabled] = [false, true, false];
    form.elements.text.focus();
    form.elements.text.select();
  });

  /** Call `heard` with the data of every server-sent event. */
  async function readEvents(answer, heard) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data:"));
        if (data.length) heard(data.map((line) => line.slice(5).replace(/^ /, "")).join("\n"));
      }
    }
  }

  /** Show one frame: an answer of JSON-RPC, or a refusal. */
  function show(text) {
    let frame;
    try {
      frame = JSON.parse(text);
    } catch {
      add(log, "div", "failed", text);
      return;
    }
    const { error, result = {} } = frame || {};
    if (error) {
      add(log, "div", "failed", typeof error === "string" ? error : `${error.message} (${error.code})`);
      return;
    }
    if (result.message) add(log, "div", "theirs", partsOf(result.message));
    if (result.task) {
      for (const each of result.task.artifacts || []) showArtifact(each, false);
      follow(result.task.id, result.task.contextId, result.task.status);
    }
    if (result.artifactUpdate) showArtifact(result.artifactUpdate.artifact || {}, result.artifactUpdate.append);
    if (result.statusUpdate) follow(result.statusUpdate.taskId, result.statusUpdate.contextId, result.statusUpdate.status);
  }

  /** Show a task's state; where it asks back, the next message answers it. */
  function follow(id, context, status = {}) {
    const state = String(status.state || "").replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-");
    const asks = state === "input-required" || state === "auth-required";
    const over = ["completed", "failed", "canceled", "rejected"].includes(state);
    task = over ? { contextId: context } : { taskId: id, contextId: context };
    send.textContent = asks ? "Answer" : "Send";
    const last = log.lastElementChild;
    if (state && last && last.dataset.task === id) last.textContent += ` → ${state}`;
    else if (state) add(log, "div", "state", `Task ${id}: ${state}`).dataset.task = id;
    const text = status.message ? partsOf(status.message) : "";
    if (text) add(log, "div", asks ? "asks" : state === "failed" || state === "rejected" ? "failed" : "theirs", text);
  }

  function showArtifact(artifact, append) {
    const known = artifacts.get(artifact.artifactId);
    if (known && append) {
      known.textContent += partsOf(artifact);
      return;
    }
    const box = add(log, "div", "artifact");
    add(box, "strong", "", artifact.name || "Artifact");
    artifacts.set(artifact.artifactId, add(box, "span", "", partsOf(artifact)));
  }

  /** Return the text of a message's or an artifact's parts. */
  function partsOf(holder) {
    return (Array.isArray(holder.parts) ? holder.parts : [])
      .map((part) => {
        if (typeof part.text === "string") return part.text;
        if (part.data !== undefined) return JSON.stringify(part.data, null, 2);
        return `[${part.filename || part.mediaType || "file"}${part.url ? ` ${part.url}` : ""}]`;
      })
      .join("\n");
  }
}

// ---- Live requests --------------------------------------------------------------------------------------------------

const live = find("live");
if (live) {
  const button = find("follow");
  const state = find("follow-state");
  const body = live.tBodies[0];
  let number = live.dataset.number;
  let source = null;
  button.hidden = false;
  button.addEventListener("click", () => (source ? pause() : start()));
  start();

  function start() {
    const query = new URLSearchParams(location.search);
    query.set("since", number);
    source = new EventSource(`${live.dataset.tail}?${query}`);
    source.onopen = () => (state.textContent = "following");
    source.onerror = () => (state.textContent = "connection lost");
    source.onmessage = (event) => showRow(JSON.parse(event.data));
    button.textContent = "Pause";
    button.setAttribute("aria-pressed", "true");
  }

  function pause() {
    source.close();
    source = null;
    state.textContent = "paused";
    button.textContent = "Follow";
    button.setAttribute("aria-pressed", "false");
  }

  function showRow(row) {
    number = row.number;
    const line = body.insertRow(0);
    const time = new Date(row.time * 1000).toISOString().slice(11, 19);
    const outcome = row.reason || row.outcome;
    const cells = [time, row.agent, row.tenant, row.operation, row.status, outcome, row.task_state, row.duration_s, row.events];
    for (const cell of cells) line.insertCell().textContent = cell || cell === 0 ? String(cell) : "";
    add(line.insertCell(), "code", "", row.request_id || "");
    while (body.rows.length > 200) body.deleteRow(-1);
  }
}
