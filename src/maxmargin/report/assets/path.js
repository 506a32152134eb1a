/* The page about a regularization path: a slider over lambda, and what the model of that lambda is like. */

const HUES = ["model", "other-1", "other-2", "other-3", "other-5"];
const PROFILE_LOOKS = ["solid", "dashed"].flatMap((line) => HUES.map((hue) => `${hue} ${line}`));
const STEPS = 1000;

/** Which model is used at lambda. Where the page leaves out models, lambda moves on to the next range: down, or up if told so. */
function modelAt({ models }, lambda, up) {
  const found = models.low.findIndex((low) => low <= lambda);
  const below = found < 0 ? models.low.length - 1 : found;
  const k = up && below > 0 && lambda > models.high[below] ? below - 1 : below;
  return { k, lambda: clamp(lambda, models.low[k], models.high[k]) };
}

/** The bound of the gap is affine on every range. */
function gapAt({ models }, k, lambda) {
  const ranges = models.gaps[k];
  const [high, low, atHigh, atLow] = ranges.find((range) => lambda >= range[1]) || ranges[ranges.length - 1];
  const at = high > low ? clamp((high - lambda) / (high - low), 0, 1) : 0;
  return (1 - at) * atHigh + at * atLow;
}

/** Ascending lambda for curves: models come in descending order. */
const ascending = (values) => [...values].reverse();

function stepCurve({ models }, values) {
  const last = values.length - 1;
  return { x: [models.low[last], ...ascending(models.high)], y: [values[last], ...ascending(values)], steps: true };
}

