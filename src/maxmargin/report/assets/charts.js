"use strict";
/* Line charts in SVG: hover or arrow keys read values, dragging or + and - zoom, a double click or Escape shows all again.
   Colours, dashes and fonts are in the style sheet, so light, dark and print need no drawing anew. Text from the data is only
   ever set as text content. */

const SVG = "http://www.w3.org/2000/svg";
const PRINTED_WIDTH = 360;

/** An HTML element: el("p", { class: "note" }, "text", child, ...). Attributes that are null or false are left out. */
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** A number for people: about `digits` digits, thousands apart, powers of ten where plain digits would be long. */
function readable(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e7 || (size < 1e-3 && size > 0)) {
    const [mantissa, exponent] = value.toExponential(digits - 2).split("e");
    return `${mantissa.replace(/\.?0+$/, "").replace("-", "−")} × 10${superscript(Number(exponent))}`;
  }
  const options = size >= 10 ** digits ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return new Intl.NumberFormat("en-US", options).format(value).replace("-", "−");
}

function superscript(integer) {
  return [...String(integer)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");
}

/** From data to pixels and back. */
class Scale {
  constructor(domain, range, log) {
    Object.assign(this, { domain, range, log });
    this.even = log ? Math.log : Number;
  }

  forward(value) {
    const [a, b] = this.domain.map(this.even);
    const [p, q] = this.range;
    return p + ((this.even(value) - a) / (b - a)) * (q - p);
  }

  back(pixel) {
    const [a, b] = this.domain.map(this.even);
    const [p, q] = this.range;
    const value = a + ((pixel - p) / (q - p)) * (b - a);
    return this.log ? Math.exp(value) : value;
  }

  /** About n round values inside, each with its text. */
  ticks(n) {
    return this.log && this.domain[1] / this.domain[0] >= 10 ? this.decades(n) : this.steps(n);
  }

  steps(n) {
    const [a, b] = this.domain;
    const raw = (b - a) / n;
    const power = 10 ** Math.floor(Math.log10(raw));
    // The round step nearest to the raw one, on a logarithmic scale.
    const step = power * (raw / power >= Math.sqrt(50) ? 10 : raw / power >= Math.sqrt(10) ? 5 : raw / power >= Math.SQRT2 ? 2 : 1);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const far = Math.max(Math.abs(a), Math.abs(b));
    const ticks = [];
    for (let k = Math.ceil(a / step - 1e-9); k * step <= b + 1e-9 * step; k++) {
      const value = k * step;
      const plain = far < 1e7 && decimals <= 6;
      const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
      const text = plain ? new Intl.NumberFormat("en-US", options).format(value === 0 ? 0 : value).replace("-", "−") : readable(value, 3);
      ticks.push({ value, text });
    }
    return ticks;
  }

  decades(n) {
    const [low, high] = this.domain.map(Math.log10);
    const first = Math.ceil(low - 1e-9);
    const last = Math.floor(high + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / n));
    const ticks = [];
    for (let k = Math.floor(low); k <= last; k++) {
      for (const m of last - first < 2 ? [1, 2, 5] : [1]) {
        const value = m * 10 ** k;
        if (value < this.domain[0] * (1 - 1e-9) || value > this.domain[1] * (1 + 1e-9) || (m === 1 && (k - first) % every)) continue;
        ticks.push({ value, text: k >= -3 && k <= 4 ? readable(value) : `${m > 1 ? `${m} × ` : ""}10${superscript(k)}` });
      }
    }
    return ticks;
  }
}

