/* What pages are made of. Every section is a function of the contents that returns an element, or null if there is nothing to show. */

const whole = (n) => n.toLocaleString("en-US");
const count = (n, thing, things = `${thing}s`) => `${whole(n)} ${n === 1 ? thing : things}`;
const three = (value) => (value === null ? "–" : value.toFixed(3).replace(/^-(?=0\.000$)/, "").replace("-", "−"));
const range = ([low, high]) => `${three(low)} to ${three(high)}`;
const share = (value) => `${readable(100 * value, 3)} %`;

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
}

function card(title, ...children) {
  return el("article", { class: "card" }, title ? el("h3", {}, title) : null, ...children);
}

function note(...text) {
  return el("p", { class: "note" }, ...text);
}

/** One of several: options are [value, text]. */
function choice(name, label, options, act) {
  return el("fieldset", { class: "choice" }, el("legend", {}, label),
    options.map(([value, text], k) => el("label", {},
      el("input", { type: "radio", name, value, checked: k === 0, change: () => act(value) }), el("span", {}, text))));
}

/** A number to type, with its name before it. */
function field(id, label, attributes) {
  const input = el("input", { id, type: "number", inputmode: "decimal", ...attributes });
  return { input, element: el("label", { class: "field", for: id }, el("span", {}, label), input) };
}

/** A value with its interval below it. */
function withRange(value, ends) {
  return el("span", { class: "ranged" }, typeof value === "number" ? three(value) : value, ends ? el("small", {}, range(ends)) : null);
}

/** Names and values in large digits. */
function tiles(className, rows) {
  return el("dl", { class: `tiles ${className}` }, rows.map(([value, label, detail]) =>
    el("div", {}, el("dt", { class: "name" }, label), el("dd", {}, value), el("dd", { class: "detail name" }, detail))));
}

/** Columns are { title, number: true if to be set flush right, show }; a click on a heading sorts by it. */
function table(caption, columns, rows, sorted) {
  const body = el("tbody");
  const show = (ordered) => body.replaceChildren(...ordered.map((row) => el("tr", {}, row.map((cell, k) => {
    const attributes = { class: columns[k].number ? "number" : "name", scope: k === 0 ? "row" : null };
    return el(k === 0 ? "th" : "td", attributes, columns[k].show ? columns[k].show(cell) : String(cell));
  }))));
  const order = (k, descending) => {
    heads.forEach((head, j) => head.setAttribute("aria-sort", j === k ? (descending ? "descending" : "ascending") : "none"));
    const sign = descending ? -1 : 1;
    const key = (cell) => (Array.isArray(cell) ? cell[0] : cell);  // a value with its interval
    const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
    show([...rows].sort((a, b) => sign * compare(key(a[k]), key(b[k]))));
  };
  const heads = columns.map((column, k) => el("th", { scope: "col", class: column.number ? "number" : "name", "aria-sort": "none" },
    el("button", {
      type: "button", title: `Sort by ${column.title}`,
      click: () => order(k, heads[k].getAttribute("aria-sort") === "ascending"),
    }, column.title)));
  show(rows);
  if (sorted) heads[sorted.column].setAttribute("aria-sort", sorted.descending ? "descending" : "ascending");
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, el("tr", {}, heads)), body));
}

/** Weights with their names, as bars to the left and to the right. */
class WeightBars {
  constructor(caption) {
    this.body = el("tbody");
    this.heading = el("th", { scope: "col", class: "number" });
    this.element = el("div", { class: "scroll" }, el("table", { class: "weights" }, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "feature"), el("th", { "aria-hidden": "true" }), this.heading)), this.body));
  }

  /** Rows are [name, value]. */
  show(rows, heading) {
    const largest = Math.max(...rows.map(([, value]) => Math.abs(value)));
    const decimals = Math.max(0, 3 - Math.floor(Math.log10(largest)));
    const shown = (value) => (decimals > 7 || largest >= 1e7 ? readable(value) : value.toFixed(decimals).replace("-", "−"));
    this.heading.textContent = heading;
    this.body.replaceChildren(...rows.map(([name, value]) => {
      const bar = el("div", { class: value > 0 ? "positive" : "negative" });
      bar.style.width = `${(50 * Math.abs(value)) / largest}%`;
      return el("tr", {}, el("th", { scope: "row", class: "name" }, name),
        el("td", { class: "track", "aria-hidden": "true" }, el("div", {}, bar)), el("td", { class: "number" }, shown(value)));
    }));
  }
}

const shownWeights = (rows, nonzero, total) => `${rows.length < nonzero ? `The ${rows.length} largest` : "All"} of ` +
  `${count(nonzero, "weight")} that ${nonzero === 1 ? "is" : "are"} not zero, of ${whole(total)}.`;

function summary(contents) {
  const { headline, certificate } = contents;
  const badge = certificate.certified ? "certified" : "uncertified";
  return el("header", {},
    el("p", { class: "overline" }, "maxmargin report"),
    el("h1", { class: "name" }, contents.title),
    headline.warning ? el("p", { class: "lead warning", role: "note" }, headline.warning) : null,
    el("p", { class: "lead" }, headline.sentences.slice(0, -1).join(" ")),
    el("p", { class: `lead proof ${badge}` }, headline.sentences[headline.sentences.length - 1]),
    tiles("", headline.tiles));
}

function parameters(contents) {
  const { model, rows, facts } = contents.parameters;
  if (!rows.length && !facts.length) return null;
  const list = (pairs) => el("dl", { class: "pairs" }, pairs);
  return section("parameters", "What was run?", el("div", { class: "columns" },
    rows.length ? card(`Parameters of ${model}`, list(rows.map(([name, value, changed]) => el("div", { class: changed ? "changed" : "default" },
      el("dt", {}, name), el("dd", { class: "name" }, value)))), note("In bold: not the default.")) : null,
    facts.length ? card("The run", list(facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))))) : null));
}

function footer(contents) {
  return el("footer", {}, contents.notes.map((text) => el("p", { class: "name" }, text)),
    el("p", {}, `Made on ${contents.made.date} with maxmargin ${contents.made.version}. `,
      "Charts: hover or use the arrow keys to read values, drag to zoom, double-click to show all again."));
}

const contents = JSON.parse(document.getElementById("contents").textContent);

function assemble(...sections) {
  document.getElementById("report").replaceChildren(...sections.map((part) => part(contents)).filter(Boolean));
}
