// Text with ANSI sequences as elements. Colours become classes, everything else is dropped; text is always text.
"use strict";
{
  // SGR, any other CSI, OSC up to its end, and other escapes; then control characters but tab.
  const SEQUENCE = /\x1b\[([0-9;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]/g;
  const BIDI = /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g; // would reorder what is around them
  const MOST = 20000; // characters of a line that are shown at once

  function apply(codes, classes) {
    const numbers = codes === "" ? [0] : codes.split(/[;:]/).map(Number);
    for (let i = 0; i < numbers.length; i++) {
      const n = numbers[i];
      if (n === 0) classes.clear();
      else if (n === 38 || n === 48) i += numbers[i + 1] === 5 ? 2 : 4; // 256 and true colours: left out
      else if (n === 39) drop(classes, (c) => (c >= 30 && c <= 37) || (c >= 90 && c <= 97));
      else if (n === 49) drop(classes, (c) => (c >= 40 && c <= 47) || (c >= 100 && c <= 107));
      else if (n === 22) drop(classes, (c) => c === 1 || c === 2);
      else if (n >= 23 && n <= 29) classes.delete(n - 20);
      else if (n < 108) {
        if (n >= 30) drop(classes, (c) => c >= 30 && (c % 60 >= 40) === (n % 60 >= 40));
        classes.add(n);
      }
    }
  }

  function drop(classes, test) {
    for (const c of [...classes]) if (test(c)) classes.delete(c);
  }

  /** The text without any sequence. */
  pit.plain = (text) => text.replace(SEQUENCE, "").replace(BIDI, "");

  /** A span with the text of one line. */
  pit.render = (text, isCut = true) => {
    const line = document.createElement("span");
    line.className = "text";
    const shown = isCut && text.length > MOST ? text.slice(0, MOST) : text;
    const classes = new Set();
    let at = 0;
    const add = (part) => {
      const clean = part.replace(BIDI, "");
      if (!clean) return;
      if (!classes.size) { line.append(clean); return; }
      const span = document.createElement("span");
      span.className = [...classes].map((c) => `a${c}`).join(" ");
      span.textContent = clean;
      line.append(span);
    };
    for (const found of shown.matchAll(SEQUENCE)) {
      add(shown.slice(at, found.index));
      at = found.index + found[0].length;
      if (found[1] !== undefined) apply(found[1], classes);
    }
    add(shown.slice(at));
    if (shown.length < text.length) {
      const more = document.createElement("button");
      more.type = "button";
      more.className = "plain";
      more.textContent = `… ${(text.length - shown.length).toLocaleString()} more characters`;
      more.addEventListener("click", () => line.replaceWith(pit.render(text, false)));
      line.append(more);
    }
    return line;
  };
}
