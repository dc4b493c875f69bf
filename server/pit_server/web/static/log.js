// The log: a window of lines that the head has merged. It is loaded in batches from a cursor on, so its size
// does not matter; lines that leave the window can be loaded again.
"use strict";
{
  const view = document.getElementById("log");
  const name = view.dataset.name;
  const follow = document.getElementById("follow");
  const slider = document.getElementById("log-time");
  const process = document.getElementById("log-process");
  const matches = document.getElementById("matches");
  const MOST_LINES = 5000, TAIL = 1000, WAIT_S = 10;
  const place = new URLSearchParams(location.search);
  let isFollowing = !place.has("since"), cursor = "", ended = false, turn = 0, open = new Map();

  function address(query) {
    const all = new URLSearchParams(query);
    if (process?.value) all.set("process", process.value);
    return `/api/v1/jobs/${name}/log?${all}`;
  }

  function element(line) {
    const row = document.createElement("div");
    row.className = `line${line.source === "head" || line.source === "prepare" ? " head" : ""}${line.unfinished ? " open" : ""}`;
    const time = document.createElement("time");
    const at = new Date(line.at * 1000);
    time.textContent = at.toLocaleTimeString([], { hour12: false });
    time.title = `${at.toLocaleString()} – link to this line`;
    time.dataset.since = line.at;
    const source = document.createElement("span");
    source.className = "source";
    source.textContent = line.source;
    source.title = line.source;
    row.append(time, source, pit.render(line.text));
    return row;
  }

  function note(text) {
    const row = document.createElement("div");
    row.className = "note";
    row.textContent = text;
    return row;
  }

  function show(batch) {
    const isAtEnd = view.scrollTop + view.clientHeight >= view.scrollHeight - 30;
    for (const row of open.values()) row.remove();
    if (batch.lines.length) {
      for (const line of batch.lines) if (open.has(line.source)) open.delete(line.source);
      view.append(...batch.lines.map(element));
    }
    for (const line of batch.unfinished ?? []) open.set(line.source, element(line));
    view.append(...open.values());
    if (view.children.length > MOST_LINES) {
      for (const row of [...view.children].slice(0, view.children.length - MOST_LINES)) row.remove();
      view.prepend(note("Earlier lines: “Beginning”, the time slider or the search show them."));
    }
    if (isFollowing && (isAtEnd || turn)) view.scrollTop = view.scrollHeight;
    const empty = !view.children.length;
    if (empty && batch.ended) view.append(note("This job has printed nothing."));
  }

  /** Load from there on; while following, for as long as lines may come. */
  async function load(query) {
    const mine = ++turn;
    cursor = ""; ended = false; open = new Map();
    view.replaceChildren();
    let next = query;
    while (mine === turn) {
      let batch;
      try {
        batch = await pit.call("GET", address(next));
      } catch (error) {
        if (mine !== turn) return;
        if (!(error instanceof TypeError)) { view.append(note(error.message)); return; }
        await new Promise((done) => setTimeout(done, 2000)); // the head is not reachable
        continue;
      }
      if (mine !== turn) return;
      show(batch);
      cursor = batch.cursor; ended = batch.ended;
      if (ended) { tell(); return; }
      if (!isFollowing && !(await wanted(mine))) return;
      next = batch.more ? { cursor } : { cursor, wait_s: WAIT_S };
      if (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
    }
  }

  /** Wait until the reader comes near the end of what is loaded. */
  async function wanted(mine) {
    while (mine === turn && view.scrollTop + view.clientHeight < view.scrollHeight - 400) {
      await new Promise((done) => view.addEventListener("scroll", done, { once: true }));
    }
    return mine === turn;
  }

  function tell() {
    follow.setAttribute("aria-pressed", String(isFollowing));
    follow.textContent = !isFollowing ? "Follow" : ended ? "complete" : "● following";
  }

  function go(following, query) {
    isFollowing = following;
    tell();
    return load(query);
  }

  follow.addEventListener("click", () => { history.replaceState(null, "", location.pathname); go(true, { tail: TAIL }); });
  document.getElementById("log-begin").addEventListener("click", () => go(false, {}));
  process?.addEventListener("change", () => go(isFollowing, isFollowing ? { tail: TAIL } : {}));
  slider.addEventListener("change", () => goTo(slider.value));
  function goTo(since) {
    history.replaceState(null, "", `?since=${since}`);
    return go(false, { since });
  }

  view.addEventListener("scroll", () => {
    // Whoever scrolls up wants to read: lines keep coming, the view stays.
    const isAtEnd = view.scrollTop + view.clientHeight >= view.scrollHeight - 30;
    if (isFollowing && !isAtEnd && !ended) { follow.textContent = "paused, at the end it follows"; }
    else if (isFollowing) tell();
  });
  view.addEventListener("click", (event) => {
    const since = event.target.dataset?.since;
    if (since) {
      history.replaceState(null, "", `?since=${since}`);
      navigator.clipboard?.writeText(location.href).then(() => pit.say("Link to this line copied"), () => {});
    }
  });
  const wrap = document.getElementById("wrap");
  const setWrap = (isOn) => {
    view.classList.toggle("wrap", isOn);
    wrap.setAttribute("aria-pressed", String(isOn));
  };
  wrap.addEventListener("click", () => {
    setWrap(!view.classList.contains("wrap"));
    localStorage.setItem("pit-wrap", view.classList.contains("wrap") ? "1" : "");
  });
  setWrap(Boolean(localStorage.getItem("pit-wrap")));

  document.getElementById("search-log").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = document.getElementById("search-text").value;
    matches.hidden = !text;
    matches.replaceChildren(note("Searching …"));
    if (!text) return;
    const query = { text };
    if (process?.value) query.process = process.value;
    let count = 0;
    try {
      for (;;) {
        const found = await pit.call("GET", `/api/v1/jobs/${name}/log/search?${new URLSearchParams(query)}`);
        if (!count) matches.replaceChildren();
        for (const line of found.lines) {
          const button = document.createElement("button");
          const cells = [new Date(line.at * 1000).toLocaleTimeString([], { hour12: false }), line.source, pit.plain(line.text).slice(0, 300)];
          button.append(...cells.map((cell) => Object.assign(document.createElement("span"), { textContent: cell })));
          button.addEventListener("click", () => goTo(line.at));
          matches.append(button);
        }
        count += found.lines.length;
        if (found.ended || count >= 1000) break;
        query.cursor = found.cursor;
      }
      matches.append(note(count ? `${count >= 1000 ? "the first " : ""}${count} lines` : "No line has this text."));
    } catch (error) {
      matches.replaceChildren(note(error.message));
    }
  });

  if (place.has("since")) load({ since: place.get("since") }).then(() => {}, () => {});
  else load({ tail: TAIL });
  tell();
}
