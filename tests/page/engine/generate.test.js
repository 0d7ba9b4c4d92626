import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../../../resources/engine/engine.js";
import { generate } from "../../../resources/engine/generation/generate.js";
import { EXTEND, MAIN, PREFILL } from "../../../resources/engine/plan.js";
import { sampler } from "../../../resources/engine/generation/sampler.js";
import { append, arena, back, C, decode, embed, expected, FACTS, port, prefill, score, state, V } from "../decoder.js";
import { bytesOf, f32, floats, header, rowAddKernel } from "../wasm.js";

async function ready(withPrefill = false) {
  const engine = new Engine();
  engine.load(decode, withPrefill ? { prefill } : {});
  await engine.register([{ ...header("embed", 1), bytes: embed }, { ...header("score", V), bytes: score(C) }]);
  if (withPrefill) await engine.register([{ ...header("embed3", 3), bytes: embed }, { ...header("score3", V), bytes: score(3) }]);
  return engine;
}

async function all(engine, prompt, options, facts = FACTS) {
  const made = generate(engine, facts, prompt, options);
  const tokens = [];
  for (;;) {
    const { done, value } = await made.next();
    if (done) return { ids: tokens.map((t) => t.id), tokens, reason: value };
    tokens.push(value);
  }
}

test("tokens follow from the whole text, and a second text starts anew", async () => {
  const engine = await ready();
  for (const prompt of [[3], [1, 2], [5, 6, 4]]) {
    const { ids, reason, tokens } = await all(engine, prompt);
    assert.deepEqual(ids, expected(prompt, C - prompt.length + 1));
    assert.equal(reason, "full");
    assert.ok(tokens.every(({ ms }) => ms >= 0));
  }
});

test("prefill writes the prompt's rows at once, and longer prompts go on by single steps", async () => {
  const engine = await ready(true);
  const facts = { ...FACTS, rows: 3, last: "last" };
  for (const prompt of [[2], [2, 3], [2, 3, 4], [2, 3, 4, 6, 5]]) {
    const { ids } = await all(engine, prompt, {}, facts);
    assert.deepEqual(ids, expected(prompt, C - prompt.length + 1), `after ${prompt}`);
  }
});

test("of a prompt's runs only the last one's logits are read", async () => {
  const engine = await ready(true);
  const read = [];
  const { output } = engine;
  engine.output = (...which) => (read.push(which[1] ?? "main"), output.apply(engine, which));
  const facts = { ...FACTS, rows: 3, last: "last" };
  for (const [prompt, plan] of [[[2, 3, 4], "prefill"], [[2, 3, 4, 6, 5], "main"]]) {
    read.length = 0;
    assert.deepEqual((await all(engine, prompt, { maxTokens: 1 }, facts)).ids, expected(prompt, 1));
    assert.deepEqual(read, [plan]);
  }
});

test("a text ends at its limit, at a stop token, when full, or when it is cancelled", async () => {
  const engine = await ready();
  const full = expected([1], C);
  assert.deepEqual((await all(engine, [1], { maxTokens: 2 })).ids, full.slice(0, 2));
  const stop = await all(engine, [1], { stopTokens: [full[1]] });
  assert.deepEqual([stop.ids, stop.reason], [full.slice(0, full.indexOf(full[1]) + 1), "stop"]);
  const control = new AbortController();
  const made = generate(engine, FACTS, [1], { signal: control.signal });
  await made.next();
  control.abort();
  assert.deepEqual(await made.next(), { value: "cancelled", done: true });
});

/** An engine that ends what is queued some ms later, as a GPU does, and counts what it has not ended. */
function queueing(capacity, rows, seen = () => {}) {
  const plan = (n, ...more) => ({ inputs: [port("ids", [1, n], "i64"), port("mask", [1, capacity], "i64"), port("slot", [1], "i64"), ...more], outputs: [port("logits", [1, 1, V], "f32")] });
  const log = { runs: [], ended: 0, most: 0 };
  const run = (name) => () => {
    seen(log.runs.push(name));
    log.most = Math.max(log.most, log.runs.length - log.ended);
  };
  const caughtUp = async () => {
    const queued = log.runs.length;
    await new Promise((resolve) => setTimeout(resolve, 2));
    log.ended = Math.max(log.ended, queued);
  };
  const output = () => ({ data: new Uint8Array(new Float32Array(V).buffer) });
  const engine = { copies: true, plans: { [MAIN]: plan(1), [PREFILL]: plan(rows), [EXTEND]: plan(rows) }, reset: () => {}, stepper: (_, name = MAIN) => run(name), output, caughtUp };
  return { engine, log, facts: { ...FACTS, capacity, rows, extends: true, last: "last" } };
}

