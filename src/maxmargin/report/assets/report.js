/* The page about a ranking model. */

const METHOD_LOOKS = ["model", "other-1", "other-2", "other-3", "other-4", "other-5"];

function look(contents, name) {
  const index = contents.methods.indexOf(name);
  return index === contents.methods.length - 1 ? "random" : METHOD_LOOKS[Math.min(index, METHOD_LOOKS.length - 1)];
}

function metrics(contents) {
  const { titles, rows } = contents.metrics;
  const best = titles.map((_, k) => Math.max(...rows.slice(0, -1).map((row) => row[k])));
  const ends = contents.intervals;
  const cell = (value, k, m) => {
    const text = value.toFixed(3);
    const random = m === rows.length - 1;
    const shown = !random && rows.length > 2 && text === best[k].toFixed(3) ? el("strong", {}, text) : text;
    return el("td", { class: "number" }, withRange(shown, random ? null : ends.metrics[m][k]));
  };
  const { data } = contents;
  const remarks = [data.queries > 1 ? "Means over the queries." : "All samples form one list.",
    `Small: 95 % intervals, by ${ends.how}.`, "Random is the exact expectation over all orders.",
    data.graded ? `Relevant means a label above ${readable(data.threshold)}; NDCG uses the grades as gains.` : "",
    data.without_relevant ? `${count(data.without_relevant, "query has", "queries have")} no relevant samples and count as 0.` : ""];
  return section("metrics", "How good is the ranking?", card(null,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Metrics" },
      el("table", {}, el("caption", { class: "hidden" }, "Metrics of the model, the baselines and a random ranking"),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "ranked by"), titles.map((title) => el("th", { scope: "col", class: "number" }, title)))),
        el("tbody", {}, rows.map((row, m) => el("tr", {},
          el("th", { scope: "row", class: "name" }, contents.methods[m]),
          row.map((value, k) => cell(value, k, m))))))),
    note(remarks.filter(Boolean).join(" "))), leads(contents));
}

/** How much better or worse than each baseline, on the same draws: tells more than two intervals that overlap. */
function leads(contents) {
  const { titles, rows } = contents.metrics;
  const ends = contents.intervals.leads;
  if (!ends.length) return null;
  const signed = (value) => (value >= 0.0005 ? "+" : "") + three(value);
  return card(`${contents.methods[0]} minus each baseline`,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Differences" },
      el("table", { id: "leads" }, el("caption", { class: "hidden" }, "Differences between the model and the baselines"),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "against"), titles.map((title) => el("th", { scope: "col", class: "number" }, title)))),
        el("tbody", {}, ends.map((row, m) => el("tr", {}, el("th", { scope: "row", class: "name" }, contents.methods[m + 1]),
          row.map((range, k) => el("td", { class: "number" }, withRange(signed(rows[0][k] - rows[m + 1][k]), range)))))))),
    note("Small: 95 % intervals of the difference, both ranking the same draws. An interval that contains 0 tells nobody ahead."));
}

