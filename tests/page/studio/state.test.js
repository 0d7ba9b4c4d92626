import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { estimate } from "../../../resources/studio/estimate.js";
import { came, closed, connected, done, figureOf, isTile, LATENCIES_SHOWN, sparkline, START, started, threadsText, timeText, tokenRate } from "../../../resources/studio/state.js";

const load = { type: "load", plan: { name: "minilm" } };
const measure = { type: "measure", challenger: { workload: "matmul:8x8x8:f32", settings: "x0=8" } };
const infer = { type: "infer" };
const after = (state, request, reply) => done(started(state, request), request, reply);
const loaded = after(connected(START), load, { type: "ok" });

test("from waiting to ready, running and measuring", () => {
  assert.equal(connected(START).phase, "waiting");
  assert.equal(started(connected(START), load).phase, "loading");
  assert.deepEqual([loaded.phase, loaded.model], ["ready", "minilm"]);
  assert.equal(started(loaded, infer).phase, "running");
  const measuring = started(loaded, measure);
  assert.equal(measuring.phase, "measuring");
  assert.deepEqual(measuring.kernel, { workload: "matmul:8x8x8:f32", settings: "x0=8" });
  const measured = done(measuring, measure, { type: "measured" });
  assert.deepEqual([measured.phase, measured.measured], ["ready", 1]);
  const other = after(measured, { type: "load", plan: { name: "other" } }, { type: "ok" });
  assert.deepEqual([other.model, other.kernel, other.measured], ["other", null, 0]);
});

test("the last latencies are kept, a new model clears them", () => {
  const runs_ms = Array.from({ length: 100 }, (_, i) => i);
  const twice = [0, 1].reduce((s) => after(s, infer, { type: "inferred", runs_ms }), loaded);
  assert.equal(twice.latencies_ms.length, LATENCIES_SHOWN);
  assert.equal(twice.latencies_ms.at(-1), 99);
  assert.deepEqual(started(twice, load).latencies_ms, []);
});

test("the threads are those of the loaded model", () => {
  const two = after(loaded, load, { type: "ok", threads: 2 });
  assert.deepEqual([loaded.threads, two.threads, after(two, infer, { type: "inferred", runs_ms: [1] }).threads], [1, 2, 2]);
  assert.deepEqual([1, 2].map(threadsText), ["1 thread", "2 threads"]);
});

test("an error is shown and leaves the state as it was; a failed load leaves no model", () => {
  const failed = after(loaded, infer, { type: "error", error: "It broke.", hint: "Try again." });
  assert.deepEqual([failed.phase, failed.warning], ["ready", "It broke. Try again."]);
  const unloaded = after(loaded, load, { type: "error", error: "No.", hint: "" });
  assert.deepEqual([unloaded.phase, unloaded.model], ["waiting", ""]);
});

test("a closed link says why", () => {
  assert.deepEqual([closed(loaded, "gone").phase, closed(loaded, "gone").closed], ["closed", "gone"]);
});

test("milliseconds have three digits", () => {
  assert.deepEqual([0.005, 0.1234, 5, 12.34, 123.4].map(timeText), ["5.00 µs", "0.12 ms", "5.00 ms", "12.3 ms", "123 ms"]);
});

test("a figure has its interval; a tile of the window leaves a model's figure to the window", () => {
  const ran = after(loaded, infer, { type: "inferred", runs_ms: Array.from({ length: 20 }, (_, i) => 0.005 + i * 1e-4) });
  assert.deepEqual(figureOf(START, false), { number: "", unit: "", words: "" });
  assert.deepEqual(figureOf(ran, false), { number: "5.95", unit: "µs", words: "median of 20 · 5.50 µs to 6.40 µs" });
  assert.deepEqual(figureOf(ran, true), { number: "", unit: "", words: "times of the last 20 runs" });
  const text = [900, 20, 25].reduce((s, ms) => came(s, { type: "token", ms }), started(loaded, { type: "generate" }));
  assert.deepEqual(figureOf(text, true), { number: "44.4", unit: "tokens/s", words: "3 tokens, the last 2 · 20.0 ms to 25.0 ms" });
});

test("the address says that the page is a tile, not its size", () => {
  assert.deepEqual(["?token=x&tile", "?token=x", ""].map(isTile), [true, false, false]);
});

test("the sparkline ends at the right edge and stays inside", () => {
  const points = sparkline([1, 2, 4], 119, 50).split(" ").map((p) => p.split(",").map(Number));
  assert.deepEqual(points.map(([x]) => x), [117, 118, 119]);
  assert.ok(points.every(([, y]) => y >= 0 && y <= 50));
  assert.ok(points[0][1] > points[2][1]);
});

test("a text shows its rate, without the token that waited for the prompt", () => {
  const busy = after(loaded, infer, { type: "inferred", runs_ms: [7] });
  const generate = { type: "generate" };
  const text = [900, 20, 25, 40].reduce((s, ms) => came(s, { type: "token", ms }), started(busy, generate));
  assert.deepEqual([text.phase, text.tokens, text.latencies_ms], ["running", 4, [20, 25, 40]]);
  const rest = done(text, generate, { type: "generated", made: 4 });
  assert.deepEqual([rest.phase, rest.tokens], ["ready", 4]);
  const next = started(rest, infer);
  assert.deepEqual([next.tokens, next.latencies_ms], [0, []]);
  assert.equal(tokenRate([]), 0);
  assert.equal(Math.round(tokenRate([20, 25, 40])), 35);
  assert.equal(tokenRate([5000, ...Array(10).fill(100)]), 10, "of the last second alone");
});

test("a model on a GPU says so in the place of its threads", () => {
  const load = { type: "load", plan: { name: "m" } };
  const on = (fields) => done(started(START, load), { ...load, ...fields }, { type: "ok", threads: 2 }).backend;
  assert.equal(on({}), "");
  assert.equal(on({ backend: "webgpu", implementation: "navigator" }), "WebGPU");
  assert.equal(on({ backend: "webgpu", implementation: "bridge" }), "WebGPU through the Studio");
});

test("the latency is the median of the runs that a figure was made of, and a profiled run is none", () => {
  const infer = { type: "infer" };
  const ran = (state, runs_ms, request = infer) => done(started(state, request), request, { type: "inferred", runs_ms });
  let state = done(started(START, { type: "load", plan: { name: "m" } }), { type: "load" }, { type: "ok" });
  state = ran(state, [10.6]);
  state = ran(state, Array.from({ length: 20 }, (_, i) => 0.06 + i * 1e-4));
  state = ran(state, [4, 4, 4], { type: "infer", profile: true });
  assert.equal(state.samples_ms.length, 20);
  assert.ok(Math.abs(estimate(state.samples_ms).ms - 0.06095) < 1e-9);
  state = ran(state, [0.07]);
  assert.equal(state.samples_ms.length, 21);
});

test("the page's estimator is the Studio's", () => {
  const rows = JSON.parse(readFileSync(new URL("../../records/estimates.json", import.meta.url), "utf-8"));
  for (const { samples_ms, ms, low, high } of rows) {
    const found = estimate(samples_ms);
    assert.deepEqual([found.ms, found.low, found.high, found.count], [ms, low, high, samples_ms.length]);
  }
});

test("a model is ready once its weights are there, before anything has run it", () => {
  const weights = { type: "weights", offset: 0 };
  const sent = started(loaded, weights);
  assert.equal(sent.phase, "loading");
  assert.equal(done(sent, weights, { type: "ok" }).phase, "ready");
});