function pathExplorer(contents) {
  const { path } = contents;
  const { models, best } = path;
  // From the largest lambda on the left to the smallest on the right, evenly in its logarithm.
  const slider = new Scale([path.low, path.high], [STEPS, 0], true);
  const stepOf = (lambda) => Math.round(slider.forward(lambda));
  const last = models.number.length - 1;
  const C = (lambda) => 1 / (lambda * path.n_blocks);
  const axis = { title: "λ", log: true, reversed: true, domain: [path.low, path.high] };
  const read = (lambda) => `λ ${readable(lambda, 3)}, C ${readable(C(lambda), 3)}`;
  const flags = best ? [{ x: best.lambda, name: "best" }] : [];
  const common = { x: axis, read, flags, pick: (lambda) => move(lambda) };

  const charts = [];
  const chart = (title, spec, text) => {
    const drawn = new Chart({ ...common, ...spec });
    charts.push(drawn);
    return card(title, drawn.element, note(text));
  };
  const scores = [["validation", "relevant", path.held_out], ["training", "irrelevant", "training data"]].filter(([key]) => models[key]);
  const scoreCard = scores.length === 0 ? null : chart(`${path.metric} over λ`, {
    id: "chart-score", label: `${path.metric} over lambda`, y: { title: path.metric },
    curves: scores.map(([key, look, name]) => ({ name, look, ...stepCurve(path, models[key]) })),
  }, "A model keeps its score in the whole range of λ that it is used for.");
  const profileSpec = (relative) => ({
    id: "chart-profiles", label: "Weights over lambda", y: { title: relative ? "weight / largest weight" : "weight" },
    curves: path.profiles.map(([feature, weights], j) => ({
      name: path.features[feature], look: PROFILE_LOOKS[j], x: ascending(models.lambda),
      y: ascending(relative ? weights.map((weight, k) => weight / largest(k)) : weights),
    })),
  });
  const largest = (k) => (models.largest[k].length ? Math.abs(models.largest[k][0][1]) : 1);
  const profileCard = path.profiles.length === 0 ? null : chart("Weights over λ", profileSpec(false),
    `The ${count(path.profiles.length, "feature")} with the largest weights along the path. Lines join the values of λ that were solved.`);
  if (profileCard) {
    const profiles = charts[charts.length - 1];
    profileCard.firstChild.after(choice("profile-scale", "Show", [["weight", "weights"], ["relative", "relative to the largest"]],
      (value) => profiles.show({ ...common, ...profileSpec(value === "relative") })));
  }
  const gapCard = chart("How far from optimal, at most", {
    id: "chart-gap-bound", label: "Bound of the gap over lambda", y: { title: "bound of the gap", zero: true },
    rug: path.breakpoints,
    curves: [{ name: "bound of the gap", look: "relevant", ...path.gap },
      { name: "ε", look: "random", x: [path.low, path.high], y: [path.epsilon, path.epsilon] }],
  }, "Ticks at the bottom: where the model changes. " + (path.certified ? "The bound is proved." : "The bound is not proved."));

  const bars = new WeightBars("The largest weights at this lambda");
  const barsNote = note();
  const fields = {};
  const field = (key, label) => {
    fields[key] = el("dd", { id: `now-${key}` });
    fields[`${key}Detail`] = el("dd", { class: "detail", id: `now-${key}-detail` });
    return el("div", {}, el("dt", {}, label), fields[key], fields[`${key}Detail`]);
  };
  const meter = el("div", { class: "meter", "aria-hidden": "true" }, el("div"));
  const input = el("input", {
    type: "range", id: "lambda", min: 0, max: STEPS, step: 1, "aria-label": "lambda, from large to small",
    input: () => move(slider.back(Number(input.value)), Number(input.value) < stepOf(now.lambda)),
  });
  const button = (id, text, title, act) => el("button", { type: "button", id, title, click: act }, text);
  const previous = button("previous-model", "‹ Previous model", "The model of the next larger λ", () => jump(now.k - 1));
  const next = button("next-model", "Next model ›", "The model of the next smaller λ", () => jump(now.k + 1));
  const toBest = best ? button("best-model", "Best", `The best model on ${path.held_out}`, () => move(best.lambda)) : null;

  let now = null;
  const move = (wanted, up = false) => show(modelAt(path, clamp(wanted, path.low, path.high), up));
  // Where the ranges of two models meet, either may be shown: a button says which.
  const jump = (k) => k >= 0 && k <= last && show({ k, lambda: clamp(models.lambda[k], models.low[k], models.high[k]) });
  const show = ({ k, lambda }) => {
    now = { k, lambda };
    const gap = gapAt(path, k, lambda);
    input.value = stepOf(lambda);
    input.setAttribute("aria-valuetext", `lambda ${readable(lambda, 3)}, C ${readable(C(lambda), 3)}, model ${k + 1} of ${last + 1}`);
    previous.disabled = k === 0;
    next.disabled = k === last;
    fields.lambda.textContent = readable(lambda, 4);
    fields.lambdaDetail.textContent = `C = ${readable(C(lambda), 4)}`;
    fields.model.textContent = String(models.number[k]);
    fields.modelDetail.textContent = rangeText(k);
    fields.gap.textContent = readable(gap, 3);
    fields.gapDetail.textContent = `of ε = ${readable(path.epsilon, 3)} allowed`;
    meter.firstChild.style.width = `${clamp((100 * gap) / path.epsilon, 0, 100)}%`;
    for (const [key] of scores) {
      fields[key].textContent = models[key][k] === null ? "–" : models[key][k].toFixed(3);
      fields[`${key}Detail`].textContent = key === "validation" && best ? difference(k) : "";
    }
    const rows = models.largest[k].map(([feature, weight]) => [path.features[feature], weight]);
    bars.show(rows, "weight");
    barsNote.textContent = rows.length === 0 ? "All weights are zero." : shownWeights(rows, models.nonzero[k], path.n_weights);
    charts.forEach((drawn) => drawn.mark(lambda));
  };
  const rangeText = (k) => {
    if (k === 0 && path.closed_form) return `for λ from ${readable(models.low[k], 3)} up`;
    if (k === last && path.reached_zero) return `for λ below ${readable(models.high[k], 3)}`;
    return `for λ from ${readable(models.low[k], 3)} to ${readable(models.high[k], 3)}`;
  };
  const difference = (k) => {
    const behind = best.score - models.validation[k];
    return behind > 0 ? `${behind.toFixed(3)} below the best` : "the best";
  };

  const tiles = el("dl", { class: "tiles now" }, field("lambda", "λ"), field("model", `number of the model, 0 to ${models.number[last]}`),
    field("gap", "gap to the optimum, at most"), scores.map(([key, , name]) => field(key, `${path.metric} on ${name}`)));
  fields.gap.parentElement.append(meter);
  const left = last + 1 < path.total
    ? note(`The page has ${whole(last + 1)} of ${count(path.total, "model")}, the best among them.`) : null;
  const explorer = section("path", "Move along the path", el("div", { class: "card control" },
    el("div", { class: "slide" }, previous, input, next, toBest),
    el("div", { class: "ends", "aria-hidden": "true" }, el("span", {}, `λ = ${readable(path.high, 3)}: strong regularization`),
      el("span", {}, `weak: λ = ${readable(path.low, 3)}`))),
  tiles, left,
  el("div", { class: "columns charts" }, scoreCard, gapCard, profileCard,
    card("Largest weights at this λ", bars.element, barsNote)));
  move(best ? best.lambda : Math.sqrt(path.low * path.high));
  return explorer;
}

function pathModels({ path }) {
  const { models } = path;
  const number = (value) => readable(value, 4);
  const score = (value) => (value === null ? "–" : value.toFixed(4));
  const bounds = models.gaps.map((ranges) => Math.max(0, ...ranges.flatMap((range) => range.slice(2))));
  const columns = [
    ["number", models.number, String], ["λ solved", models.lambda, number], ["used from λ", models.high, number], ["down to λ", models.low, number],
    ["C", models.lambda.map((lambda) => 1 / (lambda * path.n_blocks)), number], ["gap at most", bounds, number],
    ["passes", models.passes, number], ["weights not 0", models.nonzero, whole],
    [`${path.metric} on training data`, models.training, score], [`${path.metric} on ${path.held_out}`, models.validation, score],
  ].filter(([, values]) => values);
  const rows = models.number.map((_, k) => columns.map(([, values]) => values[k]));
  return section("models", "All models", el("details", { class: "card" }, el("summary", {}, `${count(rows.length, "model")} as a table`),
    table("Models of the path", columns.map(([title, , show]) => ({ title, number: true, show })), rows, { column: 1, descending: true }),
    note("In Python, path.estimator_of(number) is the fitted estimator; path.estimator(lambda) is that of any λ.")));
}

assemble(summary, pathExplorer, pathModels, parameters, footer);
