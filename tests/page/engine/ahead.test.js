import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../../../resources/engine/engine.js";
import { generate } from "../../../resources/engine/generation/generate.js";
import { C, decode, embed, expected, FACTS, prefill, score, V } from "../decoder.js";
import { header } from "../wasm.js";

/** The Wasm engine with a follower as a GPU has one: a step's token stays inside, reads come late. */
async function following({ most = 4, spoil = -1 } = {}) {
  const engine = new Engine();
  engine.load(decode, { prefill });
  await engine.register([{ ...header("embed", 1), bytes: embed }, { ...header("score", V), bytes: score(C) }]);
  await engine.register([{ ...header("embed3", 3), bytes: embed }, { ...header("score3", V), bytes: score(3) }]);
  const log = { steps: 0, reads: [], hurried: [], closed: 0, waiting: 0, longest: 0 };
  const follower = async (inputs, { ids, logits }) => {
    const step = engine.stepper(inputs);
    const kept = [];
    let last = 0;
    return {
      most,
      async step(at, first) {
        assert.ok(at < most);
        if (!first) new DataView(inputs.find((i) => i.name === ids).data.buffer).setBigInt64(0, BigInt(last), true);
        step();
        const values = new Float32Array(engine.output(logits).data.slice().buffer);
        last = values.indexOf(Math.max(...values));
        kept[at] = { id: last, margin: log.steps++ === spoil ? NaN : 1 };
      },
      async read(count, hurried) {
        const found = kept.slice(0, count);
        log.reads.push(count);
        log.hurried.push(hurried);
        log.longest = Math.max(log.longest, ++log.waiting);
        await new Promise((resolve) => setTimeout(resolve, 1));
        log.waiting--;
        return found;
      },
      close: () => log.closed++,
    };
  };
  return { engine: Object.assign(engine, { follower }), log };
}

async function all(engine, prompt, options = {}) {
  const tokens = [];
  const made = generate(engine, { ...FACTS, rows: 3, last: "last" }, prompt, options);
  for (;;) {
    const { done, value } = await made.next();
    if (done) return { ids: tokens.map((t) => t.id), tokens, reason: value };
    tokens.push(value);
  }
}

test("tokens that are made ahead are those of single steps, to the end of the cache", async () => {
  for (const prompt of [[3], [1, 2], [5, 6, 4], [2, 3, 4, 6, 5]]) {
    const { engine, log } = await following();
    const { ids, reason, tokens } = await all(engine, prompt);
    assert.deepEqual(ids, expected(prompt, C - prompt.length + 1));
    assert.equal(reason, "full");
    assert.ok(tokens.every(({ ms }) => ms >= 0));
    assert.equal(log.steps, C - prompt.length, "no step beyond the cache");
    assert.deepEqual([log.closed, log.reads.reduce((a, b) => a + b)], [1, log.steps]);
  }
});

test("as many steps as tokens are asked for, with two groups on their way", async () => {
  const { engine, log } = await following();
  const { ids, reason } = await all(engine, [1], { maxTokens: 5 });
  assert.deepEqual([ids, reason, log.steps], [expected([1], 5), "length", 4]);
  assert.deepEqual([log.reads, log.longest], [[2, 2], 2]);
  assert.deepEqual(log.hurried, [false, true], "behind the last group the GPU has nothing to do");
  const one = await following();
  assert.deepEqual((await all(one.engine, [1], { maxTokens: 1 })).ids, expected([1], 1));
  assert.deepEqual([one.log.steps, one.log.closed], [0, 0], "one token needs no step");
});

test("a stop token ends a text in the middle of a group, and the next text starts anew", async () => {
  const { engine, log } = await following();
  const full = expected([1], C);
  const stop = await all(engine, [1], { stopTokens: [full[1]] });
  assert.deepEqual([stop.ids, stop.reason], [full.slice(0, full.indexOf(full[1]) + 1), "stop"]);
  assert.equal(log.closed, 1);
  assert.deepEqual((await all(engine, [1])).ids, full);
});

test("what draws, or changes the logits, goes step by step", async () => {
  for (const options of [{ topK: 2 }, { repetitionPenalty: 2 }]) {
    const { engine, log } = await following();
    assert.equal((await all(engine, [1], { maxTokens: 3, ...options })).ids.length, 3);
    assert.equal(log.steps, 0);
  }
});

test("logits that are no numbers are an error at their token, and a reader may leave early", async () => {
  const { engine, log } = await following({ spoil: 2 });
  const tokens = [];
  await assert.rejects(async () => {
    for await (const { id } of generate(engine, FACTS, [1])) tokens.push(id);
  }, /not numbers/);
  assert.deepEqual(tokens, expected([1], 3));
  assert.equal(log.closed, 1);
  const left = await following();
  for await (const token of generate(left.engine, FACTS, [1])) if (token) break;
  const again = [];
  for await (const { id } of generate(left.engine, FACTS, [1])) {
    again.push(id);
    if (again.length === 2) break;
  }
  assert.deepEqual([again, left.log.closed], [expected([1], 2), 2]);
});
