// Keeps what has data-live up to date: the head says that something changed, the page loads itself again
// and takes over the parts that differ. Focus, selection and scroll position stay.
"use strict";
{
  const parts = () => document.querySelectorAll("[data-live]");
  const state = document.getElementById("live");
  const job = document.querySelector("main [data-job]")?.dataset.job;
  const QUIET_MS = 2000; // between two loads
  let source = null, updatedAt = Date.now(), isLost = false, isLoading = false, isDue = false, lastLoad = 0;

  function tell(text, tone = "") {
    state.className = `live ${tone}`;
    state.textContent = text;
  }

  /** What was typed stays, and so does what a script has added. */
  function isReplaced(old) {
    return !(old instanceof Element && old.matches("form, [data-keep]"));
  }

  async function refresh() {
    if (isLoading) { isDue = true; return; }
    isLoading = true;
    const wait = lastLoad + QUIET_MS - Date.now();
    if (wait > 0) await new Promise((done) => setTimeout(done, wait));
    lastLoad = Date.now();
    try {
      const answer = await pit.call("GET", location.href, undefined, { raw: true });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts()) {
        const fresh = page.getElementById(part.id);
        if (fresh) Idiomorph.morph(part, fresh, { ignoreActiveValue: true, callbacks: { beforeNodeMorphed: isReplaced } });
      }
      pit.showTimes();
      updatedAt = Date.now();
      isLost = false;
      document.dispatchEvent(new Event("pit-refreshed"));
    } catch {
      isLost = true;
    } finally {
      isLoading = false;
      if (isDue) { isDue = false; refresh(); }
    }
  }
  pit.refresh = refresh;

  function open() {
    if (source || document.hidden || !parts().length) return;
    source = new EventSource(`/events?wait_s=600${job ? `&job=${job}` : ""}`);
    source.addEventListener("open", () => {
      if (isLost) {
        pit.say("The head is back");
        refresh();
      }
      isLost = false;
      show();
    });
    source.addEventListener("change", refresh);
    source.addEventListener("end", () => { close(); open(); });
    source.addEventListener("error", () => {
      isLost = true;
      show();
      if (source.readyState === EventSource.CLOSED) {
        // Refused, not cut off: the session may have ended, or the head is starting.
        source = null;
        setTimeout(async () => {
          try { await pit.call("GET", "/api/v1/me"); } catch { /* not there yet */ }
          open();
        }, 2000);
      }
    });
  }

  function close() {
    source?.close();
    source = null;
  }

  function show() {
    if (isLost) tell("head not reachable, trying again", "bad");
    else tell(`live, updated ${pit.span((Date.now() - updatedAt) / 1000)} ago`);
  }

  document.addEventListener("visibilitychange", () => {
    // A browser has six connections per head; a page that nobody sees shall not hold one.
    if (document.hidden) close();
    else { open(); refresh(); }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) { open(); refresh(); } });
  open();
  if (state && parts().length) setInterval(() => { if (!document.hidden) show(); }, 1000);
}
