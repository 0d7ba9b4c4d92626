/** A decoder small enough to write by hand, for tests of the token loop. */
import { add, at, get, int, kernel, load, mul, store } from "./wasm.js";

/**
 * A "model" over a cache of one number a slot: a token's row is its id, and logits are
 * the sum over the masked slots of row * (position it sits in + 1), at vocabulary index
 * that sum mod V, 0 elsewhere. So every logit depends on each slot, its place and its mask.
 */
export const V = 7;
export const C = 6;
export const FACTS = { capacity: C, rows: 0, ids: "ids", mask: "mask", logits: "logits", positions: "", slot: "slot", last: "" };

const toFloat = (value) => [...value, 0xb2];
const toInt = (value) => [...value, 0xa8];
const load64 = (address) => [...address, 0x29, 3, 0, 0xa7]; // i64.load, wrapped
const at8 = (pointer, index) => add(get(pointer), mul(index, int(8)));
/** row[i] = f32(ids[i]) */
export const embed = kernel(2, (i) => store(at(1, i), toFloat(load64(at8(0, i)))));
/** logits[t] = 1 where t is the weighted sum mod V: args cache, mask, logits; i walks the vocabulary */
export const score = (rows) =>
  kernel(3, (i) => {
    let sum = int(0);
    for (let s = 0; s < rows; s++)
      sum = add(sum, mul(mul(toInt(load(at(0, int(s)))), load64(at8(1, int(s)))), int(s + 1)));
    const hit = [...sum, ...int(V), 0x70, ...i, 0x46]; // sum mod V == i
    return store(at(2, i), toFloat(hit));
  });

export const port = (name, shape, dtype, buffer) => ({ spec: { name, shape, dtype }, buffer });
export const arena = (offset, nbytes) => ({ region: "arena", offset, nbytes, pack: null });
export const state = { region: "state", offset: 0, nbytes: C * 4, pack: null };
export const append = { heads: 1, rows: 1, width: 1, capacity: C, nbytes: 4, columns: false };
export const back = { op: "return", workload: "", args: [], node: "" };

export const decode = {
  version: 2,
  name: "counter",
  inputs: [port("ids", [1, 1], "i64", 0), port("mask", [1, C], "i64", 1), port("slot", [1], "i64", 2)],
  outputs: [port("logits", [1, 1, V], "f32", 4)],
  buffers: [arena(0, 8), arena(64, C * 8), arena(128, 8), arena(192, 4), arena(256, V * 4), state],
  steps: [
    { op: "call", workload: "embed", args: [0, 3], node: "embed" },
    { op: "append", workload: "", args: [3, 5, 2], node: "cache", append },
    { op: "call", workload: "score", args: [5, 1, 4], node: "score" },
    back,
  ],
  weights_bytes: 0,
  arena_bytes: 320,
  state_bytes: 64,
};
export const prefill = {
  ...decode,
  inputs: [port("ids", [1, 3], "i64", 0), port("mask", [1, 3], "i64", 1), port("last", [1], "i64", 2)],
  steps: [
    { op: "call", workload: "embed3", args: [0, 3], node: "embed" },
    { op: "append", workload: "", args: [3, 5], node: "cache", append: { ...append, rows: 3 } },
    { op: "call", workload: "score3", args: [5, 1, 4], node: "score" },
    back,
  ],
  buffers: [arena(0, 24), arena(64, 24), arena(128, 8), arena(192, 12), arena(256, V * 4), state],
};

/** What follows a prompt, by the rule above. */
export function expected(prompt, count) {
  const text = [...prompt];
  for (let made = 0; made < count; made++) text.push(text.reduce((n, id, i) => n + id * (i + 1), 0) % V);
  return text.slice(prompt.length);
}