/** One list: the first k samples are all that somebody can look at. */
function budget(contents) {
  const found = contents.budgets;
  if (!found) return null;
  const { steps, hits, total, rows } = found;
  const names = contents.methods.slice(0, -1);
  const first = lowerBound(steps, rows[Math.min(rows.length - 1, 1)][0]);
  const n = contents.data.samples;
  const slider = el("input", { id: "budget-slider", type: "range", min: 0, max: steps.length - 1, value: first, "aria-label": "Samples inspected" });
  const typed = field("budget-number", "Samples inspected", { min: 1, max: n, step: 1, value: steps[first] });
  const now = el("div");
  const exact = note();
  const show = (index, wanted) => {
    const k = steps[index];
    slider.value = index;
    if (document.activeElement !== typed.input) typed.input.value = k;
    slider.setAttribute("aria-valuetext", whole(k));
    const each = hits.map((list) => list[index]);
    now.replaceChildren(
      tiles("now budget-now", [[three(each[0] / k), "precision", `${whole(each[0])} relevant among the first ${whole(k)}`],
        [three(each[0] / total), "recall", `of ${count(total, "relevant sample")}`],
        [share(k / n), "of the list", `a random ranking would find ${readable((k * total) / n, 3)}`]]),
      names.length > 1 ? table("Baselines at this budget", ["ranked by", "relevant", "precision", "recall"].map((title, c) =>
        ({ title, number: c > 0, show: c === 1 ? whole : c > 1 ? three : null })), names.map((name, m) => [name, each[m], each[m] / k, each[m] / total])) : "");
    exact.textContent = wanted && wanted !== k ? `Long lists are known at some budgets only: shown is ${whole(k)}.` : "";
    exact.hidden = !exact.textContent;
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  typed.input.addEventListener("input", () => {
    const k = Math.floor(Number(typed.input.value));
    if (k >= 1) show(Math.max(0, lowerBound(steps, Math.min(k, n) + 0.5) - 1), Math.min(k, n));
  });
  show(first);
  const columns = [{ title: "first", number: true, show: whole }, { title: "share of the list", number: true, show: share },
    { title: "precision", number: true, show: ([value, ends]) => withRange(value, ends) }, { title: "recall", number: true, show: three },
    ...names.slice(1).map((name) => ({ title: `precision of ${name}`, number: true, show: three }))];
  const cells = rows.map(([k, precision, ends, recall, ...others]) => [k, k / n, [precision, ends], recall, ...others]);
  return section("budget", "What is found if you can look at so many?", el("div", { class: "columns" },
    card("Your budget", el("div", { class: "tuner" }, typed.element, slider), now, exact),
    card("Precision and recall at some budgets", table("Budgets", columns, cells),
      note("Small: 95 % intervals. Tied samples stand in the least favourable order."))));
}

/** One list: everything that scores at least the threshold is flagged. */
function thresholds(contents) {
  const found = contents.thresholds;
  if (!found) return null;
  const { corners, total, samples: n } = found;
  // Python has made them as short as they can be without flagging others, so they are not rounded here.
  const score = (value) => String(value).replace("-", "−");
  const columns = [{ title: "threshold", number: true, show: score }, { title: "flagged", number: true, show: whole },
    ...["precision", "recall", "F1"].map((title) => ({ title, number: true, show: three }))];
  const miss = field("cost-miss", "A miss costs", { min: 0, step: "any", value: 10 });
  const alarm = field("cost-alarm", "A false alarm costs", { min: 0, step: "any", value: 1 });
  const answer = el("div", { "aria-live": "polite" });
  const show = () => {
    const [m, a] = [miss, alarm].map(({ input }) => (input.value === "" ? NaN : Number(input.value)));
    if (!(m >= 0) || !(a >= 0)) {
      answer.replaceChildren(note("Type two costs that are not negative."));
      return;
    }
    const cost = ([, alarms, hits]) => m * (total - hits) + a * alarms;
    // Of equally cheap ones the highest threshold, which flags least.
    const best = corners.reduce((one, other) => (cost(other) < cost(one) ? other : one));
    const [threshold, alarms, hits] = best;
    answer.replaceChildren(tiles("now cost-now", [
      [threshold === null ? "none" : `≥ ${score(threshold)}`, "cheapest threshold", threshold === null ? "flag nothing" : `flags ${count(alarms + hits, "sample")}`],
      [readable(cost(best), 5), "cost", `${count(total - hits, "miss", "misses")}, ${count(alarms, "false alarm")}`],
      [readable(Math.min(m * total, a * (n - total)), 5), "without the model", m * total <= a * (n - total) ? "flag nothing" : "flag everything"]]));
  };
  [miss, alarm].forEach(({ input }) => input.addEventListener("input", show));
  show();
  return section("thresholds", "Which threshold?", el("div", { class: "columns" },
    card("Thresholds", table("Thresholds", columns, found.rows, { column: 0, descending: true }),
      note(`Flagged is what scores at least the threshold. The best F1 is at ${score(found.best)}.`)),
    card("What errors cost", el("div", { class: "tuner" }, miss.element, alarm.element), answer,
      note("The cheapest of all thresholds on these data, which are too kind to it: set it on one set and judge it on another."))));
}

/** Parts of the data, the worst first. */
function slices(contents) {
  if (!contents.slices.length) return null;
  const names = contents.methods.slice(1, -1);
  return section("slices", "For whom is it worse?", contents.slices.map(({ name, rows, note: remark }) => {
    const queries = rows.some((row) => row[2] !== null);
    // The metric first: on a phone the counts are what can be scrolled to.
    const columns = [{ title: name }, { title: contents.metric, number: true, show: ([value, ends]) => withRange(value, ends) },
      ...[...names, "random"].map((who) => ({ title: who, number: true, show: three })),
      ...["samples", "relevant", ...(queries ? ["queries"] : [])].map((title) => ({ title, number: true, show: whole }))];
    const cells = rows.map(([part, size, inQueries, relevant, value, ends, ...others]) =>
      [part, [value, ends], ...others, size, relevant, ...(queries ? [inQueries] : [])]);
    return card(`By ${name}`, rows.length ? table(`Slices by ${name}`, columns, cells, { column: 1 }) : null,
      note(`Small: 95 % intervals. ${contents.metric} is easier where more is relevant: compare with random. ${remark}`));
  }));
}

function curves(contents) {
  const recall = contents.precision_recall;
  const styled = (list, steps) => list.map((curve) => ({ ...curve, look: look(contents, curve.name), steps: steps && curve.name !== "random" }));
  const precision = new Chart({
    id: "chart-precision-recall", label: "Precision over recall",
    x: { title: "recall", domain: [0, 1] }, y: { title: "precision", domain: [0, 1.02], limits: [0, 1.02] },
    curves: styled(recall.curves, recall.steps),
  });

  const kinds = { found: "share of relevant samples found", collected: "share of all grades collected" };
  const state = { kind: "found", log: false };
  const gainSpec = () => {
    const list = styled(contents.gain[state.kind], false);
    const first = Math.min(...list.map((curve) => curve.x.find((x) => x > 0)));
    return {
      id: "chart-gain", label: "Gain",
      x: { title: "share of the list inspected", domain: state.log ? [first, 1] : [0, 1], log: state.log },
      y: { title: kinds[state.kind], domain: [0, 1.02], limits: [0, 1.02] },
      read: (x) => `${share(x)} of the list inspected`,
      curves: list,
    };
  };
  const gain = new Chart(gainSpec());
  const turn = (key) => (value) => {
    state[key] = value;
    gain.show(gainSpec());
  };
  return section("curves", "Where does it find what is relevant?", el("div", { class: "columns" },
    card("Precision and recall", precision.element, note(recall.note)),
    card("Gain", el("div", { class: "choices" },
      choice("gain-axis", "List axis", [["linear", "linear"], ["log", "logarithmic"]], (value) => turn("log")(value === "log")),
      contents.gain.collected
        ? choice("gain-kind", "Count", [["found", "relevant samples"], ["collected", "grades"]], turn("kind")) : null),
    gain.element, contents.gain.note ? note(contents.gain.note) : null)));
}

function scoreDistribution(contents) {
  const { edges, counts, totals, beyond, pooled } = contents.scores;
  const bin = binOf(edges);
  const looks = ["relevant", "irrelevant"];
  const chart = new Chart({
    id: "chart-scores", label: "Distribution of scores",
    x: { title: "score" }, y: { title: "share of the class", zero: true },
    read: (x) => `score ${readable(edges[bin(x)], 3)} to ${readable(edges[bin(x) + 1], 3)}`,
    curves: looks.map((name, k) => ({
      name, look: name, ...histogramCurve(edges, counts[k], totals[k]),
      read: (x) => `${share(counts[k][bin(x)] / totals[k])} (${whole(counts[k][bin(x)])})`,
    })),
  });
  const outside = beyond[0] + beyond[1];
  const remarks = [`${count(totals[0], "relevant sample")}, ${count(totals[1], "irrelevant one")}.`,
    pooled ? "All queries together, although scores are only compared within a query." : "",
    outside ? `${count(outside, "outlying score is", "outlying scores are")} beyond the axis.` : ""];
  return section("scores", "How well are the scores apart?", el("div", { class: "columns" },
    card("Scores of relevant and irrelevant samples", chart.element, note(remarks.filter(Boolean).join(" "))),
    queryDistribution(contents)));
}

/** Which bin a value is in. */
const binOf = (edges) => (x) => clamp(lowerBound(edges, x) - 1, 0, edges.length - 2);

/** Counts between edges as steps: y holds from the edge before. */
function histogramCurve(edges, counts, total) {
  return { x: edges, y: [counts[0], ...counts].map((n) => n / total), steps: true, area: true };
}

function queryDistribution(contents) {
  const found = contents.queries;
  if (!found) return null;
  const bin = binOf(found.edges);
  const chart = new Chart({
    id: "chart-queries", label: `Distribution of ${contents.metric} over the queries`,
    x: { title: `${perQuery(contents)} of a query`, domain: [0, 1] }, y: { title: "share of the queries", zero: true },
    read: (x) => `${perQuery(contents)} ${readable(found.edges[bin(x)], 3)} to ${readable(found.edges[bin(x) + 1], 3)}`,
    curves: found.counts.map((counts, k) => ({
      name: contents.methods[k], look: look(contents, contents.methods[k]), ...histogramCurve(found.edges, counts, found.total), area: k === 0,
      read: (x) => count(counts[bin(x)], "query", "queries"),
    })),
  });
  return card("How queries fare", chart.element,
    found.duels.map((duel) => note(`Against ${duel.name}: better on ${count(duel.better, "query", "queries")}, worse on ` +
      `${whole(duel.worse)}, equal on ${whole(duel.equal)}.`)));
}

/** What the mean over queries is a mean of. */
function perQuery(contents) {
  return { MAP: "AP", MRR: "reciprocal rank" }[contents.metric] || contents.metric;
}

function queries(contents) {
  const found = contents.queries;
  if (!found) return null;
  const known = documents(contents);
  const open = (name) => (known.has(name) ? el("button", { type: "button", class: "link", title: "Show its documents", click: () => known.open(name) }, name) : name);
  const columns = [{ title: "query", show: open }, ...["samples", "relevant", "first relevant at"].map((title) => ({ title, number: true, show: whole })),
    ...["", ...found.others.map((name) => ` of ${name}`)].map((who) => ({ title: perQuery(contents) + who, number: true, show: three }))];
  return section("queries", "Which queries fare worst?", card(null,
    table("The worst queries", columns, found.rows, { column: 4 }),
    note(`The ${found.rows.length} worst of ${count(found.total, "query", "queries")} with relevant samples. Click on one for its documents.`)),
  known.element);
}

/** The documents of one query, to be chosen from those that the page holds. */
function documents(contents) {
  const found = contents.documents;
  const others = contents.methods.slice(1, -1);
  const index = new Map(found.queries.map((query, k) => [query.name, k]).reverse());
  const list = el("select", { id: "query-choice", "aria-label": "Query" });
  const search = el("input", { id: "query-search", type: "search", autocomplete: "off", placeholder: "part of a name" });
  const title = el("h3", { class: "name", tabindex: -1 });
  const body = el("div");
  const remark = note();
  const show = (k) => {
    const query = found.queries[k];
    title.textContent = `Documents of ${query.name}`;
    const columns = [["rank", whole], ["sample", String], ["label", (v) => readable(v)], ["score", (v) => readable(v)],
      ...others.map((name) => [`rank by ${name}`, whole])].map(([heading, format]) => ({ title: heading, number: true, show: format }));
    body.replaceChildren(table(`Documents of ${query.name}`, columns, query.rows, { column: 0 }));
    const threshold = contents.data.threshold;
    // Rows are coloured as they are sorted, so by their label and not by their place.
    const colour = () => body.querySelectorAll("tbody tr").forEach((row) => row.classList.toggle("hit", Number(row.children[2].textContent.replace("−", "-")) > threshold));
    body.querySelectorAll("th button").forEach((button) => button.addEventListener("click", colour));
    colour();
    remark.textContent = [query.rows.length < query.samples ? `${whole(query.rows.length)} of ${count(query.samples, "document")}: the first ${found.top}, ` +
      `and up to ${found.beyond} relevant ones beyond.` : "", "Relevant documents are marked. Samples are counted from 1.",
    found.queries.length < found.of ? `The page holds the documents of the ${count(found.queries.length, "worst query", "worst queries")} ` +
      `of ${whole(found.of)} with relevant samples.` : `The page holds the documents of all ${count(found.of, "query", "queries")} with relevant samples.`]
      .filter(Boolean).join(" ");
  };
  const offer = () => {
    const wanted = search.value.trim().toLowerCase();
    const matching = [...found.queries.keys()].filter((k) => found.queries[k].name.toLowerCase().includes(wanted));
    list.replaceChildren(...matching.map((k) => el("option", { value: k }, found.queries[k].name)));
    list.disabled = matching.length === 0;
    if (matching.length) show(matching[0]);
  };
  list.addEventListener("change", () => show(Number(list.value)));
  search.addEventListener("input", offer);
  const open = (name) => {
    search.value = "";
    offer();
    list.value = index.get(name);
    show(index.get(name));
    title.scrollIntoView({ block: "start" });
    title.focus({ preventScroll: true });
  };
  if (found.queries.length) offer();
  const pick = el("div", { class: "tuner" }, el("label", { class: "field", for: "query-search" }, el("span", {}, "Find a query"), search),
    el("label", { class: "field", for: "query-choice" }, el("span", {}, "Query"), list));
  const element = found.queries.length ? el("article", { class: "card", id: "documents" }, title, pick, body, remark) : null;
  return { element, open, has: (name) => index.has(name) };
}

function samples(contents) {
  const found = contents.samples;
  if (!found) return null;
  const columns = [["sample", String], ["rank", whole], ["score", (v) => readable(v)]].map(([title, show]) => ({ title, number: true, show }));
  const part = (title, rows, none) => card(title, rows.length ? table(title, columns, rows) : note(none));
  return section("samples", "Which samples stand where they should not?", el("div", { class: "columns" },
    part("Relevant, but ranked late", found.late, "None: every relevant sample stands before every irrelevant one."),
    part("Irrelevant, but ranked early", found.early, "None: no irrelevant sample stands before a relevant one.")),
  note("Samples are counted from 1; rank 1 is the top of the list."));
}

function features(contents) {
  const found = contents.features;
  if (!found) return null;
  const kinds = {
    by_weight: ["weight", "How the score changes as a feature grows by 1."],
    by_effect: ["weight × spread", "How the score changes as a feature grows by its standard deviation on these data: comparable where " +
      "features have different units."],
  };
  const bars = new WeightBars("Features with the largest weights");
  const explanation = note();
  const show = (kind) => {
    const rows = found[kind];
    bars.show(rows, kinds[kind][0]);
    explanation.textContent = `${kinds[kind][1]} ${shownWeights(rows, found.nonzero, found.total)}`;
  };
  const title = "What does the score look at?";
  if (found.by_weight.length === 0) return section("features", title, card(null, note("All weights are zero.")));
  show("by_weight");
  return section("features", title, card(null,
    found.by_effect ? choice("feature-order", "Order by", [["by_weight", "weight"], ["by_effect", "weight × spread"]], show) : null,
    bars.element, explanation));
}

function training(contents) {
  const found = contents.convergence;
  if (!found) return null;
  const axis = { passes: { title: "passes over the data" }, seconds: { title: "seconds" } };
  const objective = (key) => ({
    id: "chart-objective", label: "Primal and dual objective", x: axis[key], y: { title: "objective" }, band: [0, 1],
    curves: [{ name: "primal (upper bound)", look: "relevant", x: found[key], y: found.primal },
      { name: "dual (lower bound)", look: "irrelevant", x: found[key], y: found.dual }],
  });
  const gap = (key) => ({
    id: "chart-gap", label: "Duality gap", x: axis[key], y: { title: "duality gap", log: true },
    curves: [{ name: "gap", look: "relevant", x: found[key], y: found.gap }],
  });
  const charts = [new Chart(objective("passes")), new Chart(gap("passes"))];
  const turn = (key) => [objective, gap].forEach((spec, k) => charts[k].show(spec(key)));
  return section("training", "How did training converge?",
    choice("training-axis", "Over", [["passes", "passes"], ["seconds", "seconds"]], turn),
    el("div", { class: "columns" },
      card("Objective", charts[0].element, note("The optimum lies in the band between the two.")),
      card("Gap", charts[1].element, note(contents.certificate.sentence))));
}

/** Training that follows the loss itself has no bounds to show. */
function descent(contents) {
  const found = contents.descent;
  if (!found) return null;
  const axis = { steps: { title: "steps" }, seconds: { title: "seconds" } };
  const spec = (key) => ({
    id: "chart-descent", label: "Training loss", x: axis[key], y: { title: "mean training loss" },
    curves: [{ name: "best so far", look: "model", x: found[key], y: found.best },
      { name: "at the step", look: "irrelevant", x: found[key], y: found.loss }],
  });
  const chart = new Chart(spec("steps"));
  return section("descent", "How did training go?", card("Loss",
    choice("descent-axis", "Over", [["steps", "steps"], ["seconds", "seconds"]], (key) => chart.show(spec(key))),
    chart.element, note(contents.certificate.sentence)));
}

assemble(summary, metrics, curves, budget, thresholds, scoreDistribution, slices, queries, samples, features, training, descent, parameters, footer);