/** First index whose x is at least the value. */
function lowerBound(xs, value) {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Value of a curve at x: of the step that covers it, or on the line between two points. */
function valueAt(curve, x) {
  const { x: xs, y: ys, steps } = curve;
  if (xs.length === 0 || x < xs[0] || x > xs[xs.length - 1]) return null;
  const k = lowerBound(xs, x);
  if (steps || xs[k] === x || k === 0) return ys[k];
  if (ys[k] === null || ys[k - 1] === null) return null;
  return ys[k - 1] + ((x - xs[k - 1]) / (xs[k] - xs[k - 1])) * (ys[k] - ys[k - 1]);
}

/**
 * A chart.
 *
 * spec = { id, label, x: axis, y: axis, curves: [curve], band: [upper, lower] (indices of curves), read: (x) => text,
 *          flags: [{ x, name }] (marked places), rug: [x, ...] (ticks inside the axis), pick: (x) => what a click does }
 * axis = { title, log, domain (by default what the data need), zero: true if the axis must show 0, percent,
 *          reversed: true if x grows to the left }
 * curve = { name, x: [...] (ascending), y: [...] (null: a gap), look: class name, steps: true if y holds from the x before, area }
 *
 * show(spec) replaces what is drawn; hidden curves stay hidden. mark(x) moves a line across the chart.
 */
class Chart {
  constructor(spec) {
    this.hidden = new Set();
    this.legend = el("div", { class: "legend", role: "group", "aria-label": "Curves shown" });
    const button = (text, title, act) => el("button", { type: "button", title, "aria-label": title, click: act }, text);
    this.reset = button("Show all", "Show the whole chart again", () => this.zoomTo(null));
    this.zoomer = el("div", { class: "zoom" }, this.reset,
      button("−", "Zoom out", () => this.zoomBy(2)), button("+", "Zoom in", () => this.zoomBy(0.5)));
    this.readout = el("div", { class: "readout", role: "status", hidden: true });
    this.plot = svg("svg", { tabindex: 0, role: "img" });
    this.canvas = el("div", { class: "canvas" }, this.plot, this.readout);
    this.element = el("figure", { class: "chart" }, el("div", { class: "bar" }, this.legend, this.zoomer), this.canvas);
    this.zoom = null;
    this.cursor = null;
    this.marked = null;
    this.show(spec);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    // Two charts side by side on paper: drawn as wide as there, so that their text keeps its size.
    addEventListener("beforeprint", () => this.draw(PRINTED_WIDTH));
    addEventListener("afterprint", () => this.draw());
  }

  show(spec) {
    const axes = (s) => s && [s.x.title, s.x.log, s.y.title, s.y.log].join();
    if (axes(this.spec) !== axes(spec)) this.zoom = null;
    this.spec = spec;
    this.cursor = null;
    this.element.id = spec.id;
    this.legend.replaceChildren(...spec.curves.map((curve) => this.legendEntry(curve)));
    this.draw();
  }

  legendEntry(curve) {
    const toggle = (event) => {
      if (!this.hidden.delete(curve.name) && this.curves().length > 1) this.hidden.add(curve.name);
      event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(curve.name)));
      this.draw();
    };
    const pressed = String(!this.hidden.has(curve.name));
    return el("button", { type: "button", "aria-pressed": pressed, title: "Show or hide", click: toggle },
      this.sample(curve), el("span", { class: "name" }, curve.name));
  }

  sample(curve) {
    return svg("svg", { class: "sample", viewBox: "0 0 26 10", "aria-hidden": "true" },
      svg("line", { class: `curve ${curve.look}`, x1: 1, x2: 25, y1: 5, y2: 5 }));
  }

  curves() {
    return this.spec.curves.filter((curve) => !this.hidden.has(curve.name));
  }

  /** Smallest and largest value of an axis over the curves shown, with a little air. */
  extent(key, within) {
    const axis = this.spec[key];
    if (axis.domain && !within) return axis.domain;
    let low = Infinity;
    let high = -Infinity;
    for (const curve of this.curves()) {
      const begin = within ? Math.max(0, lowerBound(curve.x, within[0]) - 1) : 0;
      const end = within ? Math.min(curve.x.length, lowerBound(curve.x, within[1]) + 1) : curve.x.length;
      for (let k = begin; k < end; k++) {
        const value = curve[key][k];
        if (value === null || curve.y[k] === null || (axis.log && value <= 0)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (!(low <= high)) return axis.log ? [0.1, 1] : [0, 1];
    if (key === "x" && low < high) return [low, high];
    if (axis.log) return low < high ? [low / 1.15, high * 1.15] : [low / 2, high * 2];
    if (axis.zero) low = Math.min(low, 0);
    const air = low < high ? 0.04 * (high - low) : 0.5 * Math.max(Math.abs(low), 1e-9);
    const [floor, ceiling] = axis.limits || [-Infinity, Infinity];
    return [axis.zero && low === 0 ? 0 : Math.max(floor, low - air), Math.min(ceiling, high + air)];
  }

  draw(width = Math.round(this.canvas.clientWidth)) {
    if (width < 50 || !this.spec) return;
    const { x: xAxis, y: yAxis, label } = this.spec;
    const height = Math.round(clamp(0.62 * width, 240, 380));
    const xDomain = this.zoom ? this.zoom.x : this.extent("x");
    const yDomain = this.zoom ? this.zoom.y || this.extent("y", this.zoom.x) : this.extent("y");
    const yScale = new Scale(yDomain, [height - 46, 10], yAxis.log);
    const yTicks = yScale.ticks(Math.max(3, Math.floor(height / 55)));
    const left = 30 + 6.6 * Math.max(...yTicks.map((tick) => tick.text.length), 1);
    const xScale = new Scale(xDomain, xAxis.reversed ? [width - 14, left] : [left, width - 14], xAxis.log);
    const xTicks = xScale.ticks(Math.max(3, Math.floor((width - left) / 80)));
    Object.assign(this, { xScale, yScale, width, height, left });

    const clip = `clip-${this.spec.id}`;
    const [bottom, top] = yScale.range;
    const axes = svg("g", { class: "axes" },
      yTicks.map(({ value, text }) => [
        svg("line", { class: "grid", x1: left, x2: width - 14, y1: yScale.forward(value), y2: yScale.forward(value) }),
        svg("text", { class: "tick y", x: left - 8, y: yScale.forward(value), dy: "0.32em" }, text)]),
      xTicks.map(({ value, text }) => [
        svg("line", { class: "mark", x1: xScale.forward(value), x2: xScale.forward(value), y1: bottom, y2: bottom + 5 }),
        svg("text", { class: "tick x", x: xScale.forward(value), y: bottom + 18 }, text)]),
      svg("line", { class: "axis", x1: left, x2: width - 14, y1: bottom, y2: bottom }),
      svg("text", { class: "title x", x: (left + width - 14) / 2, y: height - 6 }, xAxis.title),
      svg("text", { class: "title y", transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)` }, yAxis.title));
    const lines = this.curves().map((curve) => [
      curve.area ? svg("path", { class: `area ${curve.look}`, d: this.areaPath(curve) }) : null,
      svg("path", { class: `curve ${curve.look}`, d: this.path(curve) })]);
    this.selection = svg("rect", { class: "selection", visibility: "hidden" });
    this.hair = svg("g", { class: "hair", visibility: "hidden" });
    this.marker = svg("line", { class: "marker", y1: top, y2: bottom, visibility: "hidden" });
    const seen = svg("rect", { x: left, y: top - 4, width: width - 14 - left, height: bottom - top + 5 });
    this.plot.replaceChildren(
      svg("defs", {}, svg("clipPath", { id: clip }, seen)),
      axes, svg("g", { "clip-path": `url(#${clip})` }, this.bandPath(), this.rug(), this.flags(), lines, this.marker,
        this.selection), this.hair);
    this.plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.plot.setAttribute("aria-label",
      `${label}. ${xAxis.title} from ${readable(xDomain[0], 3)} to ${readable(xDomain[1], 3)}. ` +
      "Arrow keys read values, plus and minus zoom, Escape shows all.");
    this.reset.hidden = !this.zoom;
    if (this.marked !== null) this.mark(this.marked);
    if (this.cursor !== null) this.pointAt(this.cursor);
  }

  mark(x) {
    this.marked = x;
    if (!this.marker) return;
    const px = this.xScale.forward(x);
    fill(this.marker, { x1: px, x2: px, visibility: "visible" }, []);
  }

  rug() {
    const bottom = this.yScale.range[0];
    return (this.spec.rug || []).map((x) => svg("line", {
      class: "rug", x1: this.xScale.forward(x), x2: this.xScale.forward(x), y1: bottom, y2: bottom - 9,
    }));
  }

  flags() {
    const [bottom, top] = this.yScale.range;
    return (this.spec.flags || []).map(({ x, name }) => {
      const px = this.xScale.forward(x);
      const right = px > (this.left + this.width) / 2;
      return svg("g", { class: "flag" }, svg("line", { x1: px, x2: px, y1: top, y2: bottom }),
        svg("text", { x: px + (right ? -6 : 6), y: top + 10, "text-anchor": right ? "end" : "start" }, name));
    });
  }

  /** Points in pixels; a missing value ends a stretch of the line. */
  pixels(curve) {
    const { x: xAxis, y: yAxis } = this.spec;
    const stretches = [[]];
    curve.x.forEach((x, k) => {
      const y = curve.y[k];
      if (x === null || y === null || (xAxis.log && x <= 0) || (yAxis.log && y <= 0)) {
        if (stretches[stretches.length - 1].length) stretches.push([]);
      } else stretches[stretches.length - 1].push([this.xScale.forward(x), this.yScale.forward(y)]);
    });
    return stretches.filter((stretch) => stretch.length);
  }

  path(curve) {
    return this.pixels(curve).map(([[x, y], ...others]) =>
      `M${x.toFixed(1)} ${y.toFixed(1)}${others.length ? this.line(curve, others) : "h1"}`).join("");
  }

  line(curve, points) {
    return points.map(([x, y]) => (curve.steps ? `V${y.toFixed(1)}H${x.toFixed(1)}` : `L${x.toFixed(1)} ${y.toFixed(1)}`)).join("");
  }

  areaPath(curve) {
    const floor = this.yScale.range[0];
    return this.pixels(curve).map((points) => `M${points[0][0].toFixed(1)} ${floor}${this.line(curve, points)}V${floor}Z`).join("");
  }

  /** Between two curves with the same x. */
  bandPath() {
    if (!this.spec.band) return null;
    const [upper, lower] = this.spec.band.map((k) => this.spec.curves[k]);
    if (this.hidden.has(upper.name) || this.hidden.has(lower.name)) return null;
    const corner = (curve) => (k) => `${this.xScale.forward(curve.x[k]).toFixed(1)} ${this.yScale.forward(curve.y[k]).toFixed(1)}`;
    const shown = [...upper.x.keys()].filter((k) => upper.y[k] !== null && lower.y[k] !== null);
    if (shown.length < 2) return null;
    return svg("path", { class: "band", d: `M${[...shown.map(corner(upper)), ...shown.reverse().map(corner(lower))].join("L")}Z` });
  }

  /** Cross-hair and values at the point of the first curve nearest to x. */
  pointAt(x) {
    const curves = this.curves();
    const xs = curves[0].x;
    const [low, high] = this.xScale.domain;
    let k = lowerBound(xs, x);
    const before = Math.max(0, k - 1);
    k = Math.min(k, xs.length - 1);
    const distance = (index) => Math.abs(this.xScale.forward(xs[index]) - this.xScale.forward(x));
    if (distance(before) < distance(k)) k = before;
    // A step is read anywhere on it; a line at its points.
    const at = curves[0].steps ? clamp(x, xs[0], xs[xs.length - 1]) : xs[k];
    if (at < low || at > high) return;
    this.cursor = at;
    const px = this.xScale.forward(at);
    const [bottom, top] = this.yScale.range;
    const values = curves.map((curve) => [curve, valueAt(curve, at)]);
    const points = values.filter(([, y]) => y !== null && !(this.spec.y.log && y <= 0)).map(([curve, y]) => [this.yScale.forward(y), curve]);
    this.hair.replaceChildren(
      svg("line", { x1: px, x2: px, y1: top, y2: bottom }),
      ...points.filter(([py]) => py >= top - 1 && py <= bottom + 1)
        .map(([py, curve]) => svg("circle", { class: curve.look, cx: px, cy: py, r: 4 })));
    this.hair.setAttribute("visibility", "visible");
    const head = this.spec.read ? this.spec.read(at) : `${this.spec.x.title} ${readable(at)}`;
    this.readout.replaceChildren(el("div", { class: "where" }, head),
      ...values.map(([curve, y]) => el("div", { class: "value" }, this.sample(curve),
        el("span", { class: "name" }, curve.name), el("b", {}, curve.read ? curve.read(at, y) : readable(y)))));
    this.readout.hidden = false;
    // In the SVG's own units: on paper the picture is scaled.
    const box = this.readout.offsetWidth;
    const side = px + 14 + box > this.width ? px - 14 - box : px + 14;
    this.readout.style.left = `${clamp(side, 0, Math.max(0, this.width - box))}px`;
    // Away from the points it speaks of.
    const heights = points.map(([py]) => py);
    const below = heights.length && Math.min(...heights) - top < bottom - Math.max(...heights);
    this.readout.style.top = `${below ? bottom - 6 - this.readout.offsetHeight : top + 4}px`;
  }

  leave() {
    this.cursor = null;
    this.readout.hidden = true;
    this.hair.setAttribute("visibility", "hidden");
  }

  zoomTo(zoom) {
    this.zoom = zoom;
    this.draw();
  }

  /** Around the cursor, or the middle; out to at most everything. */
  zoomBy(factor) {
    const whole = new Scale(this.extent("x"), [0, 1], this.spec.x.log);
    const now = this.zoom ? this.zoom.x.map((end) => whole.forward(end)) : [0, 1];
    const centre = this.cursor === null ? (now[0] + now[1]) / 2 : whole.forward(this.cursor);
    const ends = now.map((end) => clamp(centre + factor * (end - centre), 0, 1));
    if (ends[1] - ends[0] < 1e-6) return;
    this.zoomTo(ends[0] <= 0 && ends[1] >= 1 ? null : { x: ends.map((end) => whole.back(end)), y: null });
  }

  listen() {
    const place = (event) => {
      const box = this.plot.getBoundingClientRect();
      const unit = this.width / box.width;
      const [bottom, top] = this.yScale.range;
      return [clamp((event.clientX - box.left) * unit, this.left, this.width - 14), clamp((event.clientY - box.top) * unit, top, bottom)];
    };
    let start = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = place(event);
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const here = place(event);
      this.pointAt(this.xScale.back(here[0]));
      if (!start || Math.abs(here[0] - start[0]) < 6) return;
      const box = this.box(start, here);
      fill(this.selection, { x: box.x[0], width: box.x[1] - box.x[0], y: box.y[0], height: box.y[1] - box.y[0], visibility: "visible" }, []);
    });
    const release = (event) => {
      if (!start) return;
      const here = place(event);
      const box = this.box(start, here);
      start = null;
      this.selection.setAttribute("visibility", "hidden");
      if (event.type === "pointercancel") return;
      if (box.x[1] - box.x[0] < 6) {
        if (this.spec.pick) this.spec.pick(this.xScale.back(here[0]));
        return;
      }
      const [y1, y2] = box.y.map((pixel) => this.yScale.back(pixel));
      this.cursor = null;
      this.readout.hidden = true;
      this.zoomTo({ x: box.x.map((pixel) => this.xScale.back(pixel)).sort((a, b) => a - b), y: box.flat ? null : [y2, y1] });
    };
    this.canvas.addEventListener("pointerup", release);
    this.canvas.addEventListener("pointercancel", release);
    this.canvas.addEventListener("pointerleave", () => !start && this.leave());
    this.canvas.addEventListener("dblclick", () => this.zoomTo(null));
    this.canvas.addEventListener("focusout", () => this.leave());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /** A drag that is nearly level selects x alone; the other axis then fits what is seen. */
  box(from, to) {
    const [bottom, top] = this.yScale.range;
    const x = [Math.min(from[0], to[0]), Math.max(from[0], to[0])];
    const flat = Math.abs(from[1] - to[1]) < 30;
    return { x, flat, y: flat ? [top, bottom] : [Math.min(from[1], to[1]), Math.max(from[1], to[1])] };
  }

  /** Pixels where the axis begins and ends, from left to right. */
  ends() {
    return [...this.xScale.range].sort((a, b) => a - b);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = this.ends();
    const at = this.cursor === null ? low : this.xScale.forward(this.cursor);
    const step = event.shiftKey ? 1 : Math.max(4, (high - low) / 60);
    const act = {
      ArrowRight: () => this.walk(at, step), ArrowLeft: () => this.walk(at, -step),
      Home: () => this.walk(low, 0), End: () => this.walk(high, 0),
      Enter: () => this.cursor !== null && this.spec.pick && this.spec.pick(this.cursor),
      "+": () => this.zoomBy(0.5), "=": () => this.zoomBy(0.5), "-": () => this.zoomBy(2),
      Escape: () => this.zoomTo(null), 0: () => this.zoomTo(null),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** So many pixels along the first curve, and at least to its next point. */
  walk(pixel, step) {
    const [low, high] = this.ends();
    const before = this.cursor;
    for (let to = pixel + step; ; to += step) {
      this.pointAt(this.xScale.back(clamp(to, low, high)));
      if (step === 0 || this.cursor !== before || to <= low || to >= high) return;
    }
  }
}
