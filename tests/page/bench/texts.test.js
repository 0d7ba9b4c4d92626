/** How the page of `nnjit bench llama FILE` feeds ONNX Runtime Web, on a session that counts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { collect, follow } from "../../../resources/bench/texts.js";

const VOCABULARY = 8;
const FACTS = {
  ids: "input_ids",
  mask: "attention_mask",
  positions: "position_ids",
  branch: "use_cache_branch",
  logits: "logits",
  pasts: [{ input: "past", output: "present", dims: [1, 2, 0, 4] }],
  types: { input_ids: "int64", attention_mask: "int64", position_ids: "int64", use_cache_branch: "bool", past: "float32" },
};

/** The likeliest token is the last one plus one; the past holds as many rows as were read. */
function counting() {
  /** @type {any[]} */
  const seen = [];
  const feeds = (/** @type {any[]} */ inputs) => Object.fromEntries(inputs.map((i) => [i.name, i]));
  const run = async (/** @type {any} */ given) => {
    seen.push(given);
    const rows = given.input_ids.data.length;
    const logits = new Float32Array(rows * VOCABULARY);
    for (let i = 0; i < rows; i++) logits[i * VOCABULARY + ((Number(given.input_ids.data[i]) + 1) % VOCABULARY)] = 1;
    const present = { name: "past", dims: [1, 2, given.past.dims[2] + rows, 4] };
    return { logits: { data: logits, dims: [1, rows, VOCABULARY] }, present };
  };
  return { opened: /** @type {any} */ ({ session: { run }, feeds, threads: 1 }), seen };
}

test("the past of each run is the present of the run before", async () => {
  const { opened, seen } = counting();
  const text = await collect(follow(opened, FACTS, [3, 1, 4], 4));
  assert.deepEqual(text.ids, [5, 6, 7, 0]);
  assert.deepEqual(seen.map((given) => given.past.dims[2]), [0, 3, 4, 5]);
  assert.deepEqual(seen.map((given) => given.attention_mask.data.length), [3, 4, 5, 6]);
  assert.deepEqual(seen.map((given) => [...given.position_ids.data].map(Number)), [[0, 1, 2], [3], [4], [5]]);
  assert.deepEqual(seen.map((given) => given.use_cache_branch.data[0]), [0, 1, 1, 1]);
  assert.ok(text.prompt_ms >= 0 && text.decode_ms >= 0);
});

test("the time of the prompt is that of the first token, all others are decoding", async () => {
  async function* tokens() {
    for (const [i, ms] of [7, 1, 2].entries()) yield { id: i, margin: 1, ms };
  }
  const { prompt_ms, decode_ms } = await collect(tokens());
  assert.deepEqual([prompt_ms, decode_ms], [7, 3]);
});
