/* The page about a ranking model. */

const METHOD_LOOKS = ["model", "other-1", "other-2", "other-3", "other-4", "other-5"];

function look(contents, name) {
  const index = contents.methods.indexOf(name);
  return index === contents.methods.length - 1 ? "random" : METHOD_LOOKS[Math.min(index, METHOD_LOOKS.length - 1)];
}

function metrics(contents) {
  const { titles, rows } = contents.metrics;
  const best = titles.map((_, k) => Math.max(...rows.slice(0, -1).map((row) => row[k])));
  const cell = (value, k, random) => {
    const text = value.toFixed(3);
    return el("td", { class: "number" }, !random && rows.length > 2 && text === best[k].toFixed(3) ? el("strong", {}, text) : text);
  };
  const { data } = contents;
  const remarks = [data.queries > 1 ? "Means over the queries." : "All samples form one list.",
    "Random is the exact expectation over all orders.",
    data.graded ? `Relevant means a label above ${readable(data.threshold)}; NDCG uses the grades as gains.` : "",
    data.without_relevant ? `${count(data.without_relevant, "query has", "queries have")} no relevant samples and count as 0.` : ""];
  return section("metrics", "How good is the ranking?", card(null,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Metrics" },
      el("table", {}, el("caption", { class: "hidden" }, "Metrics of the model, the baselines and a random ranking"),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "ranked by"), titles.map((title) => el("th", { scope: "col", class: "number" }, title)))),
        el("tbody", {}, rows.map((row, m) => el("tr", {},
          el("th", { scope: "row", class: "name" }, contents.methods[m]),
          row.map((value, k) => cell(value, k, m === rows.length - 1))))))),
    note(remarks.filter(Boolean).join(" "))));
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
  const three = (value) => value.toFixed(3);
  const columns = [{ title: "query" }, ...["samples", "relevant", "first relevant at"].map((title) => ({ title, number: true, show: whole })),
    ...["", ...found.others.map((name) => ` of ${name}`)].map((who) => ({ title: perQuery(contents) + who, number: true, show: three }))];
  return section("queries", "Which queries fare worst?", card(null,
    table("The worst queries", columns, found.rows, { column: 4 }),
    note(`The ${found.rows.length} worst of ${count(found.total, "query", "queries")} with relevant samples.`)));
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

assemble(summary, metrics, curves, scoreDistribution, queries, samples, features, training, descent, parameters, footer);
