// What the job has used over its whole run: four charts with one crosshair.
"use strict";
{
  const box = document.getElementById("charts");
  const KINDS = [
    ["GPU", 1, "%", "--accent", 100], ["GPU memory", 2, "%", "--accent", 100],
    ["CPU per process", 3, "% of a core", "--run", null], ["Memory per process", 4, "MiB", "--run", null],
  ];
  const GAP_S = 180; // without a sample for longer, the line has a gap
  let plots = [], drawn = "";

  /** The mean over all processes at each moment; a moment is as long as the coarsest sample. */
  function mean(processes, index) {
    const all = processes.flatMap((p) => p.samples.map((s) => [s[0], s[index]])).filter((s) => s[1] !== null);
    if (!all.length) return null;
    all.sort((a, b) => a[0] - b[0]);
    const step = Math.max((all.at(-1)[0] - all[0][0]) / 600, 2);
    const times = [], values = [];
    for (let i = 0; i < all.length;) {
      const begin = all[i][0];
      let sum = 0, count = 0;
      for (; i < all.length && all[i][0] < begin + step; i++, count++) sum += all[i][1];
      if (times.length && begin - times.at(-1) > Math.max(GAP_S, 3 * step)) { times.push(times.at(-1) + 1); values.push(null); }
      times.push(begin);
      values.push(sum / count);
    }
    return [times, values];
  }

  function draw(usage) {
    const mark = JSON.stringify(usage).length + String(getComputedStyle(document.documentElement).colorScheme) + innerWidth;
    if (mark === drawn) return;
    drawn = mark;
    for (const plot of plots) plot.destroy();
    plots = [];
    box.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    const probe = document.createElement("i");
    document.body.append(probe);
    const colour = (token) => { probe.style.color = `var(${token})`; return getComputedStyle(probe).color; };
    for (const [title, index, unit, token, most] of KINDS) {
      const data = mean(usage.processes, index);
      if (!data) continue;
      box.hidden = false;
      const cell = document.createElement("div");
      const label = document.createElement("span");
      label.className = "name";
      label.textContent = title + " ";
      const value = document.createElement("b");
      const key = document.createElement("span");
      key.className = "key";
      const place = document.createElement("div");
      place.className = "plot";
      cell.append(label, value, key, place);
      box.append(cell);
      const last = data[1].findLast((v) => v !== null);
      const say = (v) => v === null || v === undefined ? "–" : `${v >= 100 ? Math.round(v).toLocaleString() : v.toFixed(v < 10 ? 1 : 0)} ${unit}`;
      value.textContent = say(last);
      const stroke = colour(token);
      const grid = { stroke: colour("--line"), width: 1 };
      plots.push(new uPlot({
        width: place.clientWidth || 380, height: 96, legend: { show: false }, pxAlign: true,
        cursor: { sync: { key: "job" }, y: false },
        scales: { y: { range: (_, low, high) => [0, most ?? Math.max(high * 1.1, 1)] } },
        axes: [
          { stroke: colour("--ink-3"), grid: { show: false }, ticks: { show: false }, size: 22, font: "11px system-ui" },
          { stroke: colour("--ink-3"), grid, ticks: { show: false }, size: 44, font: "11px system-ui", splits: (_, __, low, high) => [low, high / 2, high].map(Math.round) },
        ],
        series: [{}, { stroke, width: 1.5, fill: stroke.replace("rgb(", "rgba(").replace(")", ", .1)"), points: { show: data[0].length < 3 } }],
        hooks: { setCursor: [(plot) => {
          const at = plot.cursor.idx;
          key.textContent = at === null || at === undefined ? "" : `${say(data[1][at])} at ${new Date(data[0][at] * 1000).toLocaleTimeString([], { hour12: false })}`;
        }] },
      }, data, place));
    }
    probe.remove();
  }

  async function load() {
    if (!box || document.hidden) return;
    try { draw(await pit.call("GET", `/api/v1/jobs/${box.dataset.name}/usage`)); } catch { /* the next time */ }
  }

  load();
  addEventListener("pit-theme", load);
  addEventListener("resize", load);
  if (box?.dataset.liveJob) setInterval(load, 15000);
}
