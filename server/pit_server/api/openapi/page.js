"use strict";
// Builds the page from openapi.json. All texts are set as text, never as HTML.

const SHOWN = 200000; // characters of an answer

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function example(schema, all, depth = 0) {
  if (!schema || depth > 4) return null;
  if (schema.$ref) return example(all[schema.$ref.split("/").pop()], all, depth + 1);
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const option = (schema.anyOf || []).find((each) => each.type !== "null");
  if (option) return example(option, all, depth);
  if (schema.type === "object") {
    const wanted = (schema.required || []).map((name) => [name, example(schema.properties[name], all, depth + 1)]);
    return Object.fromEntries(wanted);
  }
  return { array: [], string: "", boolean: false, integer: 0, number: 0 }[schema.type] ?? null;
}

function addressOf(path, fields) {
  const query = new URLSearchParams();
  for (const { parameter, input } of fields) {
    if (parameter.in === "path") {
      // `where` is a path of its own: its slashes stay.
      const value = encodeURIComponent(input.value);
      path = path.replace(`{${parameter.name}}`, parameter.name === "where" ? value.replaceAll("%2F", "/") : value);
    } else if (input.value !== "") query.set(parameter.name, input.value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function send(method, address, body, media) {
  const token = document.getElementById("token").value.trim();
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["Content-Type"] = media;
  const began = performance.now();
  const response = await fetch(address, { method, headers, body, credentials: "omit" });
  const text = await response.text();
  const took = Math.round(performance.now() - began);
  let shown = text;
  try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
  const more = shown.length > SHOWN ? `\n… ${shown.length - SHOWN} more characters` : "";
  return `${response.status} ${response.statusText}, ${took} ms, ${text.length} characters\n\n${shown.slice(0, SHOWN)}${more}`;
}

function inputFor(parameter) {
  if (!parameter.schema.enum) return make("input", { type: "text", autocomplete: "off" });
  return make("select", {}, ...["", ...parameter.schema.enum].map((value) => make("option", { value }, value || "–")));
}

function form(method, path, operation, all) {
  const box = make("div");
  const fields = operation.parameters.map((parameter) => ({ parameter, input: inputFor(parameter) }));
  const grid = make("div", { className: "params" });
  fields.forEach(({ parameter, input }, i) => {
    input.id = `${operation.operationId}-${i}`;
    input.title = parameter.description || "";
    grid.append(make("label", { htmlFor: input.id }, parameter.name + (parameter.required ? " *" : "")),
      make("span", {}, input, make("small", {}, ` ${parameter.description || ""}`)));
  });
  box.append(make("p", { className: "who" }, operation.description), grid);
  const [media, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const body = media && make("textarea", { spellcheck: false, ariaLabel: `body, ${media}` });
  if (body) {
    if (content.schema) body.value = JSON.stringify(example(content.schema, all), null, 2);
    box.append(make("p", {}, `Body: ${media}`), body);
  }
  const answer = make("pre", { hidden: true, tabIndex: 0, ariaLabel: "answer" });
  const button = make("button", { type: "button" }, "Send");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      answer.textContent = await send(method, addressOf(path, fields), body?.value, media);
    } catch (error) {
      answer.textContent = `no answer: ${error.message}`;
    }
    answer.hidden = button.disabled = false;
    button.disabled = false;
  });
  box.append(make("p", {}, button), answer);
  return box;
}

function show(api) {
  document.getElementById("version").textContent = api.info.version;
  const main = document.getElementById("routes");
  const groups = new Map();
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const name = method.toUpperCase();
      const details = make("details", {}, make("summary", {}, make("span", { className: "method" }, name),
        make("code", {}, path), ` ${operation.summary} `, make("small", {}, operation["x-role"])));
      details.dataset.text = `${name} ${path} ${operation.summary}`.toLowerCase();
      // Built when it is opened: most never are.
      details.addEventListener("toggle", () => {
        if (details.childElementCount === 1) details.append(form(name, path, operation, api.components.schemas));
      });
      if (!groups.has(operation.tags[0])) groups.set(operation.tags[0], []);
      groups.get(operation.tags[0]).push(details);
    }
  }
  main.replaceChildren(...[...groups].map(([name, all]) => make("section", {}, make("h2", {}, name), ...all)));
  document.getElementById("filter").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const section of main.children) {
      let any = false;
      for (const details of section.querySelectorAll("details")) {
        details.hidden = !words.every((word) => details.dataset.text.includes(word));
        any ||= !details.hidden;
      }
      section.hidden = !any;
    }
  });
}

fetch("openapi.json").then((response) => response.json()).then(show, (error) => {
  document.getElementById("routes").textContent = `openapi.json could not be read: ${error.message}`;
});