test("a GPU has two parts of a prompt to run, or two eights of single steps, at most", async () => {
  const { engine, log, facts } = queueing(96, 8);
  await all(engine, Array(88).fill(1), { maxTokens: 1 }, facts);
  assert.deepEqual(log.runs, [PREFILL, ...Array(10).fill(EXTEND)]);
  assert.equal(log.most, 2);
  const single = queueing(96, 8);
  await all(single.engine, Array(60).fill(1), { maxTokens: 1 }, { ...single.facts, extends: false });
  assert.equal(single.log.runs.length, 1 + 52);
  assert.ok(single.log.most <= 16);
});

test("a prompt that is cancelled while it is read ends without a token", async () => {
  for (const extended of [true, false]) {
    const control = new AbortController();
    const message = new MessageChannel();
    message.port1.onmessage = () => control.abort();
    const { engine, log, facts } = queueing(96, 8, (runs) => runs === 3 && message.port2.postMessage(0));
    const { ids, reason } = await all(engine, Array(88).fill(1), { signal: control.signal }, { ...facts, extends: extended });
    message.port1.close();
    assert.deepEqual([ids, reason], [[], "cancelled"]);
    assert.ok(log.runs.length < 12, `the message has its turn between two runs: ${log.runs.length}`);
  }
});

test("prompts that no model can take are refused", async () => {
  const engine = await ready();
  await assert.rejects(all(engine, []), /prompt is empty/);
  await assert.rejects(all(engine, [V]), /7 is no token of this model.*0 to 6/);
  await assert.rejects(all(engine, [1, 1.5]), /1.5 is no token/);
  await assert.rejects(all(engine, Array(C + 1).fill(1)), /cache holds 6/);
  await assert.rejects(all(engine, [1], { maxTokens: 0 }), /maxTokens is 0/);
});

test("state outlives a run until it is reset", async () => {
  const engine = await ready();
  const i64 = (...values) => bytesOf(BigInt64Array.from(values.map(BigInt)));
  const step = (id, slot) =>
    engine.stepper([
      { name: "ids", dtype: "i64", shape: [1, 1], data: i64(id) },
      { name: "mask", dtype: "i64", shape: [1, C], data: i64(1, 1, 1, 1, 1, 1) },
      { name: "slot", dtype: "i64", shape: [1], data: i64(slot) },
    ])();
  const argmax = () => floats(engine.output("logits").data.slice()).indexOf(1);
  step(1, 0);
  step(2, 2);
  assert.equal(argmax(), (1 + 2 * 3) % V);
  engine.reset();
  step(2, 2);
  assert.equal(argmax(), (2 * 3) % V);
  for (const slot of [-1, C]) assert.throws(() => step(1, slot), /cache has 6 slots/);
});

test("rows become rows or columns of each head's cache", async () => {
  const [heads, rows, width, capacity] = [2, 3, 2, 5];
  const count = heads * rows * width;
  for (const columns of [false, true]) {
    const engine = new Engine();
    engine.load({
      ...decode,
      inputs: [port("x", [count], "f32", 0), port("slot", [1], "i64", 1)],
      outputs: [port("cache", [heads * width * capacity], "f32", 2)],
      buffers: [arena(0, count * 4), arena(64, 8), { ...state, nbytes: heads * width * capacity * 4 }],
      steps: [{ op: "append", workload: "", args: [0, 2, 1], node: "a", append: { ...append, heads, rows, width, capacity, columns } }, back],
      state_bytes: 128,
    });
    const values = Array.from({ length: count }, (_, i) => i + 1);
    const x = { name: "x", dtype: "f32", shape: [count], data: f32(...values) };
    const slot = { name: "slot", dtype: "i64", shape: [1], data: bytesOf(BigInt64Array.of(1n)) };
    const { outputs } = engine.infer([x, slot]);
    const want = Array(heads * width * capacity).fill(0);
    for (let h = 0; h < heads; h++)
      for (let r = 0; r < rows; r++)
        for (let w = 0; w < width; w++) {
          const value = values[(h * rows + r) * width + w];
          want[columns ? (h * width + w) * capacity + 1 + r : (h * capacity + 1 + r) * width + w] = value;
        }
    assert.deepEqual(floats(outputs[0].data), want);
  }
});

test("an append that does not fit its buffers is refused at load", () => {
  const broken = (change) => ({ ...decode, steps: [{ ...decode.steps[1], ...change }, back] });
  for (const change of [
    { append: { ...append, heads: 2 } },
    { append: { ...append, rows: C + 1 } },
    { append: { ...append, nbytes: 3 } },
    { append: undefined },
    { args: [3] },
  ])
    assert.throws(() => new Engine().load(broken(change)), /The step cache of the plan appends/);
});

test("plans over other weights or another state are refused", () => {
  assert.throws(() => new Engine().load(decode, { prefill: { ...prefill, state_bytes: 128 } }), /do not share/);
});

