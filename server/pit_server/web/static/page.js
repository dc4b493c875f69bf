// What every page does: keys, copying, times, calls of the API, and signing in again without losing anything.
"use strict";

const pit = {
  /** Call the head; on an ended session ask for the password and repeat. */
  async call(method, path, body, { raw = false } = {}) {
    for (;;) {
      const options = { method, headers: { "Pit-Page": "script" } };
      if (body !== undefined) {
        options.headers["Content-Type"] = "application/json";
        options.body = JSON.stringify(body);
      }
      const answer = await fetch(path, options);
      if (answer.status === 401) {
        await pit.signInAgain();
        continue;
      }
      if (raw) return answer;
      const text = await answer.text();
      const found = text ? JSON.parse(text) : null;
      if (!answer.ok) throw new Error(found ? found.message + (found.hint ? ": " + found.hint : "") : answer.statusText);
      return found;
    }
  },

  signInAgain() {
    if (pit.signing) return pit.signing;
    const dialog = document.getElementById("sign-in-again");
    const form = dialog.querySelector("form");
    dialog.showModal();
    pit.signing = new Promise((resolve) => {
      form.onsubmit = async (event) => {
        event.preventDefault();
        const answer = await fetch("/sign-in", {
          method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "Pit-Page": "script" },
        });
        if (answer.ok) {
          form.password.value = "";
          dialog.close();
          pit.signing = null;
          resolve();
          return;
        }
        form.querySelector("[role=alert]").textContent = (await answer.json()).message;
      };
    });
    return pit.signing;
  },

  say(text, isBad = false) {
    document.querySelector(".toast")?.remove();
    const toast = document.createElement("div");
    toast.className = isBad ? "toast bad" : "toast";
    toast.setAttribute("role", isBad ? "alert" : "status");
    toast.textContent = text;
    document.body.append(toast);
    setTimeout(() => toast.remove(), isBad ? 12000 : 4000);
  },

  span(seconds) {
    const s = Math.max(Math.floor(seconds), 0);
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  },

  /** Show the times of the page as they are now, in the reader's zone. */
  showTimes(root = document) {
    const now = Date.now() / 1000;
    for (const element of root.querySelectorAll("time[data-at]")) {
      const at = Number(element.dataset.at);
      const local = new Date(at * 1000);
      element.title = local.toLocaleString();
      const isToday = local.toDateString() === new Date().toDateString();
      const clock = local.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
      element.textContent = element.dataset.show === "since" ? pit.span(now - at)
        : element.dataset.show === "clock" ? (isToday ? clock : `${local.toLocaleDateString()} ${clock}`)
        : at <= now ? `${pit.span(now - at)} ago` : `in ${pit.span(at - now)}`;
    }
  },
};
window.pit = pit;

/** A button with data-call does what a `pit` command does, through the same API. */
async function press(button) {
  const { call, method = "POST", body, confirm: question, then } = button.dataset;
  if (question && !confirm(question)) return;
  button.disabled = true;
  try {
    const found = await pit.call(method, call, body ? JSON.parse(body) : undefined);
    pit.say(button.dataset.done || "Done");
    if (then === "job") location.href = `/jobs/${found.number}`;
    else pit.refresh?.();
  } catch (error) {
    pit.say(error.message, true);
  } finally {
    button.disabled = false;
  }
}

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    try {
      await navigator.clipboard.writeText(copy.dataset.copy);
      pit.say("Copied");
    } catch {
      prompt("Copy this:", copy.dataset.copy); // without TLS a page may not write to the clipboard
    }
    return;
  }
  const button = event.target.closest("[data-call]");
  if (button) press(button);
});

/** A form with data-call sends its fields as the properties of one thing. */
document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-properties]");
  if (!form) return;
  event.preventDefault();
  const values = Object.fromEntries([...new FormData(form)].filter(([name]) => name !== "_name"));
  const path = form.dataset.properties.replace("{name}", encodeURIComponent(form.elements._name?.value ?? ""));
  try {
    const found = await pit.call(form.dataset.method || "PATCH", path, { set: values });
    form.dispatchEvent(new CustomEvent("pit-done", { bubbles: true, detail: found }));
    pit.say(form.dataset.done || "Saved");
    pit.refresh?.();
  } catch (error) {
    pit.say(error.message, true);
  }
});

let leader = 0;
const PLACES = { h: "/", j: "/jobs", n: "/nodes", c: "/cluster", r: "/run", a: "/admin" };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  const isAfterG = Date.now() - leader < 1200;
  leader = 0;
  if (isAfterG && PLACES[event.key]) location.href = PLACES[event.key];
  else if (event.key === "g") leader = Date.now();
  else if (event.key === "/") { document.getElementById("find").focus(); event.preventDefault(); }
  else if (event.key === "?") document.getElementById("keys").showModal();
  else if (event.key === "j" || event.key === "k") moveRow(event.key === "j" ? 1 : -1);
  else if (event.key === "f") document.getElementById("follow")?.click();
});

function moveRow(step) {
  const rows = [...document.querySelectorAll("tr[data-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  next.querySelector("a, button")?.focus();
  next.scrollIntoView({ block: "nearest" });
}

pit.showTimes();
setInterval(() => { if (!document.hidden) pit.showTimes(); }, 5000);
