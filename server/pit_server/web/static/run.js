// The form for a new job: builds the request from fields, has the head explain it, submits.
"use strict";
{
  const form = document.getElementById("run");
  const check = document.getElementById("check");
  let asked = 0, timer = 0;

  function build() {
    const value = (id) => Number(document.getElementById(id).value) || 0;
    const kind = document.getElementById("kind").value;
    const count = (n, what) => (n === 1 ? what : `${n}:${what}`);
    const needs = [];
    if (value("gpus")) needs.push(count(value("gpus"), kind));
    if (value("cores")) needs.push(`${value("cores")}:cpu`);
    if (value("memory")) needs.push(`${value("memory")}:mem`);
    form.request.value = count(Math.max(value("processes"), 1), `[${needs.join(",")}]`);
  }

  function say(...lines) {
    check.replaceChildren(...lines.map(([text, tone]) => {
      const line = document.createElement("p");
      line.className = tone;
      line.textContent = text;
      return line;
    }));
  }

  async function explain() {
    const mine = ++asked;
    try {
      const found = await pit.call("GET", `/api/v1/requests/check?${new URLSearchParams({ request: form.request.value })}`);
      if (mine !== asked) return;
      const words = found.words.map((text) => [text, ""]);
      if (!found.possible) say(...words, [`cannot be fulfilled here: ${found.reason}`, "bad"]);
      else if (found.starts_now && !found.waiting) say(...words, [`could start now on ${found.nodes.join(", ")}`, "ok"]);
      else if (found.starts_now) say(...words, [`would fit now on ${found.nodes.join(", ")}; ${found.waiting} waiting`, "ok"]);
      else say(...words, [`has to wait: ${found.reason}`, "wait"]);
    } catch (error) {
      if (mine === asked) say([error.message, "bad"]);
    }
  }

  function showCommand() {
    const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
    const number = form.code.value && form.code.selectedOptions[0].text.split(" ")[3]; // "as in job 12 TITLE"
    const title = quote(form.title.value || "title"), request = quote(form.request.value);
    const text = (number ? `pit rerun ${number} --title ${title} --request ${request}` : `pit run ${title} ${request}`)
      + (!number && form.command.value ? ` -d ${quote(form.command.value)}` : "")
      + (form.time.value ? ` --time ${quote(form.time.value)}` : "");
    const place = document.querySelector(".command");
    place.querySelector("code").textContent = text;
    place.querySelector("button").dataset.copy = text;
    document.getElementById("repository").hidden = Boolean(number);
    form.remote.required = !number;
  }

  /** What is submitted besides the fields: the code, and the settings of the job that it is from. */
  async function source() {
    if (!form.code.value) {
      const wanted = { remote: form.remote.value.trim(), ref: form.ref.value.trim() };
      return { snapshot: await pit.call("POST", "/api/v1/snapshots/remote", wanted), options: {} };
    }
    const old = await pit.call("GET", `/api/v1/jobs/${form.code.value}`);
    const options = { ...old.options, continues: null, begin: null, after: [], array: null, sweep: [] };
    return { reruns: old.number, options, inherits: old.variables.length ? old.number : null };
  }

  async function submit(event) {
    event.preventDefault();
    const button = form.querySelector("button.main");
    button.disabled = true;
    try {
      const { options, ...code } = await source();
      if (form.command.value.trim()) options.command = form.command.value;
      if (form.time.value.trim()) options.time = form.time.value.trim();
      if (form.priority.value) options.priority = form.priority.value;
      if (form.sweep.value.trim()) options.sweep = form.sweep.value.trim().split(/\s+/);
      const job = await pit.call("POST", "/api/v1/jobs", {
        key: crypto.randomUUID?.() ?? String(Date.now()) + Math.random(), title: form.title.value, request: form.request.value,
        options, ...code,
      });
      location.href = `/jobs/${job.number}`;
    } catch (error) {
      pit.say(error.message, true);
      button.disabled = false;
    }
  }

  if (form) {
    form.addEventListener("submit", submit);
    form.addEventListener("change", showCommand); // some browsers say no more of a list
    form.addEventListener("input", (event) => {
      if (event.target.dataset.part !== undefined) build();
      showCommand(); // at once, because it also says which fields are required
      clearTimeout(timer);
      timer = setTimeout(explain, 250);
    });
    showCommand();
    explain();
  }
}