test("plans share one copy of a weight, and kernels must agree on its panels across plans", async () => {
  const [K, N] = [3, 5];
  const nbytes = 16 * K * 4;
  const plan = (workload) => ({
    version: 1,
    name: "shared",
    inputs: [port("x", [K], "f32", 1)],
    outputs: [port("y", [K, N], "f32", 2)],
    buffers: [{ region: "weight", offset: 0, nbytes, pack: [K, N] }, arena(0, 12), arena(64, 60)],
    steps: [{ op: "call", workload, args: [1, 0, 2], node: workload }, back],
    weights_bytes: nbytes,
    arena_bytes: 128,
  });
  const engine = new Engine();
  assert.equal(engine.load(plan("a"), { other: plan("b") }), 65536);
  const weight = Array.from({ length: K * N }, (_, i) => i);
  engine.setWeights(0, f32(...weight));
  const of = (workload, width) => ({ ...header(workload, K * N, width ? [[1, width]] : []), bytes: rowAddKernel(K, N, width) });
  const x = [{ name: "x", dtype: "f32", shape: [K], data: f32(0, 0, 0) }];
  await engine.register([of("a", 8)]);
  await assert.rejects(engine.register([of("b", 4)]), /Two kernels want the weight/);
  await engine.register([of("b", 8)]);
  for (const name of ["main", "other"]) assert.deepEqual(floats(engine.infer(x, { plan: name }).outputs[0].data), weight);
  await engine.register([of("b", 4)], { only: true });
  assert.deepEqual(floats(engine.infer(x, { plan: "other" }).outputs[0].data), weight);
  assert.throws(() => engine.infer(x), /No kernel is registered for a/);
  assert.throws(() => engine.infer(x, { plan: "none" }), /no plan "none".*main, other/);
});

test("greedy takes the lowest of equal logits; what is no number is an error", () => {
  const greedy = sampler({});
  assert.deepEqual(greedy(Float32Array.of(1, 3, 2, 3)), { id: 1, margin: 0 });
  assert.deepEqual(greedy(Float32Array.of(-5, -4)), { id: 1, margin: 1 });
  assert.deepEqual(greedy(Float32Array.of(-Infinity, 2, 1)), { id: 1, margin: 1 });
  assert.equal(greedy(Float32Array.of(4)).id, 0);
  for (const bad of [[NaN, 1], [1, NaN], [1, 2, 3, NaN]]) assert.throws(() => greedy(Float32Array.from(bad)), /not numbers/);
});

test("top-k draws from the k likeliest by their softmax, the same for the same seed", () => {
  const logits = Float32Array.of(0, Math.log(6), -9, Math.log(3));
  const draws = (seed, temperature = 1) => {
    const pick = sampler({ topK: 3, seed, temperature });
    return Array.from({ length: 6000 }, () => pick(logits).id);
  };
  const share = (ids, id) => ids.filter((i) => i === id).length / ids.length;
  const ids = draws(1);
  for (const [id, want] of [[0, 0.1], [1, 0.6], [3, 0.3], [2, 0]]) assert.ok(Math.abs(share(ids, id) - want) < 0.03, `${id}`);
  assert.deepEqual(draws(1), ids);
  assert.notDeepEqual(draws(2), ids);
  assert.ok(share(draws(1, 0.1), 1) > 0.99);
  for (const [name, bad] of [["topK", 0], ["temperature", 0], ["seed", 0.5]])
    assert.throws(() => sampler({ [name]: bad }), new RegExp(name, "i"));
});

test("top-p leaves the fewest that have its share", () => {
  const logits = Float32Array.of(0, Math.log(6), -9, Math.log(3));
  const drawn = (topP) => {
    const pick = sampler({ topK: 4, topP, seed: 3 });
    return new Set(Array.from({ length: 2000 }, () => pick(logits).id));
  };
  assert.deepEqual(drawn(0.5), new Set([1]));
  assert.deepEqual([...drawn(0.85)].sort(), [1, 3]);
  assert.deepEqual([...drawn(0.95)].sort(), [0, 1, 3]);
  for (const bad of [0, 1.5, NaN]) assert.throws(() => sampler({ topP: bad }), /topP/);
});

test("a repetition penalty is for tokens of the prompt and of the text, whatever their sign", () => {
  const pick = sampler({ repetitionPenalty: 2 }, [0]);
  const logits = Float32Array.of(5, 3, -1, 2);
  assert.deepEqual([pick(logits).id, pick(logits).id, pick(logits).id], [1, 0, 0]); // 5/2, then 3/2
  assert.deepEqual(Array.from(logits), [5, 3, -1, 2]);
  assert.equal(sampler({ repetitionPenalty: 3 }, [0])(Float32Array.of(-1, -2)).id, 1);
  assert.throws(() => sampler({ repetitionPenalty: 0 }), /penalty/);
});
