// Buttons of a job: rerun, continue, and the smaller request that would start now.
"use strict";
{
  async function rerun(button) {
    const { rerun: number, continue: continues, request } = button.dataset;
    button.disabled = true;
    try {
      const old = await pit.call("GET", `/api/v1/jobs/${number}`);
      const options = { ...old.options, continues: continues ? Number(continues) : null, begin: null, after: [] };
      const job = await pit.call("POST", "/api/v1/jobs", {
        key: crypto.randomUUID?.() ?? String(Date.now()) + Math.random(), title: old.title, request: request || old.request,
        snapshot: null, reruns: old.number, options, variables: {}, inherits: old.variables.length ? old.number : null,
      });
      location.href = `/jobs/${job.number}`;
    } catch (error) {
      pit.say(error.message, true);
      button.disabled = false;
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-rerun]");
    if (button && (!button.dataset.ask || confirm(button.dataset.ask))) rerun(button);
  });

  async function showSmaller() {
    const place = document.querySelector("[data-why]");
    if (!place || place.dataset.done) return;
    place.dataset.done = "1";
    try {
      const why = await pit.call("GET", `/api/v1/jobs/${place.dataset.why}/why`);
      for (const smaller of why.queued?.smaller.slice(0, 3) ?? []) {
        const line = document.createElement("p");
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.rerun = place.dataset.why;
        button.dataset.request = smaller.request;
        button.dataset.ask = `Submit another job with ${smaller.request}? This one keeps waiting.`;
        button.textContent = smaller.request;
        line.append(`${smaller.change} it would start now: `, button);
        place.append(line);
      }
    } catch { /* the card says enough without */ }
  }
  showSmaller();
}
